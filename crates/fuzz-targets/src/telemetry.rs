//! What clients push of their own metrics.

#[path = "../../kafka/src/telemetry/otlp.rs"]
mod otlp;

use otlp::{NotMetrics, for_each_sample};

use crate::allocation::within;

/// OpenTelemetry's metrics: two pushes in a row are one with the numbers of both, as with all of Protocol Buffers.
pub fn telemetry(bytes: &[u8]) {
    within((64 << 10) + 1_000 * bytes.len(), || {
        let Ok(once) = samples(bytes) else { return };
        assert_eq!(samples(&[bytes, bytes].concat()), Ok([&once[..], &once].concat()));
    });
}

/// Name, attributes, the value's bits, and whether it is a delta.
type Sample = (String, Vec<(String, String)>, u64, bool);

fn samples(bytes: &[u8]) -> Result<Vec<Sample>, NotMetrics> {
    let mut samples = Vec::new();
    for_each_sample(bytes, |sample| {
        let attributes = sample.attributes.into_iter();
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value)).collect();
        samples.push((sample.name.to_owned(), attributes, sample.value.to_bits(), sample.is_delta));
    })?;
    Ok(samples)
}
