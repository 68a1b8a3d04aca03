//! `logway kinesis`: streams, as Kinesis clients see them.

mod partitioner;
mod stream;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use logway_kinesis::client::{KinesisClient, KinesisClientError, Uri};
use serde_json::Value;

use super::GlobalArgs;
use super::error::CliError;
use super::shapes::Shape;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum KinesisCommand {
    /// Create, list, describe, split, merge and scale streams
    Stream {
        #[command(flatten)]
        address: Box<AddressArgs>,
        #[command(subcommand)]
        command: stream::StreamCommand,
    },
    Partitioner(partitioner::PartitionerArgs),
}

/// Where Kinesis is served, and who asks: by the variables that AWS's programs go by.
#[derive(Debug, Args)]
pub(super) struct AddressArgs {
    /// Where Kinesis clients connect
    #[arg(
        long,
        global = true,
        env = "AWS_ENDPOINT_URL_KINESIS",
        value_name = "URL",
        default_value = "http://127.0.0.1:4567"
    )]
    endpoint_url: Uri,
    /// The region to sign for
    #[arg(
        long,
        global = true,
        env = "AWS_REGION",
        value_name = "NAME",
        default_value = "us-east-1"
    )]
    region: String,
    /// The access key; `logway token create --aws env` prints one
    #[arg(
        long,
        global = true,
        env = "AWS_ACCESS_KEY_ID",
        value_name = "ID",
        default_value = "any"
    )]
    access_key: String,
    /// A PEM file with the authorities to trust [default: those of the system]
    #[arg(long, global = true, env = "AWS_CA_BUNDLE", value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
}

/// The secret of the access key. It is no flag: others would see it in the list of processes.
const SECRET_VARIABLE: &str = "AWS_SECRET_ACCESS_KEY";

/// Carries a command out.
pub(super) async fn run(command: KinesisCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        KinesisCommand::Stream { address, command } => {
            let client = address.client();
            stream::run(command, &client, global.format).await
        }
        KinesisCommand::Partitioner(args) => partitioner::run(&args),
    }
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    stream::shapes()
}

impl AddressArgs {
    fn client(self) -> KinesisClient {
        KinesisClient {
            endpoint: self.endpoint_url,
            authorities: self.ca_bundle.into_iter().collect(),
            region: self.region,
            key_id: self.access_key,
            secret: std::env::var(SECRET_VARIABLE).unwrap_or_else(|_| "any".to_owned()),
        }
    }
}

/// Has an operation done.
async fn ask(client: &KinesisClient, operation: &str, input: Value) -> Result<Value, CliError> {
    client.call(operation, &input).await.map_err(|error| {
        let hint = hint(&error);
        let error = CliError::from(anyhow::Error::from(error));
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    })
}

fn hint(error: &KinesisClientError) -> Option<&'static str> {
    match error {
        KinesisClientError::Unreachable { .. } => Some(
            "a broker serves Kinesis clients where `kinesis.listen` says; --endpoint-url or AWS_ENDPOINT_URL_KINESIS names it here",
        ),
        KinesisClientError::Refused { name, .. } => match &**name {
            "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "IncompleteSignatureException" => Some(
                "the broker checks signatures: `logway token create --aws env` prints the variables of an access key",
            ),
            "AccessDeniedException" => {
                Some("ACLs of the topic of the stream decide: `logway acl check`")
            }
            _ => None,
        },
        KinesisClientError::NotKinesis { .. } | KinesisClientError::NoAnswer { .. } => {
            Some("is it the address of Kinesis clients, and not of Kafka's or of metrics?")
        }
        _ => None,
    }
}
