//! The cases of tests/clients/cases.toml for the rdkafka crate, against the broker at `$BOOTSTRAP`.

mod admin;
mod broker;
mod consume;
mod errors;
mod group;
mod member;
mod produce;
mod record;
mod report;
mod secured;
mod transactions;

use std::process::ExitCode;

use rdkafka::util::get_rdkafka_version;

use crate::report::Report;

/// As Cargo.toml pins it.
const CRATE_VERSION: &str = "0.39.0";

fn main() -> ExitCode {
    let version = format!("{CRATE_VERSION}+librdkafka-{}", get_rdkafka_version().1);
    if std::env::args().any(|word| word == "secured") {
        secured::run(&version);
        return ExitCode::SUCCESS;
    }
    println!("client rdkafka {version}");
    let mut report = Report::default();
    produce::cases(&mut report);
    consume::cases(&mut report);
    group::cases(&mut report);
    transactions::cases(&mut report);
    admin::cases(&mut report);
    errors::cases(&mut report);
    report.finish()
}
