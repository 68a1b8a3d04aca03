//! The bound on what decoding may allocate, or a walk may unpack.

/// How much memory decoding a batch may take beyond the bytes of the batch. For a walk, which keeps
/// nothing, it bounds the time.
///
/// It bounds what the compressed records decompress to, and what the headers of a record take
/// once decoded. A batch of 1 MiB can decompress to more than 1 GiB, and nothing but such a limit
/// tells a bomb from a client that sends zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimit {
    bytes: usize,
}

impl DecodeLimit {
    /// 128 MiB: 128 times what a message is by default allowed to have.
    pub const DEFAULT: DecodeLimit = DecodeLimit::new(128 << 20);

    /// 1 GiB, for walks: what a leader lets a batch unpack to, and so what a walk over batches of a
    /// log must get past. Kafka has no limit. It is what `max.message.bytes` of 1 MiB holds at a
    /// thousand to one, which is as far as gzip gets with zeros, and takes some tenths of a second.
    pub const BATCH_MAX: DecodeLimit = DecodeLimit::new(1 << 30);

    /// A limit of so many bytes.
    pub const fn new(bytes: usize) -> DecodeLimit {
        DecodeLimit { bytes }
    }

    /// The limit in bytes.
    pub const fn bytes(self) -> usize {
        self.bytes
    }
}

impl Default for DecodeLimit {
    fn default() -> DecodeLimit {
        DecodeLimit::DEFAULT
    }
}
