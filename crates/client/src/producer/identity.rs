//! Who an idempotent producer is.

use logway_model::{ProducerEpoch, ProducerId};
use logway_wire::messages::InitProducerIdRequest;

use crate::error::check;
use crate::{Client, ClientError, Connection};

/// What brokers know a producer by (KIP-98).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProducerIdentity {
    pub(super) id: ProducerId,
    pub(super) epoch: ProducerEpoch,
    /// Whether its batches are part of transactions.
    pub(super) is_transactional: bool,
}

/// Asks for an id. It does no harm to ask again: ids that nobody uses are forgotten.
pub(super) async fn init_producer_id(client: &Client) -> Result<ProducerIdentity, ClientError> {
    let request = InitProducerIdRequest {
        transactional_id: None,
        // It bounds transactions, of which there are none.
        transaction_timeout_ms: i32::MAX,
        ..InitProducerIdRequest::default()
    };
    let request = &request;
    let ask = |connection: Connection| async move {
        let response = connection.call(request).await?;
        check(|| "get a producer id".to_owned(), response.error_code, None)?;
        Ok(ProducerIdentity {
            id: ProducerId(response.producer_id),
            epoch: ProducerEpoch(response.producer_epoch),
            is_transactional: false,
        })
    };
    client.ask_any(ask).await
}
