//! Codec for record batches: header view, full decode and encode, compression.
