//! Access control lists (KIP-140).

use logway_metadata::acl::{
    Acl, AclFilter, AclOperation, PatternFilter, PatternType, Permission, ResourceType,
};
use logway_wire::WireString;
use logway_wire::messages::create_acls_request::AclCreation;
use logway_wire::messages::delete_acls_request::DeleteAclsFilter;
use logway_wire::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse,
    DescribeAclsRequest,
};

use crate::error::check;
use crate::{Client, ClientError};

const ANY: i8 = 1;
const MATCH: i8 = 2;

impl Client {
    /// The entries that a filter fits.
    ///
    /// # Errors
    ///
    /// As of any call; `SECURITY_DISABLED` where no ACLs are in force, `CLUSTER_AUTHORIZATION_FAILED` for who may not
    /// describe the cluster.
    pub async fn describe_acls(&self, filter: &AclFilter) -> Result<Vec<Acl>, ClientError> {
        let request = DescribeAclsRequest {
            resource_type_filter: filter.resource_type.map_or(ANY, ResourceType::number),
            resource_name_filter: text_of(&filter.name),
            pattern_type_filter: pattern_number(filter.pattern),
            principal_filter: text_of(&filter.principal),
            host_filter: text_of(&filter.host),
            operation: filter.operation.map_or(ANY, AclOperation::number),
            permission_type: filter.permission.map_or(ANY, Permission::number),
            ..Default::default()
        };
        let response = self.call_any(&request).await?;
        let what = || "list ACLs".to_owned();
        check(what, response.error_code, response.error_message.as_ref())?;
        let acls = response.resources.iter().flat_map(|resource| {
            resource.acls.iter().filter_map(|entry| {
                known(Numbers {
                    resource_type: resource.resource_type,
                    pattern: resource.pattern_type,
                    operation: entry.operation,
                    permission: entry.permission_type,
                    texts: [&resource.resource_name, &entry.principal, &entry.host],
                })
            })
        });
        Ok(acls.collect())
    }

    /// Adds entries; each has its own result.
    ///
    /// # Errors
    ///
    /// As of any call, if nothing was done.
    pub async fn create_acls(
        &self,
        acls: &[Acl],
    ) -> Result<Vec<Result<(), ClientError>>, ClientError> {
        let creation = |acl: &Acl| AclCreation {
            resource_type: acl.resource_type.number(),
            resource_name: WireString::copy_of(&acl.name),
            resource_pattern_type: acl.pattern.number(),
            principal: WireString::copy_of(&acl.principal),
            host: WireString::copy_of(&acl.host),
            operation: acl.operation.number(),
            permission_type: acl.permission.number(),
            ..Default::default()
        };
        let creations = acls.iter().map(creation).collect();
        let request = CreateAclsRequest { creations, ..Default::default() };
        let codes = |response: &CreateAclsResponse| {
            response.results.iter().map(|result| result.error_code).collect()
        };
        let results = self.change(&request, codes).await?.results;
        let told = acls.iter().zip(results).map(|(acl, result)| {
            let what = || format!("create the ACL '{acl}'");
            check(what, result.error_code, result.error_message.as_ref())
        });
        Ok(told.collect())
    }

    /// Removes the entries that a filter fits, and gives them back.
    ///
    /// # Errors
    ///
    /// As of any call.
    pub async fn delete_acls(&self, filter: &AclFilter) -> Result<Vec<Acl>, ClientError> {
        let filters = vec![DeleteAclsFilter {
            resource_type_filter: filter.resource_type.map_or(ANY, ResourceType::number),
            resource_name_filter: text_of(&filter.name),
            pattern_type_filter: pattern_number(filter.pattern),
            principal_filter: text_of(&filter.principal),
            host_filter: text_of(&filter.host),
            operation: filter.operation.map_or(ANY, AclOperation::number),
            permission_type: filter.permission.map_or(ANY, Permission::number),
            ..Default::default()
        }];
        let request = DeleteAclsRequest { filters, ..Default::default() };
        let codes = |response: &DeleteAclsResponse| {
            response.filter_results.iter().map(|result| result.error_code).collect()
        };
        let mut removed = Vec::new();
        for result in self.change(&request, codes).await?.filter_results {
            let what = || "delete ACLs".to_owned();
            check(what, result.error_code, result.error_message.as_ref())?;
            removed.extend(result.matching_acls.iter().filter_map(|acl| {
                known(Numbers {
                    resource_type: acl.resource_type,
                    pattern: acl.pattern_type,
                    operation: acl.operation,
                    permission: acl.permission_type,
                    texts: [&acl.resource_name, &acl.principal, &acl.host],
                })
            }));
        }
        Ok(removed)
    }
}

fn text_of(filter: &Option<String>) -> Option<WireString> {
    filter.as_deref().map(WireString::copy_of)
}

fn pattern_number(pattern: PatternFilter) -> i8 {
    match pattern {
        PatternFilter::Any => ANY,
        PatternFilter::Match => MATCH,
        PatternFilter::Only(pattern) => pattern.number(),
    }
}

/// An entry as it travels: name, principal and host in this order.
struct Numbers<'a> {
    resource_type: i8,
    pattern: i8,
    operation: i8,
    permission: i8,
    texts: [&'a WireString; 3],
}

/// The entry; `None` for one of a kind that a newer broker has.
fn known(numbers: Numbers<'_>) -> Option<Acl> {
    let [name, principal, host] = numbers.texts.map(ToString::to_string);
    Some(Acl {
        resource_type: ResourceType::from_number(numbers.resource_type)?,
        pattern: PatternType::from_number(numbers.pattern)?,
        operation: AclOperation::from_number(numbers.operation)?,
        permission: Permission::from_number(numbers.permission)?,
        name,
        principal,
        host,
    })
}
