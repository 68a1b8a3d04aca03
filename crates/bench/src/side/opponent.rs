//! Who can be measured.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;

use super::{Launch, activemq, kafka, logway, nats, null, rabbitmq};

/// The name of our own side.
pub(crate) const OURS: &str = "logway";

/// The name of Apache Kafka's side.
pub(crate) const KAFKA: &str = "kafka";

/// The names of the peers that do not speak Kafka's protocol.
pub(crate) const RABBITMQ: &str = "rabbitmq";
pub(crate) const ACTIVEMQ: &str = "activemq";
pub(crate) const NATS: &str = "nats";

/// The name of the side that does nothing.
pub(crate) const NULL: &str = "null";

/// The name of the side that only stores.
pub(crate) const BARE: &str = "bare";

/// Whether a side is no broker, but shows what this machine allows one.
pub(crate) fn is_limit(side: &str) -> bool {
    [NULL, BARE].contains(&side)
}

/// A broker that the benchmark can start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Opponent {
    /// Logway: the executable that the session has for it.
    Logway,
    /// Logway: another executable, to see what a change brought.
    OtherLogway(PathBuf),
    /// Apache Kafka, fetched from Maven Central.
    Kafka,
    /// RabbitMQ, of Debian's packages.
    RabbitMq,
    /// ActiveMQ Classic, fetched from Maven Central.
    ActiveMq,
    /// NATS with JetStream, built by Go.
    Nats,
    /// A broker that answers without doing anything: the limit that sockets set on this machine.
    Null,
    /// A broker that only stores: the limit that sockets and disk set on this machine.
    Bare,
}

impl FromStr for Opponent {
    type Err = String;

    /// A name, or the path of another `logway`.
    fn from_str(text: &str) -> Result<Opponent, String> {
        Ok(match text {
            OURS => Opponent::Logway,
            KAFKA => Opponent::Kafka,
            RABBITMQ => Opponent::RabbitMq,
            ACTIVEMQ => Opponent::ActiveMq,
            NATS => Opponent::Nats,
            NULL => Opponent::Null,
            BARE => Opponent::Bare,
            path if Path::new(path).is_dir() => return Err(String::from("it is a directory")),
            path if path.contains('/') => Opponent::OtherLogway(PathBuf::from(path)),
            // Without the directory it would be looked for where programs are installed.
            file if Path::new(file).is_file() => Opponent::OtherLogway(Path::new(".").join(file)),
            _ => {
                let names = [KAFKA, RABBITMQ, ACTIVEMQ, NATS, NULL, BARE].join(", ");
                return Err(format!("it is none of {names}, and no path of a file"));
            }
        })
    }
}

impl fmt::Display for Opponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opponent::Logway => f.write_str(OURS),
            Opponent::OtherLogway(path) => write!(f, "{}", path.display()),
            Opponent::Kafka => f.write_str(KAFKA),
            Opponent::RabbitMq => f.write_str(RABBITMQ),
            Opponent::ActiveMq => f.write_str(ACTIVEMQ),
            Opponent::Nats => f.write_str(NATS),
            Opponent::Null => f.write_str(NULL),
            Opponent::Bare => f.write_str(BARE),
        }
    }
}

impl Opponent {
    /// The directory that a session has for it.
    pub(crate) fn directory_name(&self) -> String {
        self.to_string().replace('/', "-")
    }

    /// Whether it can be started as a cluster of several nodes.
    pub(crate) fn makes_clusters(&self) -> bool {
        matches!(self, Opponent::Logway | Opponent::OtherLogway(_) | Opponent::Kafka)
    }

    /// Gets whatever is needed, and says how to start each node with its data in one of `directories`: one alone, unless
    /// it [makes clusters](Opponent::makes_clusters). `logway` is the executable of our own side.
    pub(super) fn launch(
        &self,
        logway: &Path,
        directories: &[PathBuf],
    ) -> anyhow::Result<Vec<Launch>> {
        let this = || std::env::current_exe().context("cannot find this executable");
        let alone = &directories[0];
        Ok(match self {
            Opponent::Logway => logway::launch(logway, directories)?,
            Opponent::OtherLogway(executable) => logway::launch(executable, directories)?,
            Opponent::Kafka => kafka::launch(directories)?,
            Opponent::RabbitMq => vec![rabbitmq::launch(alone)?],
            Opponent::ActiveMq => vec![activemq::launch(alone)?],
            Opponent::Nats => vec![nats::launch(alone)?],
            Opponent::Null => vec![null::launch(&this()?, alone, false)?],
            Opponent::Bare => vec![null::launch(&this()?, &alone.join("data"), true)?],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opponents_are_names_or_paths() {
        for text in
            ["logway", "kafka", "rabbitmq", "activemq", "nats", "null", "bare", "../old/logway"]
        {
            let opponent = text.parse::<Opponent>().expect(text);
            assert_eq!(opponent.to_string(), text);
        }
    }

    #[test]
    fn a_file_beside_us_is_a_path_and_a_directory_is_nobody() {
        // Tests run in the directory of the crate.
        let file = "Cargo.toml".parse::<Opponent>().expect("a file");
        assert_eq!(file, Opponent::OtherLogway(PathBuf::from("./Cargo.toml")));
        for directory in ["src", "./src", "/"] {
            let error = directory.parse::<Opponent>().expect_err(directory);
            assert!(error.contains("directory"), "{error}");
        }
        for nobody in ["kafak", ""] {
            let error = nobody.parse::<Opponent>().expect_err(nobody);
            for name in [KAFKA, RABBITMQ, ACTIVEMQ, NATS, NULL, BARE] {
                assert!(error.contains(name), "{error}");
            }
        }
    }
}
