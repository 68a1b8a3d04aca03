//! How sessions get in where clients are asked who they are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, ensure};
use logway_log::fs::sim::Rng;
use logway_metadata::sasl::{SaslMechanism, ScramMechanism};
use logway_security::sasl::Login;
use logway_wire::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use logway_wire::{ApiKey, Decoder, Message, Request, decode_response_header, encode_request};

/// Passwords are checked one after the other, so a login may wait for those of all others.
const LOGIN_PATIENCE: Duration = Duration::from_secs(30);

/// The first version in which tokens come in requests.
const HANDSHAKE_VERSION: i16 = 1;
const AUTHENTICATE_VERSION: i16 = 2;

/// Who sends the sessions.
#[derive(Debug, Clone, Default)]
pub enum Entrance {
    /// A listener that asks nobody: sessions are sent as they are.
    #[default]
    Open,
    /// A listener that asks, and a client that has no password: handshakes and tokens are mutated. Nobody may get in.
    Stranger {
        /// A user that exists, whose password is guessed wrong.
        user: String,
    },
    /// A listener that asks, and a client that has told truly who it is before its session.
    Known {
        /// Who.
        user: String,
        /// Its password.
        password: String,
    },
}

impl Entrance {
    /// Logs in on a connection, where this is to be done before a session.
    ///
    /// # Errors
    ///
    /// The broker does not let the user in, or cannot be reached.
    pub(crate) fn log_in(&self, socket: &mut TcpStream, random: &mut Rng) -> anyhow::Result<()> {
        let Entrance::Known { user, password } = self else { return Ok(()) };
        // A password that travels as it is has to be hashed by the broker, which takes its time.
        let mechanism = match random.below(8) {
            0 => SaslMechanism::Plain,
            1 => SaslMechanism::Scram(ScramMechanism::Sha512),
            _ => SaslMechanism::Scram(ScramMechanism::Sha256),
        };
        log_in(socket, mechanism, user, password)
            .with_context(|| format!("{user} is not let in by {mechanism}"))
    }
}

fn log_in(
    socket: &mut TcpStream,
    mechanism: SaslMechanism,
    user: &str,
    password: &str,
) -> anyhow::Result<()> {
    socket.set_read_timeout(Some(LOGIN_PATIENCE))?;
    let handshake =
        SaslHandshakeRequest { mechanism: mechanism.name().into(), ..Default::default() };
    let chosen: SaslHandshakeResponse = ask(socket, HANDSHAKE_VERSION, &handshake)?;
    ensure!(chosen.error_code == 0, "error code {}", chosen.error_code);
    let (mut login, mut token) = Login::new(mechanism, user, password)?;
    loop {
        let request = SaslAuthenticateRequest { auth_bytes: token.into(), ..Default::default() };
        let told: SaslAuthenticateResponse = ask(socket, AUTHENTICATE_VERSION, &request)?;
        ensure!(told.error_code == 0, "error code {}", told.error_code);
        match login.step(&told.auth_bytes)? {
            Some(next) => token = next,
            None => return Ok(()),
        }
    }
}

fn ask<R: Request>(
    socket: &mut TcpStream,
    version: i16,
    request: &R,
) -> anyhow::Result<R::Response> {
    socket.write_all(&encode_request(0, None, version, request)?.bytes)?;
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    socket.read_exact(&mut frame)?;
    let mut decoder = Decoder::new(frame.into());
    decode_response_header(&mut decoder, R::API_KEY, version)?;
    Ok(R::Response::decode(&mut decoder, version)?)
}

/// Whether a client is answered that has not said who it is.
pub(crate) fn is_open_to_strangers(api_key: ApiKey) -> bool {
    matches!(api_key, ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate)
}
