//! What tokens of clients are sealed with.

use std::sync::Arc;
use std::time::Duration;

use logway_log::random_uuid;
use logway_metadata::controller::MakeSealingKey;
use logway_model::ErrorCode;
use logway_security::seal::Sealer;

use crate::Node;
use crate::failure::Failure;

/// How long it may take to make the key.
const COMMIT_MAX: Duration = Duration::from_secs(10);

impl Node {
    /// Seals tokens for a purpose. All nodes of the cluster know the seal, also after restarts. The key is made when it is needed for
    /// the first time.
    ///
    /// Fails where that cannot be committed.
    pub async fn sealer(self: &Arc<Self>, purpose: &'static str) -> Result<Sealer, Failure> {
        if self.image().sealing_key().is_none() {
            let key = [random_uuid(), random_uuid()];
            self.submit(MakeSealingKey { key }, Some(COMMIT_MAX), None).await?;
        }
        let key = self.image().sealing_key().ok_or_else(|| {
            Failure::new(ErrorCode::UnknownServerError, "there is no key to seal tokens with")
        })?;
        Ok(Sealer::new(key, purpose))
    }
}
