//! Frames that no honest peer sends: each is refused, with the reason, and nothing large is allocated.

use bytes::Bytes;
use logway_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use logway_wire::messages::{
    ApiVersionsRequest, DescribeTopicPartitionsRequest, FetchRequest, MetadataRequest,
    SaslAuthenticateRequest, UpdateRaftVoterResponse,
};
use logway_wire::{
    DecodeError, DecodeErrorKind, Decoder, Encoder, Message, RawTaggedField, decode_request_header,
};

/// Decodes a message that must fail, and returns why.
fn refusal<M: Message + std::fmt::Debug>(bytes: &[u8], version: i16) -> DecodeErrorKind {
    let mut decoder = Decoder::new(Bytes::copy_from_slice(bytes));
    M::decode(&mut decoder, version).expect_err("the bytes are malformed").kind
}

#[test]
fn counts_beyond_the_frame() {
    // The whole of a Metadata v1 request: an array of 2,147,483,647 topics.
    let kind = refusal::<MetadataRequest>(&[0x7f, 0xff, 0xff, 0xff], 1);
    let expected = DecodeErrorKind::CountTooLarge {
        count: 0x7fff_ffff,
        element_bytes_min: 2,
        remaining_bytes: 0,
    };
    assert_eq!(kind, expected);

    // The same in the flexible form: a count of 4,294,967,294.
    let kind = refusal::<MetadataRequest>(&[0xff, 0xff, 0xff, 0xff, 0x0f], 12);
    let expected = DecodeErrorKind::CountTooLarge {
        count: 0xffff_fffe,
        element_bytes_min: 18,
        remaining_bytes: 0,
    };
    assert_eq!(kind, expected);

    // Three topics of at least 2 bytes, but 5 bytes left.
    let kind = refusal::<MetadataRequest>(&[0, 0, 0, 3, 0, 0, 0, 0, 0], 1);
    assert!(
        matches!(kind, DecodeErrorKind::CountTooLarge { count: 3, remaining_bytes: 5, .. }),
        "{kind:?}"
    );
}

#[test]
fn counts_beyond_the_limit() {
    // 1000 topics without a name, which fit in the frame: 2 bytes each there, far more in memory.
    let mut bytes = vec![0; 4 + 2 * 1000];
    bytes[2..4].copy_from_slice(&1000_u16.to_be_bytes());
    let bytes = Bytes::from(bytes);
    let mut decoder = Decoder::with_limit(bytes.clone(), 10_000);
    let error = MetadataRequest::decode(&mut decoder, 1).expect_err("the limit is too small");
    assert_eq!(error.kind, DecodeErrorKind::LimitExceeded { decoded_bytes_max: 10_000 });
    assert_eq!((error.field, error.position_bytes), ("MetadataRequest.topics", 4));
    assert_eq!(decoder.decoded_bytes(), 0);

    let mut decoder = Decoder::new(bytes);
    let request = MetadataRequest::decode(&mut decoder, 1).expect("the default limit is larger");
    assert_eq!(request.topics.map(|topics| topics.len()), Some(1000));
    assert!(decoder.decoded_bytes() > 10_000);
}

#[test]
fn the_limit_is_on_the_sum_of_arrays_and_tagged_fields() {
    let tagged = || vec![RawTaggedField { tag: 9, data: Bytes::from_static(b"data") }];
    let partition = FetchPartition { unknown_tagged_fields: tagged(), ..FetchPartition::default() };
    let topic = FetchTopic { partitions: vec![partition; 3], ..FetchTopic::default() };
    let request = FetchRequest { topics: vec![topic; 2], ..FetchRequest::default() };
    let mut encoder = Encoder::new();
    request.encode(&mut encoder, 12).expect("version 12 carries this");
    let bytes = encoder.into_bytes().expect("there are no records");

    let expected_bytes = 2 * size_of::<FetchTopic>()
        + 6 * (size_of::<FetchPartition>() + size_of::<RawTaggedField>());
    let decode = |limit| FetchRequest::decode(&mut Decoder::with_limit(bytes.clone(), limit), 12);
    assert_eq!(decode(expected_bytes), Ok(request));
    let error = decode(expected_bytes - 1).expect_err("the limit is one byte too small");
    assert_eq!(
        error.kind,
        DecodeErrorKind::LimitExceeded { decoded_bytes_max: expected_bytes - 1 }
    );
    assert_eq!(error.field, "FetchPartition");
}

