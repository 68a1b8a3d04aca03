//! Sealed tokens: shard iterators and page tokens.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | 0…01, as in AWS's |
//! | 1 | what it is for |
//! | 7 | zero |
//! | 16 | the topic id of the stream |
//! | 8 | the shard, or the first one of the next page |
//! | 8 | the offset |
//! | 8 | when it was made, in ms since 1970 |
//! | 8 | what else a page needs |
//! | 64 | zero: AWS's tokens are at least this long, and some clients store them so |
//! | N | the name of a stream, for a page of streams |
//! | 16 | the [seal](logway_security::seal) of all before it |

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use logway_model::{Offset, PartitionId, TopicId, Uuid};
use logway_security::seal::{SEAL_BYTES, Sealer};

/// How long a token is good for, in ms.
pub(crate) const LIFE_MS: i64 = 300_000;

const HEAD: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 1];
const CONTENT_BYTES: usize = 128;
const TOKEN_BYTES: usize = 8 + CONTENT_BYTES + SEAL_BYTES;

/// Names of topics are not longer.
const NAME_BYTES_MAX: usize = 249;

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Reading a shard.
    Iterator = 1,
    /// The next page of shards.
    Shards = 2,
    /// The next page of consumers.
    Consumers = 3,
    /// The next page of streams.
    Streams = 4,
}

/// What a token says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    /// What it is for.
    pub(crate) purpose: Purpose,
    /// The stream, as it was made: not another one of its name.
    pub(crate) stream: TopicId,
    /// The shard.
    pub(crate) shard: PartitionId,
    /// From where on.
    pub(crate) offset: Offset,
    /// When it was made, in ms since 1970.
    pub(crate) made_ms: i64,
    /// What else a page needs.
    pub(crate) extra: i64,
}

/// Seals tokens, and opens those that were sealed with the same key.
#[derive(Clone, Copy)]
pub(crate) struct TokenSealer(Sealer);

impl TokenSealer {
    /// With the key of the cluster.
    pub(crate) fn new(key: [Uuid; 2]) -> TokenSealer {
        TokenSealer(Sealer::new(key, "kinesis token"))
    }

    /// The text of a token.
    pub(crate) fn seal(&self, token: &Token) -> String {
        self.seal_with_name(token, "")
    }

    /// The text of a token with a name. That of a stream is not found by its id when the stream was deleted.
    pub(crate) fn seal_with_name(&self, token: &Token, name: &str) -> String {
        let mut bytes = vec![0; TOKEN_BYTES - SEAL_BYTES];
        bytes[..8].copy_from_slice(&HEAD);
        bytes[8] = token.purpose as u8;
        bytes[16..32].copy_from_slice(&token.stream.0.0);
        bytes[32..40].copy_from_slice(&i64::from(token.shard.0).to_be_bytes());
        bytes[40..48].copy_from_slice(&token.offset.0.to_be_bytes());
        bytes[48..56].copy_from_slice(&token.made_ms.to_be_bytes());
        bytes[56..64].copy_from_slice(&token.extra.to_be_bytes());
        bytes.extend_from_slice(name.as_bytes());
        let seal = self.0.seal(&bytes);
        bytes.extend_from_slice(&seal);
        STANDARD.encode(bytes)
    }

    /// What a text says; `None` if it was not sealed with this key for this purpose, or was altered. Quotes around it are
    /// what shells leave.
    pub(crate) fn open(&self, text: &str, purpose: Purpose) -> Option<Token> {
        let (token, name) = self.open_with_name(text, purpose)?;
        name.is_empty().then_some(token)
    }

    /// The same, with the name that it was sealed with.
    pub(crate) fn open_with_name(&self, text: &str, purpose: Purpose) -> Option<(Token, String)> {
        let text = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
        if text.len() > (TOKEN_BYTES + NAME_BYTES_MAX).div_ceil(3) * 4 {
            return None;
        }
        let bytes = STANDARD.decode(text).ok().filter(|bytes| bytes.len() >= TOKEN_BYTES)?;
        let (content, seal) = bytes.split_last_chunk()?;
        if !self.0.is_seal(seal, content) {
            return None;
        }
        let number = |at: usize| i64::from_be_bytes(std::array::from_fn(|index| bytes[at + index]));
        if bytes[..8] != HEAD || bytes[8] != purpose as u8 {
            return None;
        }
        let name = String::from_utf8(content[TOKEN_BYTES - SEAL_BYTES..].to_vec()).ok()?;
        let token = Token {
            purpose,
            stream: TopicId(Uuid(std::array::from_fn(|index| bytes[16 + index]))),
            shard: PartitionId(i32::try_from(number(32)).ok()?),
            offset: Offset(number(40)),
            made_ms: number(48),
            extra: number(56),
        };
        Some((token, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = Token {
        purpose: Purpose::Iterator,
        stream: TopicId(Uuid([7; 16])),
        shard: PartitionId(3),
        offset: Offset(5),
        made_ms: 1_700_000_000_000,
        extra: -1,
    };

    #[test]
    fn a_token_opens_with_its_key_and_for_its_purpose_alone() {
        let sealer = TokenSealer::new([Uuid([1; 16]), Uuid([2; 16])]);
        let text = sealer.seal(&TOKEN);
        assert!((152..=280).contains(&text.len()), "{}", text.len());
        assert_eq!(sealer.open(&text, Purpose::Iterator), Some(TOKEN));
        assert_eq!(sealer.open(&format!("\"{text}\""), Purpose::Iterator), Some(TOKEN));
        assert_eq!(sealer.open(&text, Purpose::Shards), None);
        let named = sealer.seal_with_name(&TOKEN, "clicks");
        let opened = sealer.open_with_name(&named, Purpose::Iterator);
        assert_eq!(opened, Some((TOKEN, "clicks".to_owned())));
        assert_eq!(sealer.open(&named, Purpose::Iterator), None, "it has no place for a name");
        let other = TokenSealer::new([Uuid([1; 16]), Uuid([3; 16])]);
        assert_eq!(other.open(&text, Purpose::Iterator), None);
    }

    #[test]
    fn no_bit_of_a_token_can_be_altered() {
        let sealer = TokenSealer::new([Uuid([1; 16]), Uuid([2; 16])]);
        let bytes = STANDARD.decode(sealer.seal(&TOKEN)).expect("is base64");
        for bit in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(sealer.open(&STANDARD.encode(altered), Purpose::Iterator), None, "{bit}");
        }
        for length in 0..bytes.len() {
            let cut = STANDARD.encode(&bytes[..length]);
            assert_eq!(sealer.open(&cut, Purpose::Iterator), None);
        }
        for text in ["", "!", "\"", "AAAA", &"A".repeat(100_000)] {
            assert_eq!(sealer.open(text, Purpose::Iterator), None);
        }
    }
}
