//! Names that clients give, as types.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use logway_wire::WireString;

/// How much of a name people are shown: no id that we make up is longer.
const SHOWN_BYTES_MAX: usize = 300;

/// How often a group whose coordinator assigns keeps a member's id: with who it is, with its target, and with its timers.
pub(crate) const MEMBER_ID_COPIES: usize = 3;

/// The beginning of a client's words, which can be as long as it likes.
pub(crate) fn excerpt(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

macro_rules! shared_text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Cheap to clone, and free of the frame that it came in. Can have 32 KiB; displayed it is shortened, because
        /// messages and log lines repeat it.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// A copy for a response.
            pub(crate) fn to_wire(&self) -> WireString {
                WireString::copy_of(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> $name {
                $name(text.into())
            }
        }

        impl From<&WireString> for $name {
            fn from(text: &WireString) -> $name {
                $name(text.as_str().into())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let shown = excerpt(&self.0, SHOWN_BYTES_MAX);
                f.write_str(shown)?;
                f.write_str(if shown.len() < self.0.len() { "…" } else { "" })
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

shared_text! {
    /// The name of a group. May be empty where Kafka allows it: for offsets, never for members.
    GroupId
}
shared_text! {
    /// The name that the coordinator gives to a member when it joins.
    MemberId
}
shared_text! {
    /// The name that a static member gives itself, `group.instance.id` (KIP-345).
    InstanceId
}
shared_text! {
    /// The name of an assignor, or of a kind of group such as `consumer`.
    ProtocolName
}
shared_text! {
    /// The name that a transactional producer gives itself, `transactional.id` (KIP-98).
    TransactionalId
}
shared_text! {
    /// The name of a topic as it was committed. Whether there is such a topic is not judged here.
    CommittedTopic
}

/// The partition of `__consumer_offsets`, out of so many, that a group belongs to.
///
/// As Kafka chooses it: by Java's hash of the group's name, which counts UTF-16 units.
///
/// # Panics
///
/// If there are no partitions.
pub fn partition_of_group(group: &str, partitions: u32) -> u32 {
    partition_of(group, partitions)
}

/// The partition of `__transaction_state` that a transactional id belongs to: by the same rule.
///
/// # Panics
///
/// If there are no partitions.
pub fn partition_of_transactional_id(id: &str, partitions: u32) -> u32 {
    partition_of(id, partitions)
}

fn partition_of(name: &str, partitions: u32) -> u32 {
    assert!(partitions > 0, "a topic has partitions");
    let hash = name
        .encode_utf16()
        .fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    // The one number without a positive counterpart counts as 0.
    hash.checked_abs().unwrap_or(0).unsigned_abs() % partitions
}

#[cfg(test)]
mod tests {
    use super::{GroupId, partition_of_group};

    #[test]
    fn long_names_are_shown_in_part() {
        let shown = |name: &str| GroupId::from(name).to_string();
        assert_eq!(shown("orders"), "orders");
        assert_eq!(shown(&"g".repeat(32_767)), "g".repeat(300) + "…");
        assert_eq!(shown(&"🪵".repeat(8_000)), "🪵".repeat(75) + "…", "cut between characters");
    }

    #[test]
    fn groups_belong_where_java_puts_them() {
        // Java: Math.abs("…".hashCode()) % 50, and 0 for Integer.MIN_VALUE.
        assert_eq!(partition_of_group("", 50), 0);
        assert_eq!(partition_of_group("a", 50), 97 % 50);
        assert_eq!(partition_of_group("console-consumer-12345", 50), 6);
        assert_eq!(partition_of_group("gruppe-äöü-🪵", 50), 26);
        // A text whose hash is Integer.MIN_VALUE.
        assert_eq!(partition_of_group("polygenelubricants", 50), 0);
    }
}
