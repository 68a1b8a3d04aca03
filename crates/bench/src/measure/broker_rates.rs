//! What a broker itself says that it took.

use serde::Serialize;

/// By its own count, which knows nothing of the generator's.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct BrokerRates {
    /// In the measured time; none where the broker has only averages of a minute.
    pub measured: Option<CountedRate>,
    /// In the minute before its end; none if that is longer than the run.
    pub last_minute: Option<CountedRate>,
    /// Where they come from, or why they are not there, in words.
    pub source: String,
}

/// How much came in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct CountedRate {
    /// Records a second.
    pub messages_per_second: f64,
    /// Bytes a second, as the broker counts them.
    pub bytes_per_second: f64,
}

impl BrokerRates {
    /// None, for a reason.
    pub(crate) fn absent(reason: impl Into<String>) -> BrokerRates {
        BrokerRates { source: reason.into(), ..BrokerRates::default() }
    }
}
