//! SaslHandshake and SaslAuthenticate: a client says who it is, or says it again (KIP-368).
//!
//! On listeners that ask nobody both are refused as in Kafka, and a client whose settings are wrong can say what is wrong
//! with them.

use bytes::Bytes;
use logway_model::ErrorCode;
use logway_wire::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};

use crate::authentication::Carriage;
use crate::request::RequestContext;

/// From this version on tokens come in requests of their own (KIP-152).
const REQUESTS_FROM: i16 = 1;

/// The answers are small.
pub(crate) fn built_bytes<R>(_context: &RequestContext, _request: &R) -> usize {
    0
}

pub(crate) async fn handshake(
    context: RequestContext,
    request: SaslHandshakeRequest,
) -> SaslHandshakeResponse {
    let carriage = match context.version >= REQUESTS_FROM {
        true => Carriage::Requests,
        false => Carriage::Raw,
    };
    let chosen = context.choose_mechanism(&request.mechanism, carriage);
    let mechanisms = context.mechanisms().iter().map(|mechanism| mechanism.name().into());
    SaslHandshakeResponse {
        error_code: chosen.err().unwrap_or(ErrorCode::None).code(),
        mechanisms: mechanisms.collect(),
        ..Default::default()
    }
}

pub(crate) async fn authenticate(
    context: RequestContext,
    request: SaslAuthenticateRequest,
) -> SaslAuthenticateResponse {
    let refused = |code: ErrorCode, message: String| SaslAuthenticateResponse {
        error_code: code.code(),
        error_message: Some(message.into()),
        ..Default::default()
    };
    if context.mechanisms().is_empty() {
        let protocol = context.connection.listener.settings.protocol;
        let message = format!("this listener asks nobody who they are: use {protocol}");
        return refused(ErrorCode::IllegalSaslState, message);
    }
    match context.take_token(&request.auth_bytes).await {
        Ok(answered) => SaslAuthenticateResponse {
            auth_bytes: Bytes::from(answered.token),
            session_lifetime_ms: answered.lifetime_ms,
            ..Default::default()
        },
        Err(error) => refused(ErrorCode::SaslAuthenticationFailed, error.message),
    }
}
