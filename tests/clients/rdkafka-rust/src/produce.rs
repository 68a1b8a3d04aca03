//! The produce cases.

use crate::broker::{consume, create_topic, fresh, list_offsets, producer, send};
use crate::record::{Record, numbered};
use crate::report::{Outcome, Report};

/// A record of this size makes a batch of exactly 1,048,588 bytes, the default max.message.bytes: the batch header
/// takes 61 bytes, and a record without key and headers 11 more.
const LARGEST_VALUE_BYTES: usize = 1_048_588 - 61 - 11;
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

pub fn cases(report: &mut Report) {
    report.case("produce-none", || codec("none"));
    report.case("produce-gzip", || codec("gzip"));
    report.case("produce-snappy", || codec("snappy"));
    report.case("produce-lz4", || codec("lz4"));
    report.case("produce-zstd", || codec("zstd"));
    report.case("produce-acks-0", || round_trip(&numbered(0..1_000), &[("acks", "0")]));
    report.case("produce-acks-1", || round_trip(&numbered(0..1_000), &[("acks", "1")]));
    report.case("produce-acks-all", || round_trip(&numbered(0..1_000), &[("acks", "all")]));
    report.case("produce-idempotent", idempotent);
    report.case("produce-headers", headers);
    report.case("produce-nulls", nulls);
    report.case("produce-sizes", sizes);
    report.case("produce-auto-create", auto_create);
}

fn codec(name: &str) -> Outcome {
    round_trip(&numbered(0..10_000), &[("compression.type", name)])
}

fn round_trip(records: &[Record], settings: &[(&str, &str)]) -> Outcome {
    let topic = create_topic("round-trip", 1, &[]);
    let offsets = send(&producer(settings), &topic, 0, records)?;
    let wanted: Vec<i64> = (0..records.len() as i64).collect();
    // Without acknowledgements no offset is known.
    if !settings.contains(&("acks", "0")) {
        assert_eq!(offsets, wanted);
    }
    let received = consume(&topic, records.len())?;
    assert!(
        received.iter().map(Record::content).eq(records.iter().map(Record::content)),
        "other records came back"
    );
    assert!(received.iter().map(|record| record.offset).eq(wanted), "at other offsets");
    Ok(())
}

fn idempotent() -> Outcome {
    for codec in CODECS {
        round_trip(
            &numbered(0..5_000),
            &[("enable.idempotence", "true"), ("compression.type", codec)],
        )?;
    }
    Ok(())
}

fn headers() -> Outcome {
    let headers = [("a", "1"), ("b", ""), ("a", "2"), ("a", "1")];
    let headers = headers.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).to_vec();
    for codec in CODECS {
        let record = Record { headers: headers.clone(), ..Record::of_value(b"v".to_vec()) };
        round_trip(&[record], &[("compression.type", codec)])?;
    }
    Ok(())
}

fn nulls() -> Outcome {
    let (text, empty) = (Some(b"x".to_vec()), Some(Vec::new()));
    let pairs = [
        (None, text.clone()),
        (text.clone(), None),
        (None, None),
        (empty.clone(), empty.clone()),
        (text, empty),
    ];
    let records = pairs.map(|(key, value)| Record { key, value, ..Record::default() });
    round_trip(&records, &[])
}

fn sizes() -> Outcome {
    let topic = create_topic("sizes", 1, &[]);
    let sizes = [1, 100, 1_000, 10_000, 100_000, LARGEST_VALUE_BYTES];
    let producer = producer(&[("message.max.bytes", "2000000")]);
    for size in sizes {
        send(&producer, &topic, 0, &[Record::of_value(vec![b'x'; size])])?;
    }
    for (record, size) in consume(&topic, sizes.len())?.iter().zip(sizes) {
        assert!(
            record.value.as_ref().is_some_and(|value| *value == vec![b'x'; size]),
            "{size} bytes came back otherwise"
        );
    }
    Ok(())
}

fn auto_create() -> Outcome {
    let topic = fresh("auto-created");
    send(&producer(&[]), &topic, 0, &[Record::of_value(b"first".to_vec())])?;
    assert_eq!(list_offsets(&topic, 0)?, (0, 1));
    assert_eq!(consume(&topic, 1)?[0].value.as_deref(), Some(&b"first"[..]));
    Ok(())
}
