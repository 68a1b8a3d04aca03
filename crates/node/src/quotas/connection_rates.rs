//! How many connections are opened per second, by all and by each address (KIP-612).

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use logway_metadata::MetadataImage;
use logway_metadata::settings::BrokerSettings;

use super::balance::{Balance, QuotaWindow};
use super::balances::Balances;
use super::locked;

/// What the rates say of a connection that was opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rated {
    /// It is served when so much time has passed: none, or until its address's turn comes.
    In(Duration),
    /// Its address has opened so many that no more may wait.
    Refused,
}

/// What the broker and each address have left of the connections that they may open.
#[derive(Debug)]
pub struct ConnectionRates {
    window: QuotaWindow,
    all: Mutex<Balance>,
    by_address: Mutex<Balances>,
}

impl ConnectionRates {
    /// Nobody has connected yet. All together may open so many per second.
    pub fn new(settings: &BrokerSettings, per_second_max: u32) -> ConnectionRates {
        let window = QuotaWindow::new(settings.quota_window_size, settings.quota_windows);
        let all = Mutex::new(Balance::new(f64::from(per_second_max), window, Instant::now()));
        ConnectionRates { window, all, by_address: Mutex::default() }
    }

    /// Counts a connection of an address against that address's quota.
    pub fn admit(&self, image: &MetadataImage, address: IpAddr) -> Rated {
        let quotas = image.client_quotas();
        let limit = quotas.bind_addresses().then(|| quotas.of_address(address)).flatten();
        let Some(limit) = limit else { return Rated::In(Duration::ZERO) };
        let (rate, now) = (limit.get(), Instant::now());
        let mut by_address = locked(&self.by_address);
        let balance = by_address.of(address.to_canonical(), rate, self.window, now);
        balance.reserve(1.0, rate, self.window, now).map_or(Rated::Refused, Rated::In)
    }

    /// Counts a connection against what the whole broker accepts; says for how long no further one
    /// is to be accepted.
    pub fn count(&self, per_second_max: u32) -> Duration {
        let rate = f64::from(per_second_max);
        locked(&self.all).charge(1.0, rate, self.window, Instant::now())
    }

    /// How many addresses are remembered.
    pub fn address_count(&self) -> usize {
        locked(&self.by_address).len()
    }
}
