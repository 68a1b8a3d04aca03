//! Frames and messages whose bytes are spelled out, and values that a version cannot carry.

use bytes::Bytes;
use logway_wire::messages::fetch_response::{
    EpochEndOffset, FetchableTopicResponse, PartitionData,
};
use logway_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, FetchRequest, FetchResponse, MetadataRequest,
    ProduceRequest, RequestHeader,
};
use logway_wire::{
    ApiKey, DecodeError, Decoder, EncodeError, Encoder, Hole, Message, RawTaggedField, Records,
    WireString, decode_request_header, decode_response_header, encode_request, encode_response,
    request_header_version, response_header_version,
};

fn encode(message: &impl Message, version: i16) -> Result<Bytes, EncodeError> {
    let mut encoder = Encoder::new();
    message.encode(&mut encoder, version)?;
    encoder.into_bytes()
}

fn decode<M: Message>(bytes: &Bytes, version: i16) -> Result<M, DecodeError> {
    let mut decoder = Decoder::new(bytes.clone());
    let message = M::decode(&mut decoder, version)?;
    decoder.finish(M::NAME)?;
    Ok(message)
}

fn raw(tag: u32, data: &'static [u8]) -> RawTaggedField {
    RawTaggedField { tag, data: Bytes::from_static(data) }
}

/// What a client asks first: ApiVersions 3, whose client id keeps the old form in a flexible header.
const API_VERSIONS_FRAME: &[u8] = b"\
    \0\0\0\x1b\
    \0\x12\0\x03\0\0\0\x07\0\x03cli\0\
    \x08logway1\x040.1\0";

#[test]
fn request_frame() {
    let request = ApiVersionsRequest {
        client_software_name: "logway1".into(),
        client_software_version: "0.1".into(),
        ..ApiVersionsRequest::default()
    };
    let encoded =
        encode_request(7, Some(&"cli".into()), 3, &request).expect("version 3 carries this");
    assert_eq!(encoded.bytes, API_VERSIONS_FRAME);
    assert_eq!(encoded.holes, []);

    let mut decoder = Decoder::new(encoded.bytes.slice(4..));
    let (api_key, header) = decode_request_header(&mut decoder).expect("the header is well formed");
    let expected = RequestHeader {
        request_api_key: 18,
        request_api_version: 3,
        correlation_id: 7,
        client_id: Some("cli".into()),
        unknown_tagged_fields: Vec::new(),
    };
    assert_eq!((api_key, header), (ApiKey::ApiVersions, expected));
    assert_eq!(ApiVersionsRequest::decode(&mut decoder, 3), Ok(request));
    assert_eq!(decoder.finish("frame"), Ok(()));
}

#[test]
fn response_frame() {
    // A flexible message behind a header that is not.
    let response = ApiVersionsResponse { error_code: 35, ..ApiVersionsResponse::default() };
    let encoded = encode_response(7, 3, &response).expect("version 3 carries this");
    assert_eq!(encoded.bytes, &b"\0\0\0\x0c\0\0\0\x07\0\x23\x01\0\0\0\0\0"[..]);

    let mut decoder = Decoder::new(encoded.bytes.slice(4..));
    let header = decode_response_header(&mut decoder, ApiKey::ApiVersions, 3);
    assert_eq!(header.map(|header| header.correlation_id), Ok(7));
    assert_eq!(ApiVersionsResponse::decode(&mut decoder, 3), Ok(response));
}

#[test]
fn header_versions() {
    let versions = |api_key, version| {
        (request_header_version(api_key, version), response_header_version(api_key, version))
    };
    assert_eq!(versions(ApiKey::Produce, 8), (1, 0));
    assert_eq!(versions(ApiKey::Produce, 9), (2, 1));
    assert_eq!(versions(ApiKey::SaslHandshake, 1), (1, 0));
    assert_eq!(versions(ApiKey::ApiVersions, 2), (1, 0));
    assert_eq!(versions(ApiKey::ApiVersions, 3), (2, 0));
    // A version of the future is taken for a flexible one.
    assert_eq!(versions(ApiKey::ApiVersions, 99), (2, 0));
    assert_eq!(versions(ApiKey::ApiVersions, -1), (1, 0));
}

