//! One request on its way: who asks, and for which table.

use std::sync::Arc;

use logway_model::TopicId;
use logway_node::access::{Operation as Permission, Resource};

use super::shapes::TableOperation;
use super::store::Table;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::service::Service;
use crate::shape::Operation;
use crate::value::Structure;

/// Begins the names of topics that are tables.
pub(super) const TOPIC_PREFIX: &str = "kinesis.table.";

/// Names of tables have so many characters, with what the name of a topic has room for.
const NAME_MIN: usize = 3;
const NAME_MAX: usize = 249 - TOPIC_PREFIX.len();

/// A request.
pub(super) struct TableCall {
    /// What is served.
    pub(super) service: Arc<Service>,
    /// The operation.
    pub(super) operation: &'static Operation<TableOperation>,
    /// What it holds, which obeys its shape.
    pub(super) input: Structure,
    /// Who asks.
    pub(super) caller: Caller,
}

/// A table that the metadata has.
pub(super) struct FoundTable {
    /// Its name.
    pub(super) name: String,
    /// The id of its topic.
    pub(super) id: TopicId,
    /// The view of it.
    pub(super) table: Arc<Table>,
}

/// Says of requests for items that there is no such table.
pub(super) fn no_table() -> ApiError {
    ApiError::not_found("Requested resource not found")
}

impl TableCall {
    /// The table that the request names, by its name or its ARN.
    pub(super) fn table_name(&self) -> Result<String, ApiError> {
        let text = self.input.text("TableName").unwrap_or_default();
        let name = match text.strip_prefix("arn:") {
            Some(arn) => arn.split_once(":table/").map_or("", |(_, name)| name),
            None => text,
        };
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
        if !name.chars().all(is_letter) {
            return Err(ApiError::validation(format!(
                "1 validation error detected: Value '{text}' at 'tableName' failed to satisfy constraint: Member must \
                 satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
            )));
        }
        if !(NAME_MIN..=NAME_MAX).contains(&name.len()) {
            return Err(ApiError::validation(format!(
                "TableName must be at least {NAME_MIN} characters long and at most {NAME_MAX} characters long"
            )));
        }
        Ok(name.to_owned())
    }

    /// The ARN of a table.
    pub(super) fn arn(&self, name: &str) -> String {
        let account = &self.service.account;
        format!("arn:aws:dynamodb:{}:{}:table/{name}", account.region, account.id)
    }

    /// Refuses who may not do something with a table.
    pub(super) fn check(&self, permission: Permission, name: &str) -> Result<(), ApiError> {
        let topic = format!("{TOPIC_PREFIX}{name}");
        match self.may(permission, Resource::Topic(&topic)) {
            true => Ok(()),
            false => {
                let (operation, arn) = (self.operation.text, self.arn(name));
                let message = format!(
                    "User is not authorized to perform: dynamodb:{operation} on resource: {arn}"
                );
                Err(ApiError::new("AccessDeniedException", message))
            }
        }
    }

    /// Whether the requester may do something.
    pub(super) fn may(&self, permission: Permission, resource: Resource<'_>) -> bool {
        self.caller.may(&self.service, permission, resource)
    }

    /// The name of the table that the request names, for who may do that with it.
    pub(super) fn allowed(&self, permissions: &[Permission]) -> Result<String, ApiError> {
        let name = self.table_name()?;
        for permission in permissions {
            self.check(*permission, &name)?;
        }
        Ok(name)
    }

    /// The table of a name, without asking who wants it.
    pub(super) fn find(&self, name: String) -> Option<FoundTable> {
        let image = self.service.node.image();
        let id = image.topic(&format!("{TOPIC_PREFIX}{name}"))?.id;
        let table = self.service.tables.table(id, &image);
        Some(FoundTable { name, id, table })
    }
}
