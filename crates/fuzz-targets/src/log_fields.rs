//! Messages of clients of the log service, which are read field by field.

#[path = "../../logservice/src/grpc/fields.rs"]
mod fields;

use bytes::Bytes;
use fields::{Field, Fields, Malformed};

use crate::allocation::within;

/// Two messages in a row are one with the fields of both, as with all of Protocol Buffers. Nothing is allocated for a field.
pub fn log_fields(bytes: &[u8]) {
    let twice = Bytes::from([bytes, bytes].concat());
    within(1_024, || {
        let Ok(once) = fields_of(twice.slice(..bytes.len())) else { return };
        let both = fields_of(twice.clone());
        assert_eq!(both, Ok(once.map(|number| number.wrapping_mul(2))));
    });
}

/// How many fields there are, how many bytes they hold, and the sums of their numbers and values.
fn fields_of(bytes: Bytes) -> Result<[u64; 4], Malformed> {
    let mut sums = [0_u64; 4];
    for field in Fields::of(bytes) {
        let (number, field) = field?;
        let (size_bytes, value) = match field {
            Field::Varint(value) => (0, value),
            Field::Bytes(bytes) => (bytes.len() as u64, 0),
            Field::Other => (0, 0),
        };
        for (sum, more) in sums.iter_mut().zip([1, size_bytes, number.into(), value]) {
            *sum = sum.wrapping_add(more);
        }
    }
    Ok(sums)
}
