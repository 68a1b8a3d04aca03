//! The HTTP listener: health and metrics.
