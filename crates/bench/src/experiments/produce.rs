//! Batches of the sizes that matter: what a busy client sends, what fills the disk, and what a
//! client that cannot wait sends.

use anyhow::ensure;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::defaults;
use crate::generator::BatchShape;
use crate::load::{ProduceLoad, WriteLoad};
use crate::measure::Durability;
use crate::session::{Session, SessionArgs};
use crate::side::OURS;
use crate::works::{
    BATCH_OF_1, BATCHES_OF_1_MIB, BATCHES_OF_16_KIB, FILES_ALONE, HUNDRED_PARTITIONS,
};

const EXPERIMENT: &str = "produce";

const LARGE: BatchShape = BatchShape::Bytes(1 << 20);
const LARGE_RECORD_BYTES: usize = 1024;

/// The experiment `produce`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProduceArgs {
    #[command(flatten)]
    pub(super) produce: Produce,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Which batches are produced.
#[derive(Debug, Clone, Args)]
pub(super) struct Produce {
    /// Only the work of this name, or the works whose names contain it; may be repeated [default: all]
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    work: Vec<String>,
    /// Whether brokers sync before they acknowledge
    #[arg(long, value_enum, value_delimiter = ',', default_value = "unsynced,synced")]
    durability: Vec<Durability>,
}

impl Produce {
    /// All works, with these promises.
    pub(super) fn usual(durability: &[Durability]) -> Produce {
        Produce { durability: durability.to_vec(), ..defaults() }
    }

    /// Whether there is all that it asks for.
    ///
    /// # Errors
    ///
    /// Which works there are.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let all = works().map(|(work, _)| work);
        for text in &self.work {
            let is_known =
                all.iter().chain(&[FILES_ALONE]).any(|name| name.contains(text.as_str()));
            let all = all.join("; ");
            ensure!(
                is_known,
                "no work has '{text}' in its name; there is {all}; and {FILES_ALONE}"
            );
        }
        Ok(())
    }

    pub(super) fn asks_for(&self, name: &str) -> bool {
        let is_a_name = |text: &str| works().iter().any(|(work, _)| *work == text);
        let is_meant = |text: &String| name == text || (!is_a_name(text) && name.contains(text));
        self.work.is_empty() || self.work.iter().any(is_meant)
    }
}

pub(super) async fn run(session: &mut Session<'_>, args: &Produce) -> anyhow::Result<()> {
    let all = works().map(|(work, _)| work);
    let names: Vec<&str> = all.into_iter().filter(|name| args.asks_for(name)).collect();
    run_some(session, &names, &args.durability).await?;
    if args.asks_for(FILES_ALONE) {
        run_files(session).await?;
    }
    Ok(())
}

/// Some of the works, by their names.
pub(super) async fn run_some(
    session: &mut Session<'_>,
    names: &[&str],
    durabilities: &[Durability],
) -> anyhow::Result<()> {
    let is_known = |name: &&str| works().iter().any(|(work, _)| work == name);
    assert!(names.iter().all(is_known), "one of {names:?} is no work");
    for (work, load) in works().into_iter().filter(|(work, _)| names.contains(work)) {
        for &durability in durabilities {
            let load = ProduceLoad { durability, ..load.clone() };
            session.measure(EXPERIMENT, work, &load).await?;
        }
    }
    Ok(())
}

/// What a broker could at best take in large batches.
pub(super) async fn run_files(session: &mut Session<'_>) -> anyhow::Result<()> {
    if !session.is_own() {
        return Ok(());
    }
    let load = WriteLoad { batch: LARGE, record_bytes: LARGE_RECORD_BYTES };
    session.measure_on(EXPERIMENT, FILES_ALONE, &load, |side| side == OURS).await?;
    Ok(())
}

fn works() -> [(&'static str, ProduceLoad); 6] {
    let usual = ProduceLoad::default();
    [
        (BATCHES_OF_16_KIB, usual.clone()),
        (
            "16 KiB batches, 6 partitions",
            ProduceLoad { partitions: 6, connections: 6, ..usual.clone() },
        ),
        (
            BATCHES_OF_1_MIB,
            ProduceLoad { batch: LARGE, record_bytes: LARGE_RECORD_BYTES, ..usual.clone() },
        ),
        (
            BATCH_OF_1,
            ProduceLoad {
                batch: BatchShape::Records(1),
                record_bytes: 200,
                in_flight: 50,
                ..usual.clone()
            },
        ),
        (
            "batch of 50",
            ProduceLoad {
                batch: BatchShape::Records(50),
                record_bytes: 200,
                in_flight: 50,
                ..usual.clone()
            },
        ),
        (
            HUNDRED_PARTITIONS,
            ProduceLoad {
                batch: BatchShape::Records(10),
                partitions: 100,
                connections: 100,
                in_flight: 1,
                ..usual
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        produce: Produce,
    }

    #[test]
    fn a_work_that_there_is_not_is_refused() {
        let check = |text| {
            let line = CommandLine::try_parse_from(["bench", "--work", text]);
            line.expect("arguments").produce.check()
        };
        assert!(
            CommandLine::try_parse_from(["bench", "--work", ""]).is_err(),
            "no text is in each"
        );
        for text in [BATCHES_OF_1_MIB, FILES_ALONE, "partitions"] {
            check(text).expect(text);
        }
        let error = check("nosuch").expect_err("no such work").to_string();
        for name in works().map(|(work, _)| work).into_iter().chain([FILES_ALONE, "nosuch"]) {
            assert!(error.contains(name), "{error}");
        }
    }
}
