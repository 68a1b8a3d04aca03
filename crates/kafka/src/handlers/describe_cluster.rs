//! DescribeCluster: the brokers and what the client may do (KIP-700, KIP-919, KIP-1073).

use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::describe_cluster_response::DescribeClusterBroker;
use logway_wire::messages::{DescribeClusterRequest, DescribeClusterResponse};

use super::authorized_operations::NOT_ASKED;
use super::cluster_view::{BrokerView, ClusterView, leader_number};
use crate::request::RequestContext;
use logway_node::failure::Failure;

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;
/// From this version on a request says which kind of endpoint it is about.
const ENDPOINT_TYPE_FROM: i16 = 1;

/// The answer is as large as the cluster has brokers.
pub(crate) fn built_bytes(_context: &RequestContext, _request: &DescribeClusterRequest) -> usize {
    0
}

pub(crate) async fn handle(
    context: RequestContext,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    if let Err(failure) = check_endpoint_type(request.endpoint_type, context.version) {
        return DescribeClusterResponse {
            error_code: failure.code.code(),
            error_message: Some(failure.message.into()),
            ..Default::default()
        };
    }
    let view = ClusterView::of(&context);
    DescribeClusterResponse {
        endpoint_type: BROKERS,
        cluster_id: context.cluster_id().to_string().into(),
        controller_id: leader_number(view.controller_id()),
        brokers: match request.include_fenced_brokers {
            true => view.all_brokers().map(broker).collect(),
            false => view.brokers().map(broker).collect(),
        },
        cluster_authorized_operations: match request.include_cluster_authorized_operations {
            true => context.authorized_cluster_operations(),
            false => NOT_ASKED,
        },
        ..Default::default()
    }
}

/// This is an endpoint of brokers; there are none of controllers alone.
fn check_endpoint_type(endpoint_type: i8, version: i16) -> Result<(), Failure> {
    let (code, message) = match endpoint_type {
        BROKERS => return Ok(()),
        CONTROLLERS => (
            ErrorCode::MismatchedEndpointType,
            "this is an endpoint of a broker, not of a controller".to_owned(),
        ),
        other => (
            ErrorCode::UnsupportedEndpointType,
            format!("endpoint type {other} is unknown; 1 is brokers, 2 is controllers"),
        ),
    };
    let code = if version < ENDPOINT_TYPE_FROM { ErrorCode::InvalidRequest } else { code };
    Err(Failure::new(code, message))
}

fn broker(view: BrokerView<'_>) -> DescribeClusterBroker {
    DescribeClusterBroker {
        broker_id: view.id.0,
        host: WireString::copy_of(&view.address.host),
        port: view.address.port.into(),
        rack: view.rack.map(WireString::copy_of),
        is_fenced: view.is_fenced,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_brokers_are_described() {
        let code = |endpoint_type, version| {
            check_endpoint_type(endpoint_type, version).err().map(|failure| failure.code)
        };
        assert_eq!(code(BROKERS, 1), None);
        assert_eq!(code(CONTROLLERS, 1), Some(ErrorCode::MismatchedEndpointType));
        assert_eq!(code(7, 1), Some(ErrorCode::UnsupportedEndpointType));
        assert_eq!(code(7, 0), Some(ErrorCode::InvalidRequest));
    }
}
