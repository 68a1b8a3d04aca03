//! What streams use up of their clients' quotas (KIP-13).
//!
//! A client is who it was authenticated as, and what the metadata `client-id` calls it. A stream that has used more than the quota
//! waits before it takes more; whatever else its connection does goes on.

use hyper::HeaderMap;
use logway_metadata::quota::QuotaKey;
use logway_node::quotas::QuotaClient;
use tokio::time::sleep;

use crate::call::Call;

/// The metadata by which a client says what it calls itself, as in the header of Kafka's requests.
const CLIENT_ID: &str = "client-id";

/// A longer name is cut: many are remembered.
const CLIENT_ID_BYTES_MAX: usize = 255;

/// What a client calls itself; empty if it does not.
pub(crate) fn client_id(metadata: &HeaderMap) -> String {
    let id = metadata.get(CLIENT_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
    // It is ASCII, so that it can be cut anywhere.
    id[..id.len().min(CLIENT_ID_BYTES_MAX)].to_owned()
}

impl Call {
    /// Takes bytes from a quota of the client.
    pub(crate) fn charge(&self, key: QuotaKey, bytes: usize) {
        let image = self.node().image();
        if image.client_quotas().bind_clients() {
            self.node().quota_use.charge(&image, self.quota_client(), key, bytes as f64);
        }
    }

    /// Waits while a quota of the client is overdrawn: by this stream, or by another one.
    pub(crate) async fn await_quota(&self, key: QuotaKey) {
        let image = self.node().image();
        if !image.client_quotas().bind_clients() {
            return;
        }
        let wait = self.node().quota_use.charge(&image, self.quota_client(), key, 0.0);
        drop(image);
        if !wait.is_zero() {
            self.node().metrics.quotas.throttled(key, wait);
            sleep(wait).await;
        }
    }

    /// The most bytes that a reply should have: more could never be saved up. At least 1.
    pub(crate) fn quota_reply_bytes(&self, most: u32) -> u32 {
        let image = self.node().image();
        if !image.client_quotas().bind_clients() {
            return most;
        }
        let key = QuotaKey::ConsumerByteRate;
        let saved = self.node().quota_use.saved_max(&image, self.quota_client(), key);
        saved.map_or(most, |saved| most.min(saved as u32).max(1))
    }

    fn quota_client(&self) -> QuotaClient<'_> {
        QuotaClient::of(&self.known.principal, &self.client_id)
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_client_is_called_what_it_says() {
        let named = |name: &str| {
            let name = HeaderValue::from_bytes(name.as_bytes()).expect("is a value");
            client_id(&HeaderMap::from_iter([(CLIENT_ID.parse().expect("is a name"), name)]))
        };
        assert_eq!(client_id(&HeaderMap::new()), "");
        assert_eq!(named("loader"), "loader");
        assert_eq!(named(&"x".repeat(1_000)).len(), CLIENT_ID_BYTES_MAX);
        assert_eq!(named("ü"), "");
    }
}
