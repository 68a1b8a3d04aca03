//! The forward protocol's handshake.
//!
//! | handshake | message |
//! |---|---|
//! | server | `["HELO", {nonce, auth, keepalive}]` |
//! | client | `["PING", hostname, salt, sha512(salt hostname nonce key), user, sha512(auth user password)]` |
//! | server | `["PONG", is_good, reason, hostname, sha512(salt hostname nonce key)]` |

use sha2::{Digest, Sha512};

use crate::codec::Malformed;
use crate::codec::msgpack::{Token, Tokens, put_array, put_binary, put_bool, put_map, put_text};

/// Who knows a key, and perhaps a user's password.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) shared_key: String,
    /// Names and passwords; if there are none, nobody is asked.
    pub(crate) users: Vec<(String, String)>,
    pub(crate) hostname: String,
}

/// What a server says first, anew for each connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Greeting {
    pub(crate) nonce: [u8; 16],
    pub(crate) salt: [u8; 16],
}

impl Gate {
    /// `HELO`.
    pub(crate) fn greet(&self, greeting: &Greeting) -> Vec<u8> {
        let mut out = Vec::new();
        put_array(&mut out, 2);
        put_text(&mut out, "HELO");
        put_map(&mut out, 3);
        put_text(&mut out, "nonce");
        put_binary(&mut out, &greeting.nonce);
        put_text(&mut out, "auth");
        put_binary(&mut out, self.salt(greeting));
        put_text(&mut out, "keepalive");
        put_bool(&mut out, true);
        out
    }

    fn salt<'a>(&self, greeting: &'a Greeting) -> &'a [u8] {
        if self.users.is_empty() { &[] } else { &greeting.salt }
    }

    /// What is answered to a `PING`, and whether who sent it may come in, or why not.
    pub(crate) fn judge(
        &self,
        ping: &[u8],
        greeting: &Greeting,
    ) -> (Vec<u8>, Result<(), Malformed>) {
        let salt_and_verdict = self.verdict(ping, greeting);
        let (salt, verdict) = match salt_and_verdict {
            Ok(salt) => (salt, Ok(())),
            Err(why) => (Vec::new(), Err(why)),
        };
        let mut out = Vec::new();
        put_array(&mut out, 5);
        put_text(&mut out, "PONG");
        put_bool(&mut out, verdict.is_ok());
        put_text(&mut out, &verdict.as_ref().err().map_or(String::new(), Malformed::to_string));
        put_text(&mut out, &self.hostname);
        let digest = match &verdict {
            Ok(()) => self.digest(&salt, self.hostname.as_bytes(), greeting),
            Err(_) => String::new(),
        };
        put_text(&mut out, &digest);
        (out, verdict)
    }

    fn digest(&self, salt: &[u8], hostname: &[u8], greeting: &Greeting) -> String {
        digest(&[salt, hostname, &greeting.nonce, self.shared_key.as_bytes()])
    }

    /// The client's salt, if all is well.
    fn verdict(&self, ping: &[u8], greeting: &Greeting) -> Result<Vec<u8>, Malformed> {
        let mut tokens = Tokens(ping);
        if tokens.next()? != Token::Array(6) || tokens.next()? != Token::Text(b"PING") {
            return Err(Malformed::new("PING was expected: the client has no shared key"));
        }
        let mut bytes = || match tokens.next()? {
            Token::Text(bytes) | Token::Binary(bytes) => Ok(bytes),
            _ => Err(Malformed::new("PING has a value that is no text")),
        };
        let (hostname, salt, key) = (bytes()?, bytes()?, bytes()?);
        let (user, password) = (bytes()?, bytes()?);
        if !is_same(key, self.digest(salt, hostname, greeting).as_bytes()) {
            return Err(Malformed::new("shared key mismatch"));
        }
        let is_known = |(name, secret): &(String, String)| {
            let expected = digest(&[&greeting.salt, name.as_bytes(), secret.as_bytes()]);
            name.as_bytes() == user && is_same(password, expected.as_bytes())
        };
        match self.users.is_empty() || self.users.iter().any(is_known) {
            true => Ok(salt.to_vec()),
            false => Err(Malformed::new("username/password mismatch")),
        }
    }
}

/// In hexadecimal digits.
fn digest(parts: &[&[u8]]) -> String {
    let mut hasher = Sha512::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// In a time that does not say where they differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::codec::budget::Budget;

    #[test]
    fn only_who_knows_the_key_comes_in() {
        let users = vec![("u".to_owned(), "p".to_owned())];
        let gate = Gate { shared_key: "key".to_owned(), users, hostname: "server".to_owned() };
        let greeting = Greeting { nonce: [1; 16], salt: [2; 16] };
        let ping = |key: &str, password: &str| {
            let mut out = Vec::new();
            put_array(&mut out, 6);
            put_text(&mut out, "PING");
            put_text(&mut out, "client");
            put_binary(&mut out, b"salt");
            put_text(&mut out, &digest(&[b"salt", b"client", &greeting.nonce, key.as_bytes()]));
            put_text(&mut out, "u");
            put_text(&mut out, &digest(&[&greeting.salt, b"u", password.as_bytes()]));
            out
        };
        let (pong, verdict) = gate.judge(&ping("key", "p"), &greeting);
        assert_eq!(verdict, Ok(()));
        let pong = Tokens(&pong).json(&mut Budget::new(1 << 20).share()).expect("is one");
        let proof = digest(&[b"salt", b"server", &greeting.nonce, b"key"]);
        assert_eq!(pong, serde_json::json!(["PONG", true, "", "server", proof]));
        for (ping, why) in [
            (ping("other", "p"), "shared key"),
            (ping("key", "q"), "username"),
            (b"\x93\xa1t\x01\x80".to_vec(), "PING was expected"),
            (Vec::new(), "ends"),
        ] {
            let (pong, verdict) = gate.judge(&ping, &greeting);
            assert!(verdict.is_err_and(|error| error.to_string().contains(why)));
            let pong = Tokens(&pong).json(&mut Budget::new(1 << 20).share()).expect("is one");
            assert_eq!((&pong[1], &pong[4]), (&Value::Bool(false), &Value::from("")));
        }
    }
}
