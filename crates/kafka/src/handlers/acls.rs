//! DescribeAcls, CreateAcls, DeleteAcls (KIP-140, KIP-290).
//!
//! Where no ACLs are in force the answers say so as Kafka's do. MirrorMaker and others ask, and go on without ACLs where
//! they are told this.

use logway_metadata::acl::{
    Acl, AclFilter, AclOperation, PatternFilter, PatternType, Permission, ResourceType,
};
use logway_metadata::controller::{CreateAcls, DeleteAcls};
use logway_model::ErrorCode;
use logway_node::access::{Operation, Resource};
use logway_node::failure::Failure;
use logway_wire::WireString;
use logway_wire::messages::create_acls_request::AclCreation;
use logway_wire::messages::create_acls_response::AclCreationResult;
use logway_wire::messages::delete_acls_request::DeleteAclsFilter;
use logway_wire::messages::delete_acls_response::{DeleteAclsFilterResult, DeleteAclsMatchingAcl};
use logway_wire::messages::describe_acls_response::{AclDescription, DescribeAclsResource};
use logway_wire::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse,
    DescribeAclsRequest, DescribeAclsResponse,
};

use super::batched_command::submit_each;
use super::building::ENTRY_WITH_MESSAGE_BYTES;
use crate::request::{RequestContext, refusal};

const NO_AUTHORIZER: &str = "No Authorizer is configured.";

/// What one entry takes in an answer, with the names that most have.
const ACL_BYTES: usize = 512;

/// The number that stands for any, in filters.
const ANY: i8 = 1;

/// The number of the pattern that stands for all entries about a resource.
const MATCH: i8 = 2;

pub(crate) mod describe {
    use super::*;

    /// Every entry, perhaps.
    pub(crate) fn built_bytes(context: &RequestContext, _request: &DescribeAclsRequest) -> usize {
        context.sizes().acl_count() * ACL_BYTES
    }

    pub(crate) async fn handle(
        context: RequestContext,
        request: DescribeAclsRequest,
    ) -> DescribeAclsResponse {
        match described(&context, &request) {
            Ok(resources) => {
                DescribeAclsResponse { error_message: None, resources, ..Default::default() }
            }
            Err(failure) => DescribeAclsResponse {
                error_code: failure.code.code(),
                error_message: Some(failure.message.into()),
                ..Default::default()
            },
        }
    }

    fn described(
        context: &RequestContext,
        request: &DescribeAclsRequest,
    ) -> Result<Vec<DescribeAclsResource>, Failure> {
        let image = context.metadata(Operation::Describe, Resource::Cluster).map_err(refusal)?;
        check_in_force(context)?;
        let filter = filter(
            request.resource_type_filter,
            request.resource_name_filter.as_ref(),
            request.pattern_type_filter,
            request.principal_filter.as_ref(),
            request.host_filter.as_ref(),
            request.operation,
            request.permission_type,
        )?;
        let mut resources: Vec<DescribeAclsResource> = Vec::new();
        for acl in image.acls().iter().filter(|acl| filter.fits(acl)) {
            let (kind, pattern) = (acl.resource_type.number(), acl.pattern.number());
            let told = AclDescription {
                principal: acl.principal.into(),
                host: acl.host.into(),
                operation: acl.operation.number(),
                permission_type: acl.permission.number(),
                ..Default::default()
            };
            // They come in the order of what they are about.
            match resources.last_mut() {
                Some(last)
                    if last.resource_type == kind
                        && last.pattern_type == pattern
                        && *last.resource_name == *acl.name =>
                {
                    last.acls.push(told);
                }
                _ => resources.push(DescribeAclsResource {
                    resource_type: kind,
                    resource_name: acl.name.into(),
                    pattern_type: pattern,
                    acls: vec![told],
                    ..Default::default()
                }),
            }
        }
        Ok(resources)
    }
}

pub(crate) mod create {
    use super::*;

    /// One answer for each ACL.
    pub(crate) fn built_bytes(_context: &RequestContext, request: &CreateAclsRequest) -> usize {
        request.creations.len() * ENTRY_WITH_MESSAGE_BYTES
    }

    pub(crate) async fn handle(
        context: RequestContext,
        request: CreateAclsRequest,
    ) -> CreateAclsResponse {
        let may = may_alter(&context);
        let acl = |creation: &AclCreation| may.clone().and_then(|()| acl(creation));
        let acls = request.creations.iter().map(acl).collect();
        let results = submit_each(&context, None, acls, |acls| CreateAcls { acls }).await;
        let result = |result: Result<(), Failure>| {
            let (error_code, error_message) = told(result.err());
            AclCreationResult { error_code, error_message, ..Default::default() }
        };
        let results = results.into_iter().map(result).collect();
        CreateAclsResponse { results, ..Default::default() }
    }