#[test]
fn negative_lengths() {
    assert_eq!(
        refusal::<MetadataRequest>(&[0xff, 0xff, 0xff, 0xfe], 1),
        DecodeErrorKind::NegativeLength(-2)
    );
    let topic = [0, 0, 0, 1, 0x80, 0x00, b'a', b'b'];
    assert_eq!(refusal::<MetadataRequest>(&topic, 1), DecodeErrorKind::NegativeLength(-32768));
    let token = [0x80, 0, 0, 0];
    assert_eq!(
        refusal::<SaslAuthenticateRequest>(&token, 0),
        DecodeErrorKind::NegativeLength(i32::MIN)
    );
}

#[test]
fn null_where_there_is_none() {
    assert_eq!(refusal::<MetadataRequest>(&[0xff; 4], 0), DecodeErrorKind::UnexpectedNull);
    assert_eq!(refusal::<SaslAuthenticateRequest>(&[0xff; 4], 0), DecodeErrorKind::UnexpectedNull);
    assert_eq!(refusal::<ApiVersionsRequest>(&[0, 0, 0], 3), DecodeErrorKind::UnexpectedNull);
}

#[test]
fn lengths_beyond_the_frame() {
    let kind = refusal::<SaslAuthenticateRequest>(&[0, 0, 0, 5, 1, 2], 0);
    assert_eq!(kind, DecodeErrorKind::Truncated { needed_bytes: 5, remaining_bytes: 2 });
    let kind = refusal::<ApiVersionsRequest>(&[0x05, b'a'], 3);
    assert_eq!(kind, DecodeErrorKind::Truncated { needed_bytes: 4, remaining_bytes: 1 });
}

#[test]
fn what_is_not_utf8_is_replaced_and_charged() {
    let name = |bytes: &[u8], limit_bytes| {
        let length = u8::try_from(bytes.len() + 1).expect("short");
        let frame = [&[length], bytes, &[1, 0]].concat();
        let mut decoder = Decoder::with_limit(Bytes::from(frame), limit_bytes);
        let request = ApiVersionsRequest::decode(&mut decoder, 3);
        request.map(|request| request.client_software_name.to_string()).map_err(|error| error.kind)
    };
    assert_eq!(name(&[0xc3, 0x28], 6).as_deref(), Ok("\u{fffd}("));
    // A surrogate, which only Java's modified UTF-8 has.
    assert_eq!(name(&[0xed, 0xa0, 0x80], 9).as_deref(), Ok("\u{fffd}\u{fffd}\u{fffd}"));
    let refused = Err(DecodeErrorKind::LimitExceeded { decoded_bytes_max: 5 });
    assert_eq!(name(&[0xc3, 0x28], 5), refused);
    assert_eq!(name(b"valid", 0).as_deref(), Ok("valid"), "which is no copy");

    // Two bytes short of the limit, and three times as long when replaced.
    let mut long = vec![0xfe, 0xff, 0x01];
    long.resize(3 + 0x7ffd, 0xff);
    assert_eq!(refusal::<ApiVersionsRequest>(&long, 3), DecodeErrorKind::StringTooLong(0x7ffd * 3));
}

#[test]
fn strings_that_are_too_long() {
    let mut long = vec![0x81, 0x80, 0x02];
    long.resize(3 + 0x8000, b'a');
    assert_eq!(refusal::<ApiVersionsRequest>(&long, 3), DecodeErrorKind::StringTooLong(0x8000));
}

#[test]
fn variable_length_integers_of_more_than_32_bits() {
    for bytes in [&[0xff, 0xff, 0xff, 0xff, 0x10][..], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]] {
        assert_eq!(refusal::<ApiVersionsRequest>(bytes, 3), DecodeErrorKind::VarintOverflow);
    }
    assert!(matches!(
        refusal::<ApiVersionsRequest>(&[0xff; 3], 3),
        DecodeErrorKind::Truncated { .. }
    ));
}

