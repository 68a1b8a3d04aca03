//! Listeners with TLS, SASL and ACLs: who gets in, who does not, and what somebody may do then.

#[path = "../common/mod.rs"]
mod common;

mod certificates;
mod delegation_tokens;
mod logging_in;
mod permissions;
mod tls;

use std::net::SocketAddr;

use common::*;
use logway_client::{
    BrokerAddress, ClientError, Connection, ConnectionOptions, Password, Security,
};
use logway_metadata::controller::{AlterScramCredentials, ScramCredentialChange};
use logway_metadata::sasl::{SaslMechanism, ScramMechanism};
use logway_security::scram::new_credential;

const PASSWORD: &str = "open sesame";

/// Gives a user a password, for both hashes of SCRAM.
async fn add_user(broker: &TestBroker, user: &str, password: &str) {
    let change = |mechanism| ScramCredentialChange {
        user: user.to_owned(),
        mechanism,
        credential: Some(new_credential(mechanism, password, 4_096).expect("is made")),
    };
    let changes = ScramMechanism::ALL.map(change).to_vec();
    let altered = broker.node().submit(AlterScramCredentials { changes }, None, None).await;
    assert!(altered.expect("is committed").iter().all(Result::is_ok));
}

fn password(mechanism: SaslMechanism, user: &str, password: &str) -> Password {
    let (user, password) = (user.to_owned(), password.to_owned());
    Password { mechanism, user, password, is_delegation_token: false }
}

/// Connects to an address as a client that is known by these means.
async fn connect_to(address: SocketAddr, security: Security) -> Result<Connection, ClientError> {
    let options = ConnectionOptions { security, ..ConnectionOptions::default() };
    let address = BrokerAddress::new("localhost".to_owned(), address.port());
    Connection::open(&address, &options).await
}
