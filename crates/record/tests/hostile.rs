//! No bytes make the codec panic or allocate beyond its limit.

mod common;
mod survival;

use std::io::Write;

use bytes::Bytes;
use common::{any_codec, any_records, build, decode};
use flate2::write::GzEncoder;
use logway_model::{Offset, TimestampMs};
use logway_record::{
    BATCH_HEADER_BYTES, Batch, BatchBuilder, BatchHeader, Compression, DecodeLimit, Header, Record,
    RecordError, RecordProblem, validate_records_deep,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use survival::{assert_walk_agrees, read_all};

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

/// Small enough that one test can try every byte of it, for every codec.
fn small_batch(codec: Compression) -> Batch {
    let headers = [Header::new("h", Some("1".into())), Header::new("h", None)];
    let record = |offset, value: Option<&'static str>| Record {
        offset: Offset(offset),
        timestamp: TimestampMs(1_000 + offset),
        key: Some("key".into()),
        value: value.map(Bytes::from),
        headers: headers.to_vec(),
    };
    build(BatchBuilder::new(codec), &[record(0, Some("value value value")), record(1, None)])
}

/// A batch that is intact but for what is in its body.
fn batch_with_body(codec: Compression, record_count: i32, body: &[u8]) -> Batch {
    let template = small_batch(codec);
    let header = BatchHeader {
        length_bytes: i32::try_from(BATCH_HEADER_BYTES - 12 + body.len()).expect("is short"),
        record_count,
        ..*template.header()
    };
    Batch::parse([&header.encode()[..], body].concat().into()).expect("is a batch")
}

fn problem(batch: &Batch) -> Option<RecordProblem> {
    match decode(batch, DecodeLimit::DEFAULT) {
        Err(RecordError::MalformedRecord { problem, .. }) => Some(problem),
        _ => None,
    }
}

#[test]
fn every_flipped_bit_under_the_crc_is_noticed() {
    for codec in Compression::ALL {
        let good = small_batch(codec);
        for bit in 8 * 17..8 * good.size_bytes() {
            let mut bytes = good.bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let refused = match Batch::parse(bytes.clone().into()) {
                Ok(batch) => batch.verify_crc().is_err(),
                Err(_) => true,
            };
            assert!(refused, "{codec}: bit {bit}");
            read_all(bytes.into());
        }
    }
}

#[test]
fn extreme_values_of_every_byte_are_survived() {
    for codec in Compression::ALL {
        let good = small_batch(codec);
        for at in 0..good.size_bytes() {
            for value in [0, 1, 2, 0x3f, 0x40, 0x7e, 0x7f, 0x80, 0x81, 0xfe, 0xff] {
                let mut bytes = good.bytes().to_vec();
                bytes[at] = value;
                read_all(bytes.into());
            }
        }
    }
}

