//! OAUTHBEARER (RFC 7628): a token that an authority has signed.
//!
//! ```text
//! n,[a=identity],^A auth=Bearer TOKEN ^A [key=value ^A]... ^A
//! ```
//!
//! Who is not believed gets a challenge with an error in JSON, answers it with ^A, and is refused then.

use super::{Known, Refusal, Step};
use crate::bearer::BearerTokens;

/// What a client is told that is not believed: RFC 7628 has no more for it.
pub(super) const INVALID: &[u8] = b"{\"status\":\"invalid_token\"}";

/// Looks at the client's first message.
pub(super) fn check(message: &[u8], tokens: Option<&BearerTokens>) -> Result<Step, Refusal> {
    let tokens = tokens.ok_or_else(|| Refusal::new("there are no keys of an authority"))?;
    let text = std::str::from_utf8(message).map_err(|_| Refusal::new("the token is no UTF-8"))?;
    let (identity, token) = parts(text).ok_or_else(|| Refusal::new("it is no such message"))?;
    let bearer = tokens.judge(token).map_err(Refusal::new)?;
    if identity.is_some_and(|identity| identity != bearer.user) {
        let reason = "it wants to act for another user";
        return Err(Refusal { user: Some(bearer.user), reason });
    }
    let known = Known { user: bearer.user, expires: Some(bearer.expires), is_delegate: false };
    Ok(Step::Done { known, token: Vec::new() })
}

/// The identity that a client wants, if it says one, and its token.
fn parts(text: &str) -> Option<(Option<&str>, &str)> {
    let (head, pairs) = text.split_once('\u{1}')?;
    let identity = head.strip_prefix("n,")?.strip_suffix(',')?;
    let identity = match identity {
        "" => None,
        named => Some(named.strip_prefix("a=")?),
    };
    let pairs = pairs.strip_suffix("\u{1}\u{1}")?;
    let mut token = None;
    for pair in pairs.split('\u{1}') {
        let (key, value) = pair.split_once('=')?;
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return None;
        }
        if key == "auth" {
            let (scheme, of_scheme) = value.split_once(' ')?;
            let is_first = token.replace(of_scheme.trim()).is_none();
            if !scheme.eq_ignore_ascii_case("bearer") || !is_first {
                return None;
            }
        }
    }
    Some((identity, token?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_a_token_and_perhaps_more() {
        let one = Some((None, "x.y.z"));
        assert_eq!(parts("n,,\u{1}auth=Bearer x.y.z\u{1}\u{1}"), one);
        assert_eq!(parts("n,,\u{1}a=b\u{1}auth=bearer x.y.z\u{1}c=\u{1}\u{1}"), one);
        let named = parts("n,a=alice,\u{1}auth=Bearer x\u{1}\u{1}");
        assert_eq!(named, Some((Some("alice"), "x")));
        for wrong in [
            "",
            "n,,",
            "n,,\u{1}\u{1}",
            "n,,\u{1}\u{1}\u{1}",
            "y,,\u{1}auth=Bearer x\u{1}\u{1}",
            "n,b=c,\u{1}auth=Bearer x\u{1}\u{1}",
            "n,,\u{1}auth=Bearer x\u{1}",
            "n,,\u{1}auth=Basic x\u{1}\u{1}",
            "n,,\u{1}auth=Bearer\u{1}\u{1}",
            "n,,\u{1}auth=Bearer x\u{1}auth=Bearer y\u{1}\u{1}",
            "n,,\u{1}1=b\u{1}auth=Bearer x\u{1}\u{1}",
        ] {
            assert_eq!(parts(wrong), None, "{wrong:?}");
        }
    }
}
