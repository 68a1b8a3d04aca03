//! What clients are told when something did not work: AWS's names, in one place.

use hyper::StatusCode;
use logway_model::ErrorCode;
use logway_node::Failure;

use crate::value::Structure;

/// An error of AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it says, if it says anything.
    pub(crate) message: Option<String>,
    /// The HTTP status.
    pub(crate) status: u16,
}

/// The name of errors of types and syntax.
pub(crate) const SERIALIZATION: &str = "SerializationException";

/// A shard has done what it may. SDKs try again later.
pub(crate) const THROUGHPUT_EXCEEDED: &str = "ProvisionedThroughputExceededException";

impl ApiError {
    /// The HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// An error of the client.
    pub(crate) fn new(name: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { name, message: Some(message.into()), status: 400 }
    }

    /// An error without a word.
    pub(crate) fn bare(name: &'static str) -> ApiError {
        ApiError { name, message: None, status: 400 }
    }

    /// Something is not as it has to be for the request.
    pub(crate) fn argument(message: impl Into<String>) -> ApiError {
        ApiError::new("InvalidArgumentException", message)
    }

    /// Something that is named does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> ApiError {
        ApiError::new("ResourceNotFoundException", message)
    }

    /// Something is not in the state that the request needs.
    pub(crate) fn in_use(message: impl Into<String>) -> ApiError {
        ApiError::new("ResourceInUseException", message)
    }

    /// There would be too much of something.
    pub(crate) fn limit(message: impl Into<String>) -> ApiError {
        ApiError::new("LimitExceededException", message)
    }

    /// The request breaks a rule of the model.
    pub(crate) fn validation(message: impl Into<String>) -> ApiError {
        ApiError::new("ValidationException", message)
    }

    /// The service has failed; clients try again.
    pub(crate) fn internal(message: impl Into<String>) -> ApiError {
        ApiError { status: 500, ..ApiError::new("InternalFailure", message) }
    }

    /// The requester may not do that.
    pub(crate) fn denied(what: &str, resource: &str) -> ApiError {
        let message = format!("User is not authorized to perform: kinesis:{what} on {resource}");
        ApiError::new("AccessDeniedException", message)
    }

    /// As a structure, to be encoded like a response. What is wrong with types is a `Message`, with a capital.
    pub(crate) fn to_structure(&self) -> Structure {
        let name = if self.name == SERIALIZATION { "Message" } else { "message" };
        Structure::new().with("__type", self.name).with_some(name, self.message.clone())
    }
}

/// The errors of a node that no handler expects.
impl From<Failure> for ApiError {
    fn from(failure: Failure) -> ApiError {
        let Failure { code, message, .. } = failure;
        match code {
            ErrorCode::UnknownTopicId
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::ResourceNotFound => ApiError::not_found(message),
            ErrorCode::TopicAlreadyExists
            | ErrorCode::DuplicateResource
            | ErrorCode::ReassignmentInProgress => ApiError::in_use(message),
            ErrorCode::PolicyViolation => ApiError::limit(message),
            ErrorCode::ThrottlingQuotaExceeded => ApiError::new(THROUGHPUT_EXCEEDED, message),
            ErrorCode::InvalidRequest
            | ErrorCode::InvalidConfig
            | ErrorCode::InvalidTopicException
            | ErrorCode::InvalidPartitions
            | ErrorCode::OffsetOutOfRange
            | ErrorCode::MessageTooLarge => ApiError::argument(message),
            ErrorCode::TopicAuthorizationFailed | ErrorCode::ClusterAuthorizationFailed => {
                ApiError::new("AccessDeniedException", message)
            }
            // Clients try again after these.
            code if code.is_retriable() => {
                ApiError { status: 503, ..ApiError::new("ServiceUnavailable", message) }
            }
            _ => ApiError::internal(message),
        }
    }
}
