//! Before anything else, on listeners that ask for it, a client says who it is.
//!
//! Until then it gets little: small frames, one after the other, a few of them, and not for long.

use std::sync::Arc;

use logway_wire::ApiKey;
use thiserror::Error;
use tokio::time::{Duration, Instant, timeout, timeout_at};

use super::frame::Frame;
use super::send::{self, SendPatience};
use super::{Connection, ConnectionError};
use crate::authentication::{Carriage, take_token};

/// How long a client may take to say who it is, on a connection that is open.
const TIME_MAX: Duration = Duration::from_secs(10);

/// How many frames it may take: versions, a handshake, and as many tokens as no mechanism needs.
const FRAMES_MAX: usize = 10;

/// How long a client that is not believed may take to end the connection.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// Why a client is not known.
#[derive(Debug, Error)]
pub(crate) enum NotKnown {
    /// It asks for something without having said who it is.
    #[error("{0} came before the client has said who it is; does the client use SASL?")]
    Unasked(&'static str),
    /// It has not begun with a request of Kafka.
    #[error(
        "the client has begun with something that is no request; does it use SASL, and TLS where that is asked for?"
    )]
    NoRequest,
    /// It took too long.
    #[error("the client has not said within {TIME_MAX:?} who it is")]
    TooLate,
    /// It took too many words.
    #[error("the client has not said in {FRAMES_MAX} requests who it is")]
    TooMany,
    /// It is not who it says.
    #[error("the client was not believed")]
    NotBelieved,
    /// It was known once, and had to say it again.
    #[error("the session of the client is over, and it has not said again who it is")]
    Expired,
}

impl Connection {
    /// Asks who the client is, if its listener does. `false` if it has closed meanwhile.
    pub(super) async fn ask_who(&mut self) -> Result<bool, ConnectionError> {
        let info = Arc::clone(&self.info);
        let asked = info.appender.drive(self.listen_to_stranger()).await;
        if asked.is_err() {
            self.transport.close();
        }
        asked
    }

    async fn listen_to_stranger(&mut self) -> Result<bool, ConnectionError> {
        let Some(sasl) = self.info.listener.settings.sasl.clone() else { return Ok(true) };
        let deadline = Instant::now() + TIME_MAX;
        let frame_max_bytes = self.frames.set_max_bytes(sasl.receive_max_bytes);
        for _ in 0..FRAMES_MAX {
            let next = self.frames.next(&mut self.transport, &self.info.appender);
            let next = timeout_at(deadline, next).await.map_err(|_| NotKnown::TooLate)?;
            let Some(frame) = next? else { return Ok(false) };
            let Some(authentication) = &self.info.authentication else { return Ok(true) };
            match authentication.takes_raw_tokens() {
                true => {
                    let taken =
                        take_token(&self.service, &self.info, &sasl, Carriage::Raw, &frame.body);
                    // A client that sends raw tokens is told by the end of the connection that it is not believed.
                    let answered = taken.await.map_err(|_| NotKnown::NotBelieved)?;
                    self.send_token(&answered.token).await?;
                }
                false => self.answer_stranger(frame).await?,
            }
            if self.info.is_refused() {
                // Some clients lose an answer if the connection ends right behind it. So they may end it first.
                let next = self.frames.next(&mut self.transport, &self.info.appender);
                _ = timeout(CLOSE_MAX, next).await;
                return Err(NotKnown::NotBelieved.into());
            }
            if self.info.authentication.as_ref().is_some_and(|it| it.is_known()) {
                self.frames.set_max_bytes(frame_max_bytes);
                return Ok(true);
            }
        }
        Err(NotKnown::TooMany.into())
    }

    /// Answers one of the few requests that somebody may make whom nobody knows.
    async fn answer_stranger(&mut self, frame: Frame) -> Result<(), ConnectionError> {
        let api_key = api_key_of(&frame).ok_or(NotKnown::NoRequest)?;
        if !is_open_to_strangers(api_key) {
            return Err(NotKnown::Unasked(api_key.name()).into());
        }
        self.start(frame).await?;
        while !self.replies.is_empty() {
            let reply = self.replies.next().await;
            self.send_ready(reply).await?;
        }
        Ok(())
    }

    async fn send_token(&mut self, token: &[u8]) -> Result<(), ConnectionError> {
        let length = u32::try_from(token.len()).unwrap_or(u32::MAX);
        let frame = [&length.to_be_bytes(), token].concat();
        let memory = &self.service.node.memory;
        let patience = SendPatience { stall_max: TIME_MAX, memory };
        Ok(send::send_bytes(&mut self.transport, &frame, &patience).await?)
    }

    /// Refuses a request of a client that had to say again who it is.
    #[inline]
    pub(super) fn check_session(&self, frame: &Frame) -> Result<(), NotKnown> {
        match &self.info.authentication {
            Some(authentication) if authentication.has_expired() => {
                match api_key_of(frame).is_some_and(is_open_to_strangers) {
                    true => Ok(()),
                    false => Err(NotKnown::Expired),
                }
            }
            _ => Ok(()),
        }
    }
}

fn api_key_of(frame: &Frame) -> Option<ApiKey> {
    let id = frame.body.first_chunk()?;
    ApiKey::from_id(i16::from_be_bytes(*id))
}

fn is_open_to_strangers(api_key: ApiKey) -> bool {
    matches!(api_key, ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate)
}