/// An ApiVersions v3 request with empty strings and these tagged fields.
fn api_versions_with(tagged: &[u8]) -> Vec<u8> {
    [&[0x01, 0x01], tagged].concat()
}

#[test]
fn tagged_fields_out_of_order() {
    let falling = api_versions_with(&[2, 7, 0, 6, 0]);
    let expected = DecodeErrorKind::TagOrder { tag: 6, previous: 7 };
    assert_eq!(refusal::<ApiVersionsRequest>(&falling, 3), expected);
    let twice = api_versions_with(&[2, 7, 0, 7, 0]);
    let expected = DecodeErrorKind::TagOrder { tag: 7, previous: 7 };
    assert_eq!(refusal::<ApiVersionsRequest>(&twice, 3), expected);
}

#[test]
fn tagged_fields_beyond_the_frame() {
    let many = api_versions_with(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
    let kind = refusal::<ApiVersionsRequest>(&many, 3);
    assert!(matches!(kind, DecodeErrorKind::CountTooLarge { count: 0xffff_ffff, .. }), "{kind:?}");
    let long = api_versions_with(&[1, 7, 3, 0, 0]);
    let kind = refusal::<ApiVersionsRequest>(&long, 3);
    assert_eq!(kind, DecodeErrorKind::Truncated { needed_bytes: 3, remaining_bytes: 2 });
}

#[test]
fn known_tagged_fields_keep_to_their_size() {
    // Tag 0 of the answer is a struct of leader id, leader epoch, host and port: it takes 4 + 4 + 1 + 4 + 1 bytes.
    let response = |size: u8| {
        let mut bytes = vec![0, 0, 0, 0, 0, 0, 1, 0, size];
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 3, 0]);
        // So that a larger size is not beyond the frame.
        bytes.push(0);
        bytes
    };
    let decode = |size| {
        let mut decoder = Decoder::new(response(size).into());
        UpdateRaftVoterResponse::decode(&mut decoder, 0)
            .map(|response| response.current_leader.leader_epoch)
    };
    let kind_of = |size| decode(size).map_err(|error| error.kind);
    assert_eq!(kind_of(14), Ok(2));
    assert_eq!(kind_of(15), Err(DecodeErrorKind::TrailingBytes(1)));
    assert_eq!(
        kind_of(13),
        Err(DecodeErrorKind::Truncated { needed_bytes: 1, remaining_bytes: 0 })
    );
}

#[test]
fn presence_bytes_of_nullable_structs() {
    // No topics, a limit, then the cursor.
    let request = |presence| [1, 0, 0, 0, 9, presence, 0];
    let absent = request(0xff);
    let decoded = DescribeTopicPartitionsRequest::decode(
        &mut Decoder::new(Bytes::copy_from_slice(&absent)),
        0,
    );
    assert_eq!(decoded.map(|request| request.cursor), Ok(None));
    let kind = refusal::<DescribeTopicPartitionsRequest>(&request(2), 0);
    assert_eq!(kind, DecodeErrorKind::InvalidPresence(2));
}

#[test]
fn versions_that_do_not_exist() {
    for version in [-1, 3, 19, i16::MIN, i16::MAX] {
        assert_eq!(
            refusal::<FetchRequest>(&[0; 64], version),
            DecodeErrorKind::UnsupportedVersion(version)
        );
    }
}

#[test]
fn headers_of_unknown_requests() {
    let mut decoder = Decoder::new(Bytes::from_static(&[0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff]));
    let error = decode_request_header(&mut decoder).expect_err("no API has that key");
    assert_eq!(error.kind, DecodeErrorKind::UnknownApiKey(0x7fff));
    for len in 0..8 {
        let mut decoder =
            Decoder::new(Bytes::copy_from_slice(&[0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0][..len]));
        let error: DecodeError =
            decode_request_header(&mut decoder).expect_err("the header is cut short");
        assert!(matches!(error.kind, DecodeErrorKind::Truncated { .. }), "{error}");
    }
}

#[test]
fn bytes_left_over() {
    let decoder = Decoder::new(Bytes::from_static(b"abc"));
    let error = decoder.finish("frame").expect_err("nothing was read");
    assert_eq!(error.to_string(), "frame at byte 0: 3 bytes left over");
}
