//! Settings of topics, groups, brokers and subscriptions, and the levels of the log.

use logway_model::ErrorCode;
use logway_wire::messages::describe_configs_request::DescribeConfigsResource;
use logway_wire::messages::{
    AlterConfigsRequest, AlterConfigsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, ListConfigResourcesRequest,
    ListConfigResourcesResponse, alter_configs_request, incremental_alter_configs_request,
};

use super::common::probe::Probe;
use super::{CLUSTER, GROUP, TOPIC};

const LOGGERS: i8 = 8;

/// Types of resources with a name, the code of a refusal, and what permission is about.
const RESOURCES: [(i8, &str, ErrorCode, &str); 5] = [
    (2, "named", TOPIC, "Topic(named)"),
    (4, "1", CLUSTER, "Cluster"),
    (LOGGERS, "1", CLUSTER, "Cluster"),
    (16, "subscription", CLUSTER, "Cluster"),
    (32, "named-group", GROUP, "Group(named-group)"),
];

pub(crate) async fn refused(probe: &mut Probe) {
    for (resource_type, name, code, about) in RESOURCES {
        let describe = |_| DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type,
                resource_name: name.into(),
                configuration_keys: None,
                ..Default::default()
            }],
            ..Default::default()
        };
        let described = |_, response: DescribeConfigsResponse| {
            assert!(response.results[0].configs.is_empty());
            vec![response.results[0].error_code]
        };
        probe.told(describe, described, code, &format!("DescribeConfigs {about}")).await;

        let operation = if resource_type == LOGGERS { "ClusterAction" } else { "AlterConfigs" };
        let change = |count| {
            move |_| {
                let resource = incremental_alter_configs_request::AlterConfigsResource {
                    resource_type,
                    resource_name: name.into(),
                    ..Default::default()
                };
                IncrementalAlterConfigsRequest {
                    resources: vec![resource; count],
                    ..Default::default()
                }
            }
        };
        let changed = |_, response: IncrementalAlterConfigsResponse| {
            response.responses.iter().map(|resource| resource.error_code).collect()
        };
        probe.told(change(1), changed, code, &format!("{operation} {about}")).await;
        if resource_type != LOGGERS {
            // What nobody may do is said first, as in Kafka.
            probe.told(change(2), changed, ErrorCode::InvalidRequest, "").await;
        }

        let replace = |_| AlterConfigsRequest {
            resources: vec![alter_configs_request::AlterConfigsResource {
                resource_type,
                resource_name: name.into(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let replaced = |_, response: AlterConfigsResponse| vec![response.responses[0].error_code];
        match resource_type {
            LOGGERS => probe.told(replace, replaced, ErrorCode::InvalidRequest, "").await,
            _ => probe.told(replace, replaced, code, &format!("AlterConfigs {about}")).await,
        }
    }

    let listed = |_, response: ListConfigResourcesResponse| {
        assert!(response.config_resources.is_empty());
        vec![response.error_code]
    };
    let list = |_| ListConfigResourcesRequest::default();
    probe.told(list, listed, CLUSTER, "DescribeConfigs Cluster").await;
}
