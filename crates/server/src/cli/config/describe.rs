//! `logway config describe`.

use clap::Args;

use super::ResourceArgs;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};
use crate::cli::setting::{self, Setting};

/// Show the settings that differ from the built-in defaults
///
/// SOURCE says where a value comes from: static is what the broker was started with (its file or
/// flags), broker and all-brokers are what was set since. JSON always holds every setting.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway config describe broker 1
  logway config describe broker default      what was set for all brokers
  logway config describe topic events --all
  logway config describe client-metrics slow-producers")]
pub(in crate::cli) struct DescribeArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    /// Show every setting
    #[arg(short, long)]
    all: bool,
}

pub(super) async fn run(args: DescribeArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let resource = args.resource.resource()?;
    let entries = global.client()?.describe_configs(&resource).await?;
    let settings = Setting::sorted(entries);
    match global.format {
        Format::Json => output::print_json(&settings),
        Format::Text => {
            let is_shown = |setting: &&Setting| args.all || setting.is_set();
            let shown: Vec<&Setting> = settings.iter().filter(is_shown).collect();
            if shown.is_empty() {
                eprintln!("no setting of {resource} differs from its default; see all with --all");
                return Ok(());
            }
            output::print(&setting::table(shown).render())
        }
    }
}
