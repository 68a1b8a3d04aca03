//! Cluster metadata: records, the immutable image they build, and the table of settings.
