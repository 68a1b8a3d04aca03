//! The broker: connections, request handlers, partitions.
