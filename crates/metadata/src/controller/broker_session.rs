//! Brokers of a cluster start, are fenced, serve and stop (KIP-500, KIP-841).
//!
//! Time is not known here. Who was heard and when is [`BrokerLiveness`](super::BrokerLiveness); what
//! follows from it comes as a [`SetBrokerState`].

use logway_model::{BrokerId, DirectoryId, ErrorCode, Uuid};
use serde::{Deserialize, Serialize};

use super::partition_change::of_all_held_by;
use super::remove_broker::refuse_removed;
use super::{Command, ControllerError, Decision};
use crate::image::{Duty, MetadataImage};
use crate::record::{
    BrokerEpoch, BrokerRecord, BrokerSessionRecord, BrokerState, ConfigResource, Endpoint,
    Listener, MetadataRecord,
};
use crate::settings::BrokerSettings;
use crate::settings::broker::NODE_DUTY_SETTING;

/// A broker's process has started and wants to belong to the cluster. It is fenced at first.
///
/// Each start begins a new epoch of every partition that the broker led, also a start after which it leads
/// the same ones. A leader that lost what it had not synced would otherwise give offsets that others
/// have seen to other records, in the same epoch (KAFKA-18106).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartBroker {
    /// Its number.
    pub id: BrokerId,
    /// This start. A request that is sent again has the same.
    pub incarnation: Uuid,
    /// The address it advertises to clients, or `None` to tell each the address it came by.
    pub endpoint: Option<Endpoint>,
    /// Where it is reached, by listener.
    pub listeners: Vec<Listener>,
    /// The failure domain it stands in, if it knows.
    pub rack: Option<String>,
    /// The log directories that it can use, in the order of its settings.
    pub log_dirs: Vec<DirectoryId>,
    /// It was the only node until now and serves already, since before the cluster had a second one.
    #[serde(default)]
    pub serves_already: bool,
    /// It was stopped in good order before, so that all that it had is on its disks.
    #[serde(default)]
    pub was_clean: bool,
}

impl Command for StartBroker {
    type Reply = BrokerEpoch;

    /// As for [`RegisterBroker`](super::RegisterBroker).
    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        settings: &BrokerSettings,
    ) -> Result<Decision<BrokerEpoch>, ControllerError> {
        let StartBroker { id, incarnation, endpoint, listeners, rack, log_dirs, .. } = self;
        let session = image.broker_session(id);
        if let Some(known) = session.filter(|known| known.incarnation == incarnation) {
            return Ok(Decision { records: Vec::new(), reply: known.epoch });
        }
        refuse_removed(image, &log_dirs)?;
        check_predecessor(image, id, &log_dirs)?;
        let epoch = image.next_broker_epoch();
        let goes_on = self.serves_already && session.is_none();
        let state = if goes_on { BrokerState::Active } else { BrokerState::Fenced };
        let mut records = Vec::new();
        let broker = BrokerRecord { id, endpoint, rack, log_dirs };
        if image.broker(id) != Some(&broker) {
            records.push(MetadataRecord::Broker(broker));
        }
        let session = BrokerSessionRecord { id, incarnation, epoch, state, listeners };
        records.push(MetadataRecord::BrokerSession(session));
        // The node was to lead nothing until its next start, which this is.
        if image.duty(id) == Duty::Follow {
            let resource = ConfigResource::Broker(id);
            records.push(MetadataRecord::override_ended(resource, NODE_DUTY_SETTING));
        }
        if !goes_on {
            let was_clean = self.was_clean;
            records.extend(of_all_held_by(image, settings, id, |it| it.restart(id, was_clean)));
        }
        Ok(Decision { records, reply: epoch })
    }
}

/// Refuses a second process under the number of one that serves. A process holds the locks of its
/// directories, so one with the same directory shows that the process before it has ended.
fn check_predecessor(
    image: &MetadataImage,
    id: BrokerId,
    log_dirs: &[DirectoryId],
) -> Result<(), ControllerError> {
    let serves = image.broker_session(id).is_some() && image.is_active(id);
    let known = image.broker(id).map_or(&[][..], |broker| &broker.log_dirs);
    if !serves || known.iter().any(|directory| log_dirs.contains(directory)) {
        return Ok(());
    }
    let message = format!("Broker {id} serves, with other log directories.");
    Err(ControllerError::new(ErrorCode::DuplicateBrokerRegistration, message))
}

/// A broker becomes what it may be.
///
/// | state | what follows |
/// |---|---|
/// | fenced        | others that are in sync lead what it led; it leaves each ISR in which it is not the last one |
/// | active        | it leads what has no leader and what it is in sync with |
/// | shutting down | as fenced |
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetBrokerState {
    /// Which broker.
    pub id: BrokerId,
    /// Which of its lives. Of an earlier one nothing is taken.
    pub epoch: BrokerEpoch,
    /// What it becomes.
    pub state: BrokerState,
}

impl Command for SetBrokerState {
    type Reply = ();

    /// What a dead broker led must get another leader on a full disk, too.
    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        settings: &BrokerSettings,
    ) -> Result<Decision<()>, ControllerError> {
        let SetBrokerState { id, epoch, state } = self;
        let session = check_epoch(image, id, epoch)?;
        if session.state == state {
            return Ok(Decision { records: Vec::new(), reply: () });
        }
        let session = BrokerSessionRecord { state, ..session.clone() };
        let mut records = vec![MetadataRecord::BrokerSession(session)];
        records.extend(match state {
            BrokerState::Active => {
                of_all_held_by(image, settings, id, |change| change.come_back(id))
            }
            BrokerState::Fenced | BrokerState::ShuttingDown => {
                of_all_held_by(image, settings, id, |change| change.leave(id))
            }
        });
        Ok(Decision { records, reply: () })
    }
}

/// The session of a broker that asks for something, if it is in that life.
pub(super) fn check_epoch(
    image: &MetadataImage,
    id: BrokerId,
    epoch: BrokerEpoch,
) -> Result<&BrokerSessionRecord, ControllerError> {
    let Some(session) = image.broker_session(id) else {
        let message = format!("Broker {id} has not started.");
        return Err(ControllerError::new(ErrorCode::BrokerIdNotRegistered, message));
    };
    if session.epoch != epoch {
        let (epoch, now) = (epoch.0, session.epoch.0);
        let message = format!("Broker {id} is in epoch {now}, not in {epoch}.");
        return Err(ControllerError::new(ErrorCode::StaleBrokerEpoch, message));
    }
    Ok(session)
}
