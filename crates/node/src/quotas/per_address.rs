//! How many connections are open from each address, on all listeners together.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use logway_metadata::settings::address_limits;
use logway_metadata::settings::broker::{
    CONNECTIONS_OF_ADDRESSES_SETTING, CONNECTIONS_PER_ADDRESS_SETTING,
};

use crate::Node;

/// Counts the open connections of addresses that have any.
#[derive(Debug, Clone, Default)]
pub struct AddressCounts(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One connection of an address, as long as it lives.
#[derive(Debug)]
pub struct AddressSeat {
    counts: AddressCounts,
    address: IpAddr,
}

impl AddressCounts {
    /// One more of this address, if it has fewer than `max`.
    pub fn take(&self, address: IpAddr, max: usize) -> Option<AddressSeat> {
        let address = address.to_canonical();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = counts.get(&address).copied().unwrap_or(0);
        if open >= max {
            return None;
        }
        counts.insert(address, open + 1);
        Some(AddressSeat { counts: self.clone(), address })
    }
}

impl Drop for AddressSeat {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = counts.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

impl Node {
    /// How many connections may be open from an address: `max.connections.per.ip`, or what the
    /// overrides of it say.
    pub fn connections_max_of(&self, address: IpAddr) -> usize {
        let address = address.to_canonical();
        let overrides = self.changeable_setting::<String>(CONNECTIONS_OF_ADDRESSES_SETTING);
        let overrides = overrides.and_then(|text| address_limits(&text)).unwrap_or_default();
        // As in Kafka, of an address that is named twice the last number counts.
        let own = overrides.iter().rev().find(|(of, _)| *of == address);
        match own {
            Some((_, max)) => *max,
            None => self.changeable_setting(CONNECTIONS_PER_ADDRESS_SETTING).unwrap_or(usize::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_forgotten_with_its_last_connection() {
        let counts = AddressCounts::default();
        let address: IpAddr = "10.0.0.7".parse().expect("is one");
        let mapped: IpAddr = "::ffff:10.0.0.7".parse().expect("is one");
        let other: IpAddr = "::1".parse().expect("is one");
        let first = counts.take(address, 2).expect("is the first");
        let second = counts.take(mapped, 2).expect("is the second");
        assert!(counts.take(address, 2).is_none());
        let of_other = counts.take(other, 1).expect("has its own number");
        drop(first);
        let third = counts.take(address, 2).expect("one has gone");
        drop((second, third, of_other));
        assert!(counts.0.lock().expect("nobody panicked").is_empty());
    }
}