#[test]
fn api_keys() {
    assert_eq!(ApiKey::from_id(0), Some(ApiKey::Produce));
    assert_eq!(ApiKey::from_id(7), None, "ControlledShutdown has no version left");
    assert_eq!(ApiKey::from_id(-1), None);
    assert_eq!((ApiKey::Fetch.oldest(), ApiKey::Fetch.latest()), (4, 18));
    assert_eq!(ApiKey::Fetch.name(), "Fetch");
    for api_key in ApiKey::ALL {
        assert_eq!(ApiKey::from_id(api_key.id()), Some(api_key));
    }
}

#[test]
fn arrays_tell_null_from_empty() {
    let request = |topics| MetadataRequest { topics, ..MetadataRequest::default() };
    let (all, none) = (request(None), request(Some(Vec::new())));
    assert_eq!(encode(&all, 1).as_deref(), Ok(&[0xff, 0xff, 0xff, 0xff][..]));
    assert_eq!(encode(&none, 1).as_deref(), Ok(&[0, 0, 0, 0][..]));
    assert_eq!(encode(&all, 9).as_deref(), Ok(&[0, 1, 0, 0, 0][..]));
    let expected = EncodeError::UnexpectedNull { field: "MetadataRequest.topics", version: 0 };
    assert_eq!(encode(&all, 0), Err(expected));
}

#[test]
fn unknown_tagged_fields_go_between_the_known_ones() {
    // Numbers, two arrays and a string, all zero or empty; then four tagged fields, of which 0 and 1 are known.
    let fields: &[u8] = &[&[0; 21][..], &[1, 1, 1]].concat();
    let cluster_id: &[u8] = b"\0\x02\x02c";
    let replica_state: &[u8] = b"\x01\x0d\0\0\0\x05\0\0\0\0\0\0\0\x06\0";
    let unknown: &[u8] = b"\x02\0\x80\x01\x03xyz";
    let bytes = Bytes::from([fields, &[4], cluster_id, replica_state, unknown].concat());
    let request: FetchRequest = decode(&bytes, 15).expect("the bytes are well formed");
    assert_eq!(request.cluster_id.as_deref(), Some("c"));
    assert_eq!((request.replica_state.replica_id, request.replica_state.replica_epoch), (5, 6));
    assert_eq!(request.unknown_tagged_fields, [raw(2, b""), raw(128, b"xyz")]);
    assert_eq!(encode(&request, 15), Ok(bytes.clone()));

    // Version 12 does not know tag 1, so the field is kept as it came.
    let mut older = bytes.to_vec();
    older.splice(0..0, (-1_i32).to_be_bytes());
    let older = Bytes::from(older);
    let request: FetchRequest = decode(&older, 12).expect("unknown tags are no error");
    assert_eq!(request.unknown_tagged_fields.len(), 3);
    assert_eq!(encode(&request, 12), Ok(older));
}

#[test]
fn tagged_fields_of_more_than_127_bytes() {
    let request = FetchRequest {
        cluster_id: Some(WireString::from("c".repeat(300))),
        unknown_tagged_fields: (10..200).map(|tag| raw(tag, b"data")).collect(),
        ..FetchRequest::default()
    };
    let bytes = encode(&request, 18).expect("version 18 carries this");
    assert_eq!(decode(&bytes, 18), Ok(request));
}

#[test]
fn unknown_tagged_fields_that_cannot_be_written() {
    let request = |tags: &[u32]| FetchRequest {
        unknown_tagged_fields: tags.iter().map(|tag| raw(*tag, b"")).collect(),
        cluster_id: Some("c".into()),
        ..FetchRequest::default()
    };
    let order = |tag| Err(EncodeError::TagOrder { field: "FetchRequest", tag });
    assert_eq!(encode(&request(&[9, 8]), 18), order(8));
    assert_eq!(encode(&request(&[9, 9]), 18), order(9));
    assert_eq!(encode(&request(&[0]), 18), order(0));
    let expected = EncodeError::UnsupportedField { field: "FetchRequest", version: 11 };
    assert_eq!(encode(&request(&[9]), 11), Err(expected));
}

