//! What an agent is to be: read from a file, judged against the declarations, every problem named with its line.

mod assemble;
mod component;
mod judge;
mod loops;
mod properties;
mod substitute;
mod toml_file;
mod tree;
mod trial;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::component::Form;
use self::trial::Refusal;
use crate::error::AgentError;
pub use crate::error::Problem;
use crate::settings::Settings;

/// Where a configuration is, and how it is written.
#[derive(Debug, Clone)]
pub enum ConfigFile {
    /// In our own form.
    Toml(PathBuf),
    /// In Flume's, of this agent.
    Flume {
        /// The file.
        path: PathBuf,
        /// The agent: the first part of its keys.
        name: String,
    },
    /// Of an agent in a broker's process: what names no brokers speaks to that one.
    InBroker {
        /// The file.
        path: PathBuf,
        /// The agent in Flume's form; without it the file is in ours.
        flume_name: Option<String>,
        /// Where the broker listens.
        broker: String,
    },
}

/// A line of a configuration, whatever its form: `sources.r1.type`, its value, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Property {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) line: usize,
}

/// An agent as it is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentConfig {
    pub(crate) name: String,
    pub(crate) sources: Vec<SourceConfig>,
    pub(crate) channels: BTreeMap<String, Settings>,
    pub(crate) sinks: Vec<SinkConfig>,
    pub(crate) groups: Vec<GroupConfig>,
    /// What is odd and does no harm.
    pub warnings: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SourceConfig {
    pub(crate) settings: Settings,
    pub(crate) channels: Vec<String>,
    pub(crate) selector: Settings,
    pub(crate) interceptors: Vec<Settings>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SinkConfig {
    pub(crate) settings: Settings,
    pub(crate) channel: String,
    /// Where events go that cannot be delivered.
    pub(crate) dead_letter: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupConfig {
    pub(crate) processor: Settings,
    pub(crate) sinks: Vec<String>,
}

impl ConfigFile {
    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            ConfigFile::Toml(path)
            | ConfigFile::Flume { path, .. }
            | ConfigFile::InBroker { path, .. } => path,
        }
    }

    /// Its text.
    ///
    /// # Errors
    ///
    /// [`AgentError::Read`].
    pub fn read(&self) -> Result<String, AgentError> {
        let path = self.path();
        std::fs::read_to_string(path)
            .map_err(|source| AgentError::Read { path: path.to_owned(), source })
    }

    /// What the text says.
    ///
    /// # Errors
    ///
    /// [`AgentError::Config`] with all that is wrong.
    pub fn parse(&self, text: &str) -> Result<AgentConfig, AgentError> {
        let file = self.path().display().to_string();
        // Editors of Windows put it before a text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut problems = Vec::new();
        let mut say = |line, text| problems.push(Problem { file: file.clone(), line, text });
        let broker = match self {
            ConfigFile::InBroker { broker, .. } => Some(broker.as_str()),
            ConfigFile::Toml(_) | ConfigFile::Flume { .. } => None,
        };
        let flume_name = match self {
            ConfigFile::Flume { name, .. } => Some(name),
            ConfigFile::InBroker { flume_name, .. } => flume_name.as_ref(),
            ConfigFile::Toml(_) => None,
        };
        let form = Form { is_flume: flume_name.is_some(), broker };
        let parsed = match flume_name {
            None => {
                let mut name = String::new();
                let properties = match self.flumes_agent(text) {
                    None => toml_file::read(text, &mut name, &mut say),
                    Some(hint) => {
                        say(0, hint);
                        None
                    }
                };
                properties.map(|properties| assemble::assemble(name, properties, form, &mut say))
            }
            Some(name) => {
                let all = properties::read(text, &mut say);
                let properties = properties::of_agent(all, name, &mut say);
                properties
                    .map(|properties| assemble::assemble(name.clone(), properties, form, &mut say))
            }
        };
        match parsed {
            Some((mut config, mut warnings)) if problems.is_empty() => {
                warnings.extend(loops::warnings(&config));
                let warning = |(line, text)| Problem { file: file.clone(), line, text };
                config.warnings = warnings.into_iter().map(warning).collect();
                Ok(config)
            }
            _ => {
                problems.sort_by_key(|problem| problem.line);
                Err(AgentError::Config(problems))
            }
        }
    }

    /// Of a text that is no TOML and is in Flume's form, how it is to be given.
    fn flumes_agent(&self, text: &str) -> Option<String> {
        if toml_file::is_toml(text) {
            return None;
        }
        let agent = properties::first_agent(text)?;
        let given = match self {
            ConfigFile::InBroker { .. } => format!("--agent-flume-name {agent}"),
            ConfigFile::Toml(_) | ConfigFile::Flume { .. } => {
                format!("--flume-conf {} --name {agent}", self.path().display())
            }
        };
        Some(format!("this is no TOML, but Flume's form; it is given with {given}"))
    }

    /// As [`ConfigFile::parse`], and components are asked whether they could start with what they were told. Has to be
    /// called in a runtime.
    ///
    /// # Errors
    ///
    /// [`AgentError::Config`] with all that is wrong. What is only missing on this machine is a warning.
    pub fn check(&self, text: &str) -> Result<AgentConfig, AgentError> {
        let mut config = self.parse(text)?;
        let file = self.path().display().to_string();
        let (missing, wrong): (Vec<Refusal>, Vec<Refusal>) =
            trial::try_out(&config).into_iter().partition(|refusal| refusal.is_of_machine);
        let problem = |Refusal { line, text, .. }| Problem { file: file.clone(), line, text };
        if !wrong.is_empty() {
            return Err(AgentError::Config(wrong.into_iter().map(problem).collect()));
        }
        config.warnings.extend(missing.into_iter().map(problem));
        Ok(config)
    }
}
