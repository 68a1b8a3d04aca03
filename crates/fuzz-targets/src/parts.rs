//! Several pieces in one input: before each its length in two bytes, big-endian.

/// Makes one input of pieces, each of less than 64 KiB.
pub fn pack<P: AsRef<[u8]>>(pieces: &[P]) -> Vec<u8> {
    let mut input = Vec::new();
    for piece in pieces.iter().map(AsRef::as_ref) {
        let length = u16::try_from(piece.len()).expect("seeds are short");
        input.extend(length.to_be_bytes());
        input.extend(piece);
    }
    input
}

/// The pieces of an input; the last one may lack bytes.
pub(crate) fn unpack(mut input: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = input.split_first_chunk::<2>()?;
        let (piece, rest) = rest.split_at(rest.len().min(u16::from_be_bytes(*length).into()));
        input = rest;
        Some(piece)
    })
}
