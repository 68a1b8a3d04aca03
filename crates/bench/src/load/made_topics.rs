//! What a session has made on a broker and has not deleted yet.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use logway_client::{BrokerAddress, Client, ClientOptions};
use logway_model::{ErrorCode, TopicName};

/// A request to create a topic may still be under way when the run that sent it is over.
const CREATION_PATIENCE: Duration = Duration::from_secs(2);

/// How often it is asked.
const INTERVAL: Duration = Duration::from_millis(50);

/// The names of topics, from before a broker is asked to create one until it has deleted it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MadeTopics(Arc<Mutex<BTreeSet<TopicName>>>);

impl MadeTopics {
    pub(super) fn add(&self, name: &TopicName) {
        self.names().insert(name.clone());
    }

    pub(super) fn forget(&self, name: &TopicName) {
        self.names().remove(name);
    }

    fn names(&self) -> MutexGuard<'_, BTreeSet<TopicName>> {
        // A set of names is whole whoever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes all that are left, within some time.
    ///
    /// # Errors
    ///
    /// Which stay, and why: the broker refuses, or does not answer in time.
    pub(crate) async fn delete_all(
        &self,
        address: &BrokerAddress,
        patience: Duration,
    ) -> anyhow::Result<()> {
        let mut last_error = None;
        let deleting = self.delete_until_none_is_left(address, &mut last_error);
        if tokio::time::timeout(patience, deleting).await.is_ok() {
            return Ok(());
        }
        let names = self.names().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let why = last_error.unwrap_or_else(|| "no answer".to_owned());
        bail!("topics of the benchmark stay on {address}: {names} ({why})")
    }

    async fn delete_until_none_is_left(
        &self,
        address: &BrokerAddress,
        last_error: &mut Option<String>,
    ) {
        // The loop here asks again.
        let options = ClientOptions { retry_patience: Duration::ZERO, ..ClientOptions::default() };
        let client = Client::new(vec![address.clone()], options);
        let began = Instant::now();
        loop {
            let names: Vec<TopicName> = self.names().iter().cloned().collect();
            if names.is_empty() {
                return;
            }
            match client.delete_topics(&names).await {
                Err(error) => *last_error = Some(error.to_string()),
                Ok(outcomes) => {
                    for (name, outcome) in outcomes {
                        match outcome {
                            Ok(()) => self.forget(&name),
                            Err(error) if is_unknown(error.code()) => {
                                if began.elapsed() > CREATION_PATIENCE {
                                    self.forget(&name);
                                }
                            }
                            Err(error) => *last_error = Some(error.to_string()),
                        }
                    }
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

fn is_unknown(code: Option<ErrorCode>) -> bool {
    code == Some(ErrorCode::UnknownTopicOrPartition)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn nothing_is_asked_for_where_nothing_was_made() {
        // Nobody listens there.
        let nobody = BrokerAddress::new("127.0.0.1", 1);
        MadeTopics::default()
            .delete_all(&nobody, PATIENCE)
            .await
            .expect("there is nothing to delete");
    }

    #[tokio::test]
    async fn what_stays_is_named() {
        let nobody = BrokerAddress::new("127.0.0.1", 1);
        let made = MadeTopics::default();
        made.add(&TopicName::new("bench-1-0").expect("a name"));
        let error = made.delete_all(&nobody, PATIENCE).await.expect_err("nobody deletes it");
        assert!(error.to_string().contains("bench-1-0"), "{error}");
        assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    }
}
