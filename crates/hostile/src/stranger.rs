//! What somebody says who has no password.

use logway_log::fs::sim::Rng;
use logway_wire::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use logway_wire::{ApiKey, Request, encode_request};

use crate::{Corpus, Frame, Session};

/// The first three are those that brokers of the tests have enabled.
const MECHANISMS: [&str; 6] =
    ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", ""];

/// Larger than a stranger's frames may be.
const LARGE_TOKEN_BYTES: usize = 32 << 10;

/// A session of handshakes and tokens, before it is mutated, that nobody gets in by. A request of a client that is known is
/// at its end.
pub(crate) fn session(corpus: &Corpus, user: &str, random: &mut Rng) -> Session {
    let mut frames = Vec::new();
    if random.coin() {
        let versions = corpus.session(random).frames.into_iter();
        frames.extend(versions.filter(|frame| is_of(frame, ApiKey::ApiVersions)).take(1));
    }
    let candidates = if random.below(8) == 0 { MECHANISMS.len() } else { 3 };
    let mechanism = MECHANISMS[random.below(candidates)];
    let is_raw = random.below(4) == 0;
    let handshake = SaslHandshakeRequest { mechanism: mechanism.into(), ..Default::default() };
    frames.push(frame(i16::from(!is_raw), &handshake));
    let version = random.below(3) as i16;
    for token in tokens(mechanism, user, random) {
        frames.push(match is_raw {
            true => Frame::new(token),
            false => {
                let auth_bytes = token.into();
                frame(version, &SaslAuthenticateRequest { auth_bytes, ..Default::default() })
            }
        });
    }
    frames.push(corpus.request(random));
    Session { frames, cut_bytes: 0 }
}

/// Tokens of a mechanism, one after the other, of a user or of somebody who does not exist.
fn tokens(mechanism: &str, user: &str, random: &mut Rng) -> Vec<Vec<u8>> {
    let name = if random.coin() { user } else { "nobody" };
    let large = || "x".repeat(LARGE_TOKEN_BYTES);
    let text = |words: String| words.into_bytes();
    match (mechanism, random.below(8)) {
        (_, 0) => vec![text(large())],
        ("PLAIN", 1) => vec![text(format!("{user}\0{name}\0wrong"))],
        ("PLAIN", _) => vec![text(format!("\0{name}\0wrong"))],
        ("OAUTHBEARER", _) => vec![
            text("n,,\u{1}auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.\u{1}\u{1}".to_owned()),
            text("\u{1}".to_owned()),
        ],
        (_, 1) => vec![text(format!("n,,n={name},r={}", "r".repeat(1 + random.below(2_000))))],
        (_, 2) => vec![text(format!("n,,n={name},r=abc,tokenauth=true"))],
        // Iterations are the server's word, and no client's.
        (_, 3) => vec![text(format!("n,,n={name},r=abc,i=2147483647"))],
        (_, _) => {
            vec![text(format!("n,,n={name},r=abc")), text("c=biws,r=abc,p=bm8gcHJvb2Y=".to_owned())]
        }
    }
}

fn is_of(frame: &Frame, api_key: ApiKey) -> bool {
    frame.request().is_some_and(|(of, _)| of == api_key)
}

fn frame<R: Request>(version: i16, request: &R) -> Frame {
    let encoded = encode_request(0, None, version, request).expect("the version has this");
    // Without the length.
    Frame::new(&encoded.bytes[4..])
}
