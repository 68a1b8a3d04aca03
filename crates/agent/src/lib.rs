//! Agents: events from where they arise to where they are wanted.
//!
//! An agent has *sources*, where events arise, *channels*, where they wait, and *sinks*, where they go, as Apache
//! Flume has them, whose configurations it reads. Each hop is a transaction: a source's batch is in all its required
//! channels before its sender is told so, and a sink's batch leaves its channel when the next hop has all of it.
//! So an event is delivered at least once, whatever is killed, if its channels are durable.
//!
//! | module | what it is about |
//! |---|---|
//! | [`config`] | files, judged against declarations |
//! | `supervisor`, `agent`, `part` | running an agent, and changing it while it runs |
//! | `source`, `delivery`, `selector`, `interceptor` | from outside into channels |
//! | `channel` | waiting, in memory or in a log |
//! | `processor`, `sink` | from channels to the next hop |
//! | `codec` | the formats of other programs |
//! | `http_client`, `s3`, `kafka_cluster` | asking other servers |
//! | `declaration`, `registry`, `reference` | which components there are, and what they can be told |
//! | `counters`, `metrics`, [`overview`] | what is counted, shown, and read from elsewhere |

mod agent;
mod channel;
mod codec;
pub mod config;
mod counters;
mod declaration;
mod delivery;
mod error;
mod event;
mod http_client;
mod interceptor;
mod kafka_cluster;
mod metrics;
pub mod overview;
mod part;
mod processor;
mod reference;
mod registry;
mod s3;
mod selector;
mod settings;
mod sink;
mod source;
mod stop;
mod supervisor;
mod threads;
mod tls;

pub use error::AgentError;
pub use reference::render_reference;
pub use supervisor::{RunOptions, run};

#[cfg(test)]
mod tests;