#[test]
fn fields_that_a_version_lacks() {
    // Ignorable: dropped.
    let request = FetchRequest { rack_id: "r".into(), ..FetchRequest::default() };
    assert_eq!(encode(&request, 10), encode(&FetchRequest::default(), 10));
    assert_ne!(encode(&request, 11), encode(&FetchRequest::default(), 11));
    // Not ignorable: refused, unless it has its default.
    let request = FetchRequest { replica_id: 3, ..FetchRequest::default() };
    let expected = EncodeError::UnsupportedField { field: "FetchRequest.replica_id", version: 15 };
    assert_eq!(encode(&request, 15), Err(expected));
    assert!(encode(&request, 14).is_ok());
    // The same for a tagged field.
    let diverging_epoch = EpochEndOffset { epoch: 1, ..EpochEndOffset::default() };
    let response = fetch_response(PartitionData { diverging_epoch, ..PartitionData::default() });
    let expected =
        EncodeError::UnsupportedField { field: "PartitionData.diverging_epoch", version: 11 };
    assert_eq!(encode(&response, 11), Err(expected));
    assert!(encode(&response, 12).is_ok());
}

#[test]
fn values_that_no_version_carries() {
    let request = |id: String| ProduceRequest {
        transactional_id: Some(id.into()),
        ..ProduceRequest::default()
    };
    let expected = EncodeError::TooLong { field: "ProduceRequest.transactional_id", length: 32768 };
    for version in [8, 9] {
        assert!(encode(&request("x".repeat(32767)), version).is_ok());
        assert_eq!(encode(&request("x".repeat(32768)), version), Err(expected.clone()));
    }
    let expected = EncodeError::UnsupportedVersion { message: "ProduceRequest", version: 2 };
    assert_eq!(encode(&ProduceRequest::default(), 2), Err(expected));
}

/// A response with one partition.
fn fetch_response(partition: PartitionData) -> FetchResponse {
    let topic =
        FetchableTopicResponse { partitions: vec![partition], ..FetchableTopicResponse::default() };
    FetchResponse { responses: vec![topic], ..FetchResponse::default() }
}

/// A response with partitions that have these records.
fn fetch_response_with(records: impl IntoIterator<Item = Records>) -> FetchResponse {
    let partition = |records| PartitionData { records: Some(records), ..PartitionData::default() };
    let mut response = fetch_response(PartitionData::default());
    response.responses[0].partitions = records.into_iter().map(partition).collect();
    response
}

#[test]
fn records_outside_memory_leave_holes() {
    let batches = [b"first".repeat(9), Vec::new(), b"second batch".repeat(40)];
    let external = batches
        .iter()
        .enumerate()
        .map(|(token, batch)| Records::External { len_bytes: batch.len(), token: token + 70 });
    for version in [4, 11, 12, 18] {
        let with_holes = encode_response(1, version, &fetch_response_with(external.clone()));
        let with_holes = with_holes.expect("every version carries records");
        let in_memory = batches.iter().map(|batch| Records::from(Bytes::from(batch.clone())));
        let whole =
            encode_response(1, version, &fetch_response_with(in_memory)).expect("so does this");
        let tokens: Vec<_> =
            with_holes.holes.iter().map(|hole| (hole.token, hole.len_bytes)).collect();
        assert_eq!(tokens, [(70, 45), (71, 0), (72, 480)]);

        let mut filled = Vec::new();
        let mut position = 0;
        for Hole { position_bytes, token, .. } in with_holes.holes {
            filled.extend_from_slice(&with_holes.bytes[position..position_bytes]);
            filled.extend_from_slice(&batches[token - 70]);
            position = position_bytes;
        }
        filled.extend_from_slice(&with_holes.bytes[position..]);
        assert_eq!(filled, whole.bytes, "version {version}");
    }
}

#[test]
fn records_outside_memory_are_not_bytes() {
    let response = fetch_response_with([Records::External { len_bytes: 1, token: 0 }]);
    assert_eq!(encode(&response, 12), Err(EncodeError::UnexpectedHole));
}

#[test]
fn decoded_records_are_a_slice_of_the_frame() {
    let response = fetch_response_with([Records::from(Bytes::from_static(b"batch"))]);
    let frame = encode(&response, 12).expect("version 12 carries this");
    let decoded: FetchResponse = decode(&frame, 12).expect("it was just encoded");
    let records =
        decoded.responses[0].partitions[0].records.clone().expect("the records are not null");
    let bytes = records.into_bytes().expect("decoded records are in memory");
    assert_eq!(bytes, &b"batch"[..]);
    assert!(frame.as_ptr_range().contains(&bytes.as_ptr()));
}
