//! Who asks: a client at the other end of a connection, and what it may do.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use logway_node::access::{AccessMemory, Operation as Permission, Principal, Requester, Resource};
use tokio::sync::Notify;

use crate::service::Service;

/// A client, at the other end of a connection.
#[derive(Clone)]
pub(crate) struct Peer {
    /// Its address.
    pub(crate) address: SocketAddr,
    /// What was decided for who asks.
    pub(crate) told: Arc<LastRequester>,
    /// Told when the connection is to be given up.
    pub(crate) give_up: Arc<Notify>,
}

/// Who has asked last on a connection, and what was decided for that. Requests of several may come on one, through a proxy.
#[derive(Debug, Default)]
pub(crate) struct LastRequester(Mutex<Option<(Principal, Arc<AccessMemory>)>>);

impl LastRequester {
    fn memory_of(&self, principal: &Principal) -> Arc<AccessMemory> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((same, memory)) if same == principal => Arc::clone(memory),
            _ => {
                let memory = Arc::default();
                *last = Some((principal.clone(), Arc::clone(&memory)));
                memory
            }
        }
    }
}

/// Who asks, and from where.
#[derive(Clone)]
pub(crate) struct Caller {
    principal: Principal,
    host: IpAddr,
    /// What was decided for who asks, on this connection.
    access_memory: Arc<AccessMemory>,
}

impl Caller {
    pub(crate) fn new(peer: &Peer, principal: Principal) -> Caller {
        let access_memory = peer.told.memory_of(&principal);
        Caller { principal, host: peer.address.ip().to_canonical(), access_memory }
    }

    /// Whether it may do something; of administration, the audit log is told.
    pub(crate) fn may(
        &self,
        service: &Service,
        permission: Permission,
        resource: Resource<'_>,
    ) -> bool {
        let requester = Requester { principal: &self.principal, host: self.host };
        service.allows(&requester, permission, resource, &self.access_memory)
    }
}
