//! The cluster as a whole.

use std::time::Duration;

use logway_model::BrokerId;
use logway_wire::messages::{ApiVersionsRequest, DescribeClusterRequest, UnregisterBrokerRequest};
use tokio::time::timeout;

use crate::error::check;
use crate::{BrokerAddress, Client, ClientError};

/// A cluster as one of its brokers describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDescription {
    /// The cluster's name.
    pub id: String,
    /// In the order of their numbers.
    pub brokers: Vec<DescribedBroker>,
}

/// A broker as the cluster knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedBroker {
    /// Its number.
    pub id: BrokerId,
    /// Where clients are to connect.
    pub address: BrokerAddress,
    /// The rack or zone, if it has one.
    pub rack: Option<String>,
    /// Whether it is registered but not in service (KIP-1073).
    pub is_fenced: bool,
}

impl Client {
    /// Describes the cluster, with the brokers that are not in service where the broker tells.
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, ClientError> {
        let connection = self.any().await?;
        let version = connection.version_for::<DescribeClusterRequest>(i16::MAX)?;
        let include_fenced_brokers = version >= 2;
        let request = DescribeClusterRequest { include_fenced_brokers, ..Default::default() };
        let response = connection.send(&request, version).await?.response().await?;
        let what = || "describe the cluster".to_owned();
        check(what, response.error_code, response.error_message.as_ref())?;
        let brokers = response.brokers.into_iter().map(|broker| DescribedBroker {
            id: BrokerId(broker.broker_id),
            address: BrokerAddress::new(
                broker.host.as_str(),
                u16::try_from(broker.port).unwrap_or(0),
            ),
            rack: broker.rack.map(String::from),
            is_fenced: broker.is_fenced,
        });
        let mut brokers: Vec<DescribedBroker> = brokers.collect();
        brokers.sort_by_key(|broker| broker.id);
        Ok(ClusterDescription { id: response.cluster_id.into(), brokers })
    }

    /// Removes a broker for good, whether it lives or not. Brokers of Logway do not come back by themselves then.
    ///
    /// # Errors
    ///
    /// As of any call; `BROKER_ID_NOT_REGISTERED` for one that does not exist, `INVALID_REQUEST` for one that the quorum
    /// cannot do without.
    pub async fn unregister_broker(&self, id: BrokerId) -> Result<(), ClientError> {
        let request = UnregisterBrokerRequest { broker_id: id.0, ..Default::default() };
        let response = self.change(&request, |response| vec![response.error_code]).await?;
        let what = || format!("remove node {id}");
        check(what, response.error_code, response.error_message.as_ref())
    }

    /// Whether a broker answers at an address within `patience`. A process that was stopped takes connections and does
    /// not.
    pub async fn is_answered(&self, address: &BrokerAddress, patience: Duration) -> bool {
        let ask = async {
            let connection = self.connect(address).await?;
            connection.call(&ApiVersionsRequest::default()).await
        };
        matches!(timeout(patience, ask).await, Ok(Ok(_)))
    }
}
