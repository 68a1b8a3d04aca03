//! What a broker and the active controller say to each other, in bytes.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 1 | layout | 0 |
//! | 4 | broker | its number, big-endian |
//! | 8 | epoch | its life |
//! | 1 | wanted | what it wants to be: 0 fenced, 1 active, 2 shutting down |
//!
//! The reply is one byte: 1 if the node is the active controller and has heard it, else 0.

use bytes::{Buf, BufMut};
use logway_metadata::record::{BrokerEpoch, BrokerState};
use logway_model::BrokerId;

const LAYOUT: u8 = 0;

const BYTES: usize = 14;

/// A broker lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heartbeat {
    pub(super) broker: BrokerId,
    pub(super) epoch: BrokerEpoch,
    pub(super) wanted: BrokerState,
}

impl Heartbeat {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BYTES);
        out.put_u8(LAYOUT);
        out.put_i32(self.broker.0);
        out.put_i64(self.epoch.0);
        out.put_u8(match self.wanted {
            BrokerState::Fenced => 0,
            BrokerState::Active => 1,
            BrokerState::ShuttingDown => 2,
        });
        out
    }

    /// Reads a heartbeat; `None` for bytes that are none, or of another version.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Heartbeat> {
        if bytes.len() != BYTES || bytes.get_u8() != LAYOUT {
            return None;
        }
        let (broker, epoch) = (BrokerId(bytes.get_i32()), BrokerEpoch(bytes.get_i64()));
        let wanted = match bytes.get_u8() {
            0 => BrokerState::Fenced,
            1 => BrokerState::Active,
            2 => BrokerState::ShuttingDown,
            _ => return None,
        };
        Some(Heartbeat { broker, epoch, wanted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_read_as_it_was_written_and_nothing_else_is() {
        for wanted in [BrokerState::Fenced, BrokerState::Active, BrokerState::ShuttingDown] {
            let heartbeat = Heartbeat { broker: BrokerId(7), epoch: BrokerEpoch(9), wanted };
            let bytes = heartbeat.encode();
            assert_eq!(Heartbeat::decode(&bytes), Some(heartbeat));
            for end in 0..bytes.len() {
                assert_eq!(Heartbeat::decode(&bytes[..end]), None);
            }
            let mut other = bytes.clone();
            other[0] = 1;
            assert_eq!(Heartbeat::decode(&other), None, "of another layout");
            other[0] = 0;
            other[13] = 3;
            assert_eq!(Heartbeat::decode(&other), None, "of no state");
        }
    }
}
