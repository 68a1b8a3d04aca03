//! What clients are told when something did not work.

use crate::error::{ApiError, SERIALIZATION};
use crate::value::{Structure, Value};

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refused {
    /// The error.
    pub(crate) error: ApiError,
    /// What is told beside its text.
    pub(crate) detail: Option<(&'static str, Value)>,
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Refused {
        Refused { error, detail: None }
    }
}

impl Refused {
    /// The item is not as it had to be. It is told, if the request wants that.
    pub(super) fn condition(item: Option<Value>) -> Refused {
        let error =
            ApiError::new("ConditionalCheckFailedException", "The conditional request failed");
        Refused { error, detail: item.map(|item| ("Item", item)) }
    }

    /// As a structure, to be encoded like a response.
    pub(super) fn to_structure(&self) -> Structure {
        let ApiError { name, message, .. } = &self.error;
        let space = match *name {
            "ValidationException" => "com.amazon.coral.validate",
            SERIALIZATION
            | "UnknownOperationException"
            | "AccessDeniedException"
            | "InvalidSignatureException"
            | "MissingAuthenticationTokenException"
            | "IncompleteSignatureException"
            | "UnrecognizedClientException"
            | "ExpiredTokenException" => "com.amazon.coral.service",
            _ => "com.amazonaws.dynamodb.v20120810",
        };
        let text = if *name == SERIALIZATION { "Message" } else { "message" };
        let structure = Structure::new()
            .with("__type", format!("{space}#{name}"))
            .with_some(text, message.clone());
        match &self.detail {
            Some((name, value)) => structure.with(name, value.clone()),
            None => structure,
        }
    }
}

/// The service has failed; clients try again.
pub(super) fn failed(message: impl Into<String>) -> ApiError {
    ApiError { status: 500, ..ApiError::new("InternalServerError", message) }
}

/// There is too much to do; clients try again.
pub(super) fn throttled(message: impl Into<String>) -> ApiError {
    ApiError::new("ProvisionedThroughputExceededException", message)
}
