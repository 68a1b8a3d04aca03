//! A requester who may do what a policy says, and what it asked permission for.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use logway_client::Connection;
use logway_model::ErrorCode;
use logway_node::access::{Operation, Principal, Resource};
use logway_wire::Request;

use super::TestBroker;

/// Asks a broker things, and says what permission that takes.
pub struct Probe {
    pub connection: Connection,
    /// What the policy was asked, each question once.
    asked: Arc<Mutex<Vec<String>>>,
    /// The keys of the APIs that were used.
    pub used: BTreeSet<i16>,
    /// What no answer may hold.
    pub secrets: Vec<&'static str>,
}

impl Probe {
    /// From now on the broker allows what `allows` says.
    pub async fn start(
        broker: &TestBroker,
        allows: impl Fn(Operation, Resource<'_>) -> bool + Send + Sync + 'static,
    ) -> Probe {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&asked);
        broker.node().access.restrict(move |who, operation, resource| {
            assert_eq!(who.principal, Principal::anonymous());
            assert!(who.host.is_loopback());
            let question = format!("{operation:?} {resource:?}").replace('"', "");
            let mut log = log.lock().expect("is whole");
            if !log.contains(&question) {
                log.push(question);
            }
            allows(operation, resource)
        });
        let connection = broker.connect().await;
        Probe { connection, asked, used: BTreeSet::new(), secrets: Vec::new() }
    }

    /// The answer at one version, and the permissions that it took, in order.
    pub async fn ask<R: Request<Response: Debug>>(
        &mut self,
        request: &R,
        version: i16,
    ) -> (R::Response, String) {
        self.asked.lock().expect("is whole").clear();
        self.used.insert(R::API_KEY.id());
        let pending = self.connection.send(request, version).await.expect("is sent");
        let api = R::API_KEY.name();
        let response = pending.response().await.unwrap_or_else(|e| panic!("{api} {version}: {e}"));
        let told = format!("{response:?}");
        for secret in &self.secrets {
            assert!(!told.contains(secret), "{api} version {version} tells of {secret}: {told}");
        }
        (response, self.asked.lock().expect("is whole").join(", "))
    }

    /// Asks at each version that is served. Each answer has this code, and no other, and took these permissions.
    pub async fn told<R: Request<Response: Debug>>(
        &mut self,
        request: impl Fn(i16) -> R,
        codes: impl Fn(i16, R::Response) -> Vec<i16>,
        code: ErrorCode,
        permissions: &str,
    ) {
        for version in R::API_KEY.oldest()..=R::API_KEY.latest_stable() {
            self.told_at(version, &request(version), &codes, code, permissions).await;
        }
    }

    /// The same from a version on.
    pub async fn told_from<R: Request<Response: Debug>>(
        &mut self,
        first: i16,
        request: impl Fn(i16) -> R,
        codes: impl Fn(i16, R::Response) -> Vec<i16>,
        code: ErrorCode,
        permissions: &str,
    ) {
        for version in first..=R::API_KEY.latest_stable() {
            self.told_at(version, &request(version), &codes, code, permissions).await;
        }
    }

    async fn told_at<R: Request<Response: Debug>>(
        &mut self,
        version: i16,
        request: &R,
        codes: &impl Fn(i16, R::Response) -> Vec<i16>,
        code: ErrorCode,
        permissions: &str,
    ) {
        let api = R::API_KEY.name();
        let (response, asked) = self.ask(request, version).await;
        let told = format!("{response:?}");
        let codes = codes(version, response);
        assert!(!codes.is_empty(), "{api} version {version} says nothing: {told}");
        assert!(codes.iter().all(|told| *told == code.code()), "{api} version {version}: {told}");
        assert_eq!(asked, permissions, "{api} version {version}");
    }
}