    fn acl(creation: &AclCreation) -> Result<Acl, Failure> {
        let unknown =
            || invalid("The ACL has a kind, pattern, operation or permission that there is not.");
        Ok(Acl {
            resource_type: ResourceType::from_number(creation.resource_type).ok_or_else(unknown)?,
            pattern: PatternType::from_number(creation.resource_pattern_type)
                .ok_or_else(unknown)?,
            name: creation.resource_name.to_string(),
            principal: creation.principal.to_string(),
            host: creation.host.to_string(),
            operation: AclOperation::from_number(creation.operation).ok_or_else(unknown)?,
            permission: Permission::from_number(creation.permission_type).ok_or_else(unknown)?,
        })
    }
}

pub(crate) mod delete {
    use super::*;

    /// One answer for each filter, with the entries that it has removed.
    pub(crate) fn built_bytes(context: &RequestContext, request: &DeleteAclsRequest) -> usize {
        let removed_max = context.sizes().acl_count() * request.filters.len().min(1);
        request.filters.len() * ENTRY_WITH_MESSAGE_BYTES + removed_max * ACL_BYTES
    }

    pub(crate) async fn handle(
        context: RequestContext,
        request: DeleteAclsRequest,
    ) -> DeleteAclsResponse {
        let may = may_alter(&context);
        let judged = |asked: &DeleteAclsFilter| {
            may.clone()?;
            filter(
                asked.resource_type_filter,
                asked.resource_name_filter.as_ref(),
                asked.pattern_type_filter,
                asked.principal_filter.as_ref(),
                asked.host_filter.as_ref(),
                asked.operation,
                asked.permission_type,
            )
        };
        let filters = request.filters.iter().map(judged).collect();
        let delete = |filters| DeleteAcls { filters };
        let results = submit_each(&context, None, filters, delete).await;
        let filter_results = results.into_iter().map(result).collect();
        DeleteAclsResponse { filter_results, ..Default::default() }
    }

    fn result(result: Result<Vec<Acl>, Failure>) -> DeleteAclsFilterResult {
        let (removed, failure) = match result {
            Ok(removed) => (removed, None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        let (error_code, error_message) = told(failure);
        let matching = |acl: Acl| DeleteAclsMatchingAcl {
            error_message: None,
            resource_type: acl.resource_type.number(),
            resource_name: acl.name.into(),
            pattern_type: acl.pattern.number(),
            principal: acl.principal.into(),
            host: acl.host.into(),
            operation: acl.operation.number(),
            permission_type: acl.permission.number(),
            ..Default::default()
        };
        let matching_acls = removed.into_iter().map(matching).collect();
        DeleteAclsFilterResult { error_code, error_message, matching_acls, ..Default::default() }
    }
}

/// The filter of these numbers and words. No word stands for any.
fn filter(
    resource_type: i8,
    name: Option<&WireString>,
    pattern: i8,
    principal: Option<&WireString>,
    host: Option<&WireString>,
    operation: i8,
    permission: i8,
) -> Result<AclFilter, Failure> {
    fn any_or<T>(number: i8, from: impl Fn(i8) -> Option<T>) -> Result<Option<T>, Failure> {
        match (number, from(number)) {
            (ANY, _) => Ok(None),
            (_, Some(one)) => Ok(Some(one)),
            (_, None) => Err(invalid("The filter contains UNKNOWN elements.")),
        }
    }
    let pattern = match pattern {
        MATCH => PatternFilter::Match,
        number => any_or(number, PatternType::from_number)?
            .map_or(PatternFilter::Any, PatternFilter::Only),
    };
    let text = |word: Option<&WireString>| word.map(ToString::to_string);
    Ok(AclFilter {
        resource_type: any_or(resource_type, ResourceType::from_number)?,
        pattern,
        name: text(name),
        principal: text(principal),
        host: text(host),
        operation: any_or(operation, AclOperation::from_number)?,
        permission: any_or(permission, Permission::from_number)?,
    })
}

/// Who may not do this is told so first.
fn may_alter(context: &RequestContext) -> Result<(), Failure> {
    context.check(Operation::Alter, Resource::Cluster).map_err(refusal)?;
    check_in_force(context)
}

fn check_in_force(context: &RequestContext) -> Result<(), Failure> {
    match context.has_acls() {
        true => Ok(()),
        false => Err(Failure::new(ErrorCode::SecurityDisabled, NO_AUTHORIZER)),
    }
}

fn invalid(message: &str) -> Failure {
    Failure::new(ErrorCode::InvalidRequest, message)
}

fn told(failure: Option<Failure>) -> (i16, Option<WireString>) {
    match failure {
        Some(failure) => (failure.code.code(), Some(failure.message.into())),
        None => (ErrorCode::None.code(), None),
    }
}
