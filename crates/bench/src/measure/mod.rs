//! What a run cost and where it was made.

mod broker_rates;
mod dirty;
mod machine;
mod row;
mod statistics;
mod usage;

pub(crate) use broker_rates::{BrokerRates, CountedRate};
pub(crate) use dirty::settle;
pub(crate) use machine::Machine;
pub(crate) use machine::free_bytes;
pub(crate) use row::{Durability, Parameters, Row};
pub(crate) use row::{QUANTILES, WorkKey};
pub(crate) use statistics::{Spread, compare};
pub(crate) use usage::{CPU_TICKS_MIN, Snapshot};
pub(crate) use usage::{ProcessMemory, Usage};