#[test]
fn every_truncation_is_an_error() {
    for codec in Compression::ALL {
        let good = small_batch(codec);
        for end in 0..good.size_bytes() {
            let cut = good.bytes().slice(..end);
            assert!(Batch::parse(cut.clone()).is_err(), "{codec}: {end}");
            assert_eq!(BatchHeader::parse(&cut).is_ok(), end >= BATCH_HEADER_BYTES);
        }
        // The length tells the truth here, but the records are cut off. An LZ4 frame may lack
        // its end mark.
        let body = good.body();
        let whole_bytes = body.len() - if codec == Compression::Lz4 { 4 } else { 0 };
        for end in 0..body.len() {
            let cut = batch_with_body(codec, 2, &body[..end]);
            let is_whole = decode(&cut, DecodeLimit::DEFAULT).is_ok();
            assert_eq!(is_whole, end >= whole_bytes, "{codec}: {end} of {}", body.len());
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn arbitrary_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read_all(bytes.into());
    }

    #[test]
    fn arbitrary_bodies_are_survived(
        codec in any_codec(),
        count in -1..5i32,
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        read_all(batch_with_body(codec, count, &body).bytes().clone());
    }

    #[test]
    fn what_the_encoder_makes_passes(codec in any_codec(), records in any_records()) {
        let batch = build(BatchBuilder::new(codec), &records);
        prop_assert_eq!(validate_records_deep(&batch, DecodeLimit::DEFAULT), Ok(()));
        assert_walk_agrees(&batch, DecodeLimit::DEFAULT);
    }

    /// Under its codec, so that it is the records that are damaged and not the compressed bytes.
    #[test]
    fn any_changed_byte_of_the_records_is_judged_alike(
        codec in any_codec(),
        records in any_records(),
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let sound = build(BatchBuilder::new(Compression::None), &records);
        let mut plain = sound.body().to_vec();
        let at = at.index(plain.len().min(4_096));
        plain[at] = value;
        let packed = codec.compress(plain.into());
        let header = BatchHeader {
            length_bytes: i32::try_from(BATCH_HEADER_BYTES - 12 + packed.len()).expect("is short"),
            attributes: sound.header().attributes.with_compression(codec),
            ..*sound.header()
        };
        let batch = Batch::parse([&header.encode()[..], &packed].concat().into());
        assert_walk_agrees(&batch.expect("is a batch"), DecodeLimit::DEFAULT);
    }

    #[test]
    fn several_changed_bytes_are_survived(
        codec in any_codec(),
        records in any_records(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = build(BatchBuilder::new(codec), &records).bytes().to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        read_all(bytes.into());
    }
}

#[test]
fn old_and_unknown_formats_are_told_apart_from_garbage() {
    for magic in [0u8, 1, 3, 0xff] {
        let mut bytes = small_batch(Compression::None).bytes().to_vec();
        bytes[7] = 9;
        bytes[16] = magic;
        // The shortest message of format 0 takes 26 bytes, less than a header of format 2.
        for end in [26, bytes.len()] {
            assert_eq!(
                BatchHeader::parse(&bytes[..end]),
                Err(RecordError::UnsupportedMagic { base_offset: Offset(9), magic: magic as i8 })
            );
        }
    }
}

#[test]
fn lengths_and_offsets_that_cannot_be_are_refused() {
    let good = *small_batch(Compression::None).header();
    for length_bytes in [i32::MIN, -1, 0, 48] {
        let bytes = BatchHeader { length_bytes, ..good }.encode();
        assert_eq!(
            BatchHeader::parse(&bytes),
            Err(RecordError::InvalidLength { base_offset: Offset(0), length_bytes })
        );
    }
    let longest = BatchHeader { length_bytes: i32::MAX, ..good };
    assert_eq!(longest.size_bytes(), (1 << 31) + 11);
    assert_eq!(BatchHeader::parse(&longest.encode()), Ok(longest));
    assert!(matches!(
        Batch::parse(Bytes::copy_from_slice(&longest.encode())),
        Err(RecordError::TruncatedBatch { .. })
    ));

    for (base_offset, last_offset_delta) in [(-1, 1), (0, -1), (i64::MAX - 1, 1), (i64::MIN, 0)] {
        let base_offset = Offset(base_offset);
        let bytes = BatchHeader { base_offset, last_offset_delta, ..good }.encode();
        assert_eq!(
            BatchHeader::parse(&bytes),
            Err(RecordError::InvalidOffsetRange { base_offset, last_offset_delta })
        );
    }
}

#[test]
fn bytes_after_a_single_batch_are_refused() {
    let bytes = [small_batch(Compression::None).bytes(), &b"x"[..]].concat();
    assert!(matches!(Batch::parse(bytes.into()), Err(RecordError::TrailingBytes { .. })));
}

#[test]
fn each_lie_in_a_record_has_its_name() {
    use RecordProblem::*;
    // Length, attributes, timestamp delta, offset delta, key, value, header count; zigzag.
    let lies: [(&[u8], RecordProblem); 10] = [
        (&[12, 0, 0, 0, 1, 1], BadLength { length: 6 }),
        (&[1], BadLength { length: -1 }),
        (&[0], Truncated),
        (&[6, 0, 0, 0, 1], Truncated),
        (&[12, 0, 0, 0, 12, b'k', 1, 0], BadLength { length: 6 }),
        (&[12, 0, 0, 0, 3, 1, 0], BadLength { length: -2 }),
        (&[12, 0, 0, 0, 1, 1, 1], BadHeaderCount { count: -1 }),
        (&[16, 0, 0, 0, 1, 1, 4, 0, 0], BadHeaderCount { count: 2 }),
        (&[16, 0, 0, 0, 1, 1, 2, 1, 0], BadLength { length: -1 }),
        (&[12, 0, 0, 4, 1, 1, 0], OutOfRange),
    ];
    for (index, (body, expected)) in lies.into_iter().enumerate() {
        let found = problem(&batch_with_body(Compression::None, 1, body));
        assert_eq!(found, Some(expected), "lie {index}");
    }
    let too_long = [14, 0, 0, 0, 1, 1, 0, 0xaa];
    let found = problem(&batch_with_body(Compression::None, 1, &too_long));
    assert_eq!(found, Some(Overlong { unread_bytes: 1 }));
    let more = [12, 0, 0, 0, 1, 1, 0, 0xaa];
    let found = problem(&batch_with_body(Compression::None, 1, &more));
    assert_eq!(found, Some(TrailingBytes { unread_bytes: 1 }));
}

#[test]
fn counts_that_do_not_match_the_records_are_refused() {
    let body = small_batch(Compression::None).body();
    assert!(decode(&batch_with_body(Compression::None, 2, &body), DecodeLimit::DEFAULT).is_ok());
    assert_eq!(
        decode(&batch_with_body(Compression::None, -1, &body), DecodeLimit::DEFAULT),
        Err(RecordError::InvalidRecordCount { base_offset: Offset(0), record_count: -1 })
    );
    let one = batch_with_body(Compression::None, 1, &body);
    assert!(matches!(problem(&one), Some(RecordProblem::TrailingBytes { .. })));
    for codec in Compression::ALL {
        let none = batch_with_body(codec, 0, &body);
        assert!(matches!(problem(&none), Some(RecordProblem::TrailingBytes { .. })));
        assert_eq!(decode(&batch_with_body(codec, 0, &[]), DecodeLimit::DEFAULT), Ok(vec![]));
    }
    for count in [3, i32::MAX] {
        let many = batch_with_body(Compression::None, count, &body);
        assert_eq!(problem(&many), Some(RecordProblem::Truncated));
        let records = many.records(DecodeLimit::DEFAULT).expect("is not compressed");
        assert_eq!(records.count(), 3, "two records and the error");
    }
}

#[test]
fn bombs_stop_at_the_limit() {
    let bomb = Bytes::from(vec![0; 8 << 20]);
    let limit = DecodeLimit::new(1 << 20);
    for codec in Compression::ALL.into_iter().skip(1) {
        let compressed = codec.compress(bomb.clone());
        assert_eq!(
            codec.decompress(compressed.clone(), limit),
            Err(RecordError::DecompressedTooLarge { compression: codec, limit_bytes: 1 << 20 })
        );
        let exactly = codec.decompress(compressed.clone(), DecodeLimit::new(bomb.len()));
        assert!(exactly == Ok(bomb.clone()), "{codec}");
        assert!(codec.decompress(compressed, DecodeLimit::new(bomb.len() - 1)).is_err());
    }
}

#[test]
fn a_snappy_block_is_not_believed_about_its_size() {
    // A bare block that claims 2^32 - 1 bytes, and one that claims 1 GiB, framed.
    let bare: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0x0f, 0x00];
    let framed: &[u8] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\0\0\0\x06\x80\x80\x80\x80\x04\0";
    for block in [bare, framed] {
        let refused =
            Compression::Snappy.decompress(Bytes::from_static(block), DecodeLimit::new(usize::MAX));
        assert!(matches!(refused, Err(RecordError::Decompress { .. })), "{refused:?}");
    }
}

#[test]
fn a_zstd_frame_gets_no_window_beyond_128_mib() {
    // Magic, no optional field, window of 2^(10 + the upper five bits), one empty last block.
    let frame = |window_log: u8| {
        let window = (window_log - 10) << 3;
        Bytes::from(vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, window, 0x01, 0x00, 0x00])
    };
    let read = |frame| Compression::Zstd.decompress(frame, DecodeLimit::DEFAULT);
    assert_eq!(read(frame(27)), Ok(Bytes::new()));
    assert!(matches!(read(frame(28)), Err(RecordError::Decompress { .. })));
}

