//! SaslHandshake and SaslAuthenticate: clients say who they are before anything else, on listeners that
//! ask for it. No listener here does. Kafka answers so on its listeners without authentication, and a
//! client whose settings are wrong can say what is wrong with them.

use logway_model::ErrorCode;
use logway_wire::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};

use crate::request::RequestContext;

/// The answers are small.
pub(crate) fn built_bytes<R>(_context: &RequestContext, _request: &R) -> usize {
    0
}

pub(crate) async fn handshake(
    _context: RequestContext,
    _request: SaslHandshakeRequest,
) -> SaslHandshakeResponse {
    let error_code = ErrorCode::IllegalSaslState.code();
    SaslHandshakeResponse { error_code, ..Default::default() }
}

pub(crate) async fn authenticate(
    _context: RequestContext,
    _request: SaslAuthenticateRequest,
) -> SaslAuthenticateResponse {
    let message = "this listener is plain text and asks nobody who they are: use PLAINTEXT";
    SaslAuthenticateResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        error_message: Some(message.into()),
        ..Default::default()
    }
}
