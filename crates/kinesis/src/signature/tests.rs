use hyper::Request;

use logway_security::signature_v4::Signing;

use super::*;
use crate::authentication::signed;

const SECRET: &[u8] = b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// 2015-08-30T12:36:00Z
const THEN_MS: i64 = 1_440_938_160_000;

fn head(method: &str, address: &str, headers: &[(&str, &str)]) -> Parts {
    let request = Request::builder().method(method).uri(address);
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(()).expect("it is a request").into_parts().0
}

fn verify(head: &Parts, body: &[u8], secret: &[u8]) -> Result<(), ApiError> {
    let signed = signed(&head.headers, head.uri.query())?;
    let scope = Scope::parse(&signed.credential)?;
    Verifier { scope, signed: &signed, head }.verify(secret, body)
}

fn authorization(signed_headers: &str, signature: &str) -> String {
    let scope = "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request";
    format!("{ALGORITHM} Credential={scope}, SignedHeaders={signed_headers}, Signature={signature}")
}

/// Signatures of AWS's own test suite ("get-vanilla", "post-vanilla").
#[test]
fn signatures_are_awss() {
    let cases = [
        ("GET", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    ];
    for (method, signature) in cases {
        let authorization = authorization("host;x-amz-date", signature);
        let headers = [
            ("host", "example.amazonaws.com"),
            ("x-amz-date", "20150830T123600Z"),
            ("authorization", &authorization),
        ];
        let head = head(method, "/", &headers);
        assert_eq!(verify(&head, b"", SECRET), Ok(()), "{method}");
        assert!(verify(&head, b"x", SECRET).is_err(), "the body is another");
        assert!(verify(&head, b"", b"another secret").is_err());
    }
}

#[test]
fn the_host_may_be_in_the_address() {
    let signature = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b";
    let authorization = authorization("host;x-amz-date", signature);
    let headers = [("x-amz-date", "20150830T123600Z"), ("authorization", &*authorization)];
    assert_eq!(
        verify(&head("POST", "http://example.amazonaws.com/", &headers), b"", SECRET),
        Ok(())
    );
    assert!(verify(&head("POST", "http://other.amazonaws.com/", &headers), b"", SECRET).is_err());
}

fn judged(change: impl Fn(&mut Vec<(&str, String)>)) -> Result<(), ApiError> {
    let scope = "AKID/20150830/us-east-1/kinesis/aws4_request";
    let signed_headers = "host;x-amz-date;x-amz-target";
    let authorization =
        format!("{ALGORITHM} Credential={scope}, SignedHeaders={signed_headers}, Signature=00");
    let mut headers = vec![
        ("host", "localhost".to_owned()),
        ("x-amz-date", "20150830T123600Z".to_owned()),
        ("x-amz-target", "Kinesis_20131202.ListStreams".to_owned()),
        ("authorization", authorization),
    ];
    change(&mut headers);
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (*name, &**value)).collect();
    let head = head("POST", "/", &headers);
    let signed = signed(&head.headers, head.uri.query())?;
    Verifier::new("kinesis", &signed, &head, THEN_MS).map(|_| ())
}

/// What is said when one thing about a request is another.
fn told(name: &str, from: &str, to: &str) -> String {
    let told = judged(|headers| {
        let header = headers.iter_mut().find(|(it, _)| *it == name).expect("it is there");
        header.1 = header.1.replace(from, to);
    });
    told.expect_err("it is not as it has to be").message.expect("it says why")
}

#[test]
fn what_a_signature_is_for_is_judged_before_the_secret_is_looked_up() {
    assert_eq!(judged(|_| {}), Ok(()));
    let of_scope = |from, to| told("authorization", from, to);
    assert_eq!(
        of_scope("/kinesis/", "/s3/"),
        "Credential should be scoped to correct service: 'kinesis'. "
    );
    assert!(
        of_scope("aws4_request", "aws5").contains("valid terminator: 'aws4_request', not 'aws5'")
    );
    assert!(of_scope("/us-east-1", "").contains("exactly 5 slash-delimited elements"));
    assert!(
        of_scope("/20150830/", "/20150831/")
            .contains("'20150831' != '20150830', from '20150830T123600Z'")
    );
    assert!(of_scope("HMAC-SHA256", "ECDSA").starts_with("Unsupported AWS 'algorithm'"));
    assert!(of_scope("host;", "").starts_with("'Host' or ':authority' must be"));
    assert!(of_scope(";x-amz-target", "").ends_with("were not signed: x-amz-target"));
    assert!(of_scope("host;", "host;host;").starts_with("SignedHeaders must be in order"));
    assert!(told("x-amz-date", "20150830", "2015-08-30").starts_with("Date must be in ISO-8601"));
}

#[test]
fn a_signature_is_good_for_five_minutes() {
    assert_eq!(
        told("x-amz-date", "T1236", "T1230"),
        "Signature expired: 20150830T123000Z is now earlier than 20150830T123100Z (20150830T123600Z - 5 min.)"
    );
    assert_eq!(
        told("x-amz-date", "T1236", "T1242"),
        "Signature not yet current: 20150830T124200Z is still later than 20150830T124100Z (20150830T123600Z + 5 min.)"
    );
    let at = |time: &'static str| judged(|headers| headers[1].1 = time.to_owned()).is_ok();
    assert!(at("20150830T123100Z") && at("20150830T124100Z"));
}

#[test]
fn paths_and_parameters_are_made_canonical() {
    for (path, canonical) in [
        ("/", "/"),
        ("//", "/"),
        ("/a/../b/./c/", "/b/c/"),
        ("/a%20b", "/a%2520b"),
        ("/../..", "/"),
    ] {
        assert_eq!(canonical_path(path), canonical, "{path}");
    }
    assert_eq!(canonical_query("b=2&a=%2f&X-Amz-Signature=0&c&a=1"), "a=%2F&a=1&b=2&c=");
    assert_eq!(percent_decoded("%4a%zz%"), b"J%zz%");
}

#[test]
fn times_are_read_as_they_are_written() {
    assert_eq!(parse_time("20150830T123600Z"), Some(THEN_MS));
    assert_eq!(
        parse_time("20000229T000000Z").map(format_time).as_deref(),
        Some("20000229T000000Z")
    );
    for wrong in ["", "20150830T123600", "20151330T123600Z", "2015083éT12360Z", "20150830 123600Z"]
    {
        assert_eq!(parse_time(wrong), None, "{wrong}");
    }
}

#[test]
fn what_is_signed_here_is_verified() {
    let time = "20150830T123600Z";
    let body = br#"{"StreamName":"clicks"}"#;
    let headers = [
        ("content-type", "application/x-amz-json-1.1"),
        ("host", "example.amazonaws.com"),
        ("x-amz-date", time),
        ("x-amz-target", "Kinesis_20131202.DescribeStream"),
    ];
    let signing = Signing {
        key_id: "AKIDEXAMPLE",
        secret: SECRET,
        region: "us-east-1",
        service: "kinesis",
        time,
    };
    let authorization = signing.authorization("POST", "/", "", &headers, &body_hash(body));
    let all: Vec<_> = headers.into_iter().chain([("authorization", &*authorization)]).collect();
    let head = head("POST", "/", &all);
    assert_eq!(verify(&head, body, SECRET), Ok(()));
    assert!(verify(&head, b"{}", SECRET).is_err());
    assert!(verify(&head, body, b"another").is_err());
}