#[test]
fn snappy_is_read_without_the_java_framing_too() {
    let plain = b"as librdkafka writes it, as librdkafka writes it".as_slice();
    let bare = snap::raw::Encoder::new().compress_vec(plain).expect("is short");
    let read = Compression::Snappy.decompress(bare.into(), DecodeLimit::DEFAULT);
    assert_eq!(read, Ok(Bytes::from_static(plain)));
}

#[test]
fn gzip_files_in_a_row_are_read_as_one() {
    let mut twice = Vec::new();
    for part in ["one ", "two"] {
        let mut encoder = GzEncoder::new(&mut twice, flate2::Compression::fast());
        encoder.write_all(part.as_bytes()).expect("is in memory");
        encoder.finish().expect("is in memory");
    }
    let read = Compression::Gzip.decompress(twice.into(), DecodeLimit::DEFAULT);
    assert_eq!(read, Ok(Bytes::from_static(b"one two")));
}

#[test]
fn headers_count_against_the_limit() {
    let headers = vec![Header::new("", None); 10_000];
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(TimestampMs(0), None, None, &headers).expect("fits");
    let batch = Batch::parse(builder.finish().expect("has a record")).expect("is a batch");
    let enough = DecodeLimit::new(10_000 * size_of::<Header>());
    assert_eq!(decode(&batch, enough).expect("decodes")[0].headers, headers);
    let short = DecodeLimit::new(enough.bytes() - 1);
    assert!(matches!(
        decode(&batch, short),
        Err(RecordError::MalformedRecord {
            problem: RecordProblem::BadHeaderCount { count: 10_000 },
            ..
        })
    ));
}
