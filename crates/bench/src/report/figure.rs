//! The figures of which one side's is set over another's.

use crate::measure::Row;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    Rate,
    Megabytes,
    CpuPerRecord,
    CpuPerGigabyte,
    P50,
    P99,
    P99_9,
    Resident,
}

/// What a generator that had no time says of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeldBack {
    /// Without it the figure would be this or more.
    Lowered,
    /// Without it the figure would be this or less.
    Raised,
    /// It does not depend on how much the generator made.
    Untouched,
}

impl Figure {
    /// None where a row has nothing of it.
    pub(super) fn of(self, row: &Row) -> Option<f64> {
        match self {
            Figure::Rate => Some(row.records_per_second()),
            Figure::Megabytes => Some(row.megabytes_per_second()),
            Figure::CpuPerRecord => row.broker_cpu_seconds_per_million_records(),
            Figure::CpuPerGigabyte => row.broker_cpu_seconds_per_gigabyte(),
            Figure::P50 => row.latency_ms(0.5),
            Figure::P99 => row.latency_ms(0.99),
            Figure::P99_9 => row.latency_ms(0.999),
            Figure::Resident => row.resident_megabytes(),
        }
    }

    /// What becomes of it when the generator holds the broker back.
    pub(super) fn held_back(self) -> HeldBack {
        match self {
            Figure::Rate | Figure::Megabytes => HeldBack::Lowered,
            Figure::P50 | Figure::P99 | Figure::P99_9 => HeldBack::Raised,
            Figure::CpuPerRecord | Figure::CpuPerGigabyte | Figure::Resident => HeldBack::Untouched,
        }
    }
}
