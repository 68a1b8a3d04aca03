//! CreateAcls and DeleteAcls.

use std::collections::BTreeSet;

use logway_model::ErrorCode;
use serde::{Deserialize, Serialize};

use super::alter_configs::decide;
use super::features::with_features;
use super::{COMMAND_RECORDS_MAX, Command, ControllerError, Decision, too_many_records};
use crate::acl::{Acl, AclFilter, AclOperation, CLUSTER_NAME, ResourceType};
use crate::image::MetadataImage;
use crate::record::{AclRecord, MetadataRecord};
use crate::settings::BrokerSettings;

/// The most entries that there can be.
pub const ACLS_MAX: usize = 200_000;

/// The longest name, principal or host of an entry.
pub const ACL_TEXT_MAX_BYTES: usize = 1_024;

/// Adds entries, each by itself. One that is there already is fine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateAcls {
    /// The entries.
    pub acls: Vec<Acl>,
}

impl Command for CreateAcls {
    type Reply = Vec<Result<(), ControllerError>>;

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let mut added = BTreeSet::new();
        let plans = self.acls.iter().map(|acl| {
            check(acl)?;
            if image.acls().has(acl) || !added.insert(acl) {
                return Ok(Vec::new());
            }
            if image.acls().count() + added.len() > ACLS_MAX {
                let message = format!(
                    "There can be {ACLS_MAX} ACLs at most; use prefixes, or fewer principals."
                );
                return Err(ControllerError::new(ErrorCode::PolicyViolation, message));
            }
            let record = AclRecord { acl: acl.clone(), is_removed: false };
            Ok(vec![MetadataRecord::Acl(record)])
        });
        Ok(with_features(decide(plans, false), image))
    }
}

/// Whether an entry makes sense, as in Kafka.
fn check(acl: &Acl) -> Result<(), ControllerError> {
    let invalid = |message: String| Err(ControllerError::new(ErrorCode::InvalidRequest, message));
    let Acl { resource_type, name, principal, host, operation, .. } = acl;
    if [name, principal, host].iter().any(|text| text.len() > ACL_TEXT_MAX_BYTES) {
        return invalid(format!("The texts of an ACL have {ACL_TEXT_MAX_BYTES} bytes at most."));
    }
    if name.is_empty() {
        return invalid("The name of a resource is empty.".to_owned());
    }
    if *resource_type == ResourceType::Cluster && name != CLUSTER_NAME {
        return invalid(format!("The only resource of the kind CLUSTER is {CLUSTER_NAME}."));
    }
    let is_principal =
        principal.split_once(':').is_some_and(|(kind, name)| !kind.is_empty() && !name.is_empty());
    if !is_principal {
        return invalid("A principal is of the form User:name.".to_owned());
    }
    if host.is_empty() {
        return invalid("A host is an address, or * for all.".to_owned());
    }
    if *operation != AclOperation::All && !resource_type.operations().contains(operation) {
        return invalid(format!("{operation} is nothing that is done with a {resource_type}."));
    }
    Ok(())
}

/// Removes entries, each filter by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteAcls {
    /// Which ones.
    pub filters: Vec<AclFilter>,
}

impl Command for DeleteAcls {
    type Reply = Vec<Result<Vec<Acl>, ControllerError>>;

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let (mut records, mut removed) = (Vec::new(), BTreeSet::new());
        let reply = self.filters.iter().map(|filter| {
            let fitting: Vec<Acl> = image.acls().iter().filter(|acl| filter.fits(acl)).collect();
            if records.len() + fitting.len() > COMMAND_RECORDS_MAX {
                return Err(too_many_records(COMMAND_RECORDS_MAX));
            }
            let new = fitting.iter().filter(|acl| removed.insert((*acl).clone()));
            let record =
                |acl: &Acl| MetadataRecord::Acl(AclRecord { acl: acl.clone(), is_removed: true });
            records.extend(new.map(record));
            Ok(fitting)
        });
        let reply = reply.collect();
        Ok(Decision { records, reply })
    }
}
