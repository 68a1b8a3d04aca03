//! Commands as values: what is sent to the controller, and what comes back.

use serde::{Deserialize, Serialize};

use super::{
    AdmitNodeKey, AllocateProducerIds, AlterClientQuotas, AlterConfigs, AlterPartition,
    AlterPartitionReassignments, AlterScramCredentials, AlteredPartition, AssignReplicasToDirs,
    ChangeStream, ChangeStreamsAccount, ChangedToken, ControllerError, CreateAcls,
    CreateDelegationToken, CreatePartitions, CreateStream, CreateTopics, CreatedTopic, DeleteAcls,
    DeleteTopics, DeletedTopic, ElectLeaders, EndShards, ExpireDelegationToken,
    FinalizeMetadataLevel, FoundNodeKeys, IncrementalAlterConfigs, MakeSealingKey, ProducerIdBlock,
    RegisterBroker, RemoveBroker, RemoveExpiredTokens, RenewDelegationToken, Reshard,
    SetBrokerState, StartBroker,
};
use crate::acl::Acl;
use crate::delegation_token::DelegationToken;
use crate::image::MetadataImage;
use crate::record::{BrokerEpoch, MetadataRecord};
use crate::settings::BrokerSettings;

/// A command to the controller.
///
/// A command is a value. The node that is asked for it can send it to the node that judges it.
pub trait Command: Into<ControllerCommand> + Send + 'static {
    /// What the one who asked is told once the records are committed.
    type Reply: Into<ControllerReply> + TryFrom<ControllerReply> + Send + 'static;

    /// Whether the command can help when the disk is full, and is taken then too.
    const MAKES_SPACE: bool = false;

    /// Judges the command against the current image.
    ///
    /// Commands about many things (topics, resources) judge each by itself: the reply has one
    /// result for each, in the order asked, and the records are those of the ones that succeed.
    fn evaluate(
        self,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError>;
}

/// What a command leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<R> {
    /// To be committed together; none where nothing changes or the command only validates.
    pub records: Vec<MetadataRecord>,
    /// To be sent when they are.
    pub reply: R,
}

/// One result for each thing that a command is about, in the order asked.
type Results<T> = Vec<Result<T, ControllerError>>;

macro_rules! controller_commands {
    ($($(#[$doc:meta])* $name:ident;)+) => {
        /// Any command to the controller, in the form in which it travels.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ControllerCommand {
            $($(#[$doc])* $name($name),)+
        }

        $(impl From<$name> for ControllerCommand {
            fn from(command: $name) -> ControllerCommand {
                ControllerCommand::$name(command)
            }
        })+

        impl ControllerCommand {
            /// Whether the command is taken on a full disk: [`Command::MAKES_SPACE`].
            pub fn makes_space(&self) -> bool {
                match self {
                    $(ControllerCommand::$name(_) => <$name as Command>::MAKES_SPACE,)+
                }
            }

            /// Judges the command: [`Command::evaluate`].
            pub fn evaluate(
                self,
                image: &MetadataImage,
                broker: &BrokerSettings,
            ) -> Result<Decision<ControllerReply>, ControllerError> {
                match self {
                    $(ControllerCommand::$name(command) => {
                        let Decision { records, reply } = command.evaluate(image, broker)?;
                        Ok(Decision { records, reply: reply.into() })
                    })+
                }
            }
        }
    };
}

controller_commands! {
    /// Creates topics.
    CreateTopics;
    /// Deletes topics.
    DeleteTopics;
    /// Gives topics more partitions.
    CreatePartitions;
    /// Replaces the settings of resources.
    AlterConfigs;
    /// Changes single settings of resources.
    IncrementalAlterConfigs;
    /// Changes quotas.
    AlterClientQuotas;
    /// Gives out producer ids.
    AllocateProducerIds;
    /// Makes a broker known.
    RegisterBroker;
    /// Makes a broker unknown, for good.
    RemoveBroker;
    /// Notes the log directories of replicas.
    AssignReplicasToDirs;
    /// A broker of a cluster has started.
    StartBroker;
    /// A broker of a cluster is fenced, serves or is about to stop.
    SetBrokerState;
    /// New in-sync replicas of partitions.
    AlterPartition;
    /// Moves partitions to other brokers.
    AlterPartitionReassignments;
    /// Elects leaders of partitions.
    ElectLeaders;
    /// Lets records be written that older nodes cannot read.
    FinalizeMetadataLevel;
    /// Gives users passwords, or takes them.
    AlterScramCredentials;
    /// Adds entries to access control lists.
    CreateAcls;
    /// Removes some.
    DeleteAcls;
    /// Makes a delegation token.
    CreateDelegationToken;
    /// Lets one live on.
    RenewDelegationToken;
    /// Ends one.
    ExpireDelegationToken;
    /// Removes those whose time is over.
    RemoveExpiredTokens;
    /// Makes a stream.
    CreateStream;
    /// Changes a stream, but for its shards.
    ChangeStream;
    /// Splits and merges shards of a stream.
    Reshard;
    /// Notes where closed shards end.
    EndShards;
    /// Changes what all streams share.
    ChangeStreamsAccount;
    /// Makes the key that tokens are sealed with.
    MakeSealingKey;
    /// Makes the first node of a cluster known.
    FoundNodeKeys;
    /// Admits a node that has a join token.
    AdmitNodeKey;
}

macro_rules! controller_replies {
    ($($(#[$doc:meta])* $variant:ident($reply:ty);)+) => {
        /// Any reply of the controller, in the form in which it travels.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ControllerReply {
            $($(#[$doc])* $variant($reply),)+
        }

        $(
            impl From<$reply> for ControllerReply {
                fn from(reply: $reply) -> ControllerReply {
                    ControllerReply::$variant(reply)
                }
            }

            impl TryFrom<ControllerReply> for $reply {
                type Error = ControllerReply;

                /// Gives another kind of reply back.
                fn try_from(reply: ControllerReply) -> Result<$reply, ControllerReply> {
                    match reply {
                        ControllerReply::$variant(reply) => Ok(reply),
                        other => Err(other),
                    }
                }
            }
        )+
    };
}

controller_replies! {
    /// It is done.
    Done(());
    /// Whether each of several things is done.
    EachDone(Results<()>);
    /// The topics that were created.
    Created(Results<CreatedTopic>);
    /// The topics that were deleted.
    Deleted(Results<DeletedTopic>);
    /// How many partitions each topic has now.
    PartitionCounts(Results<i32>);
    /// The life that a broker has begun.
    BrokerStarted(BrokerEpoch);
    /// Partitions as they are now.
    Altered(Results<AlteredPartition>);
    /// The entries of access control lists that were removed, by filter.
    AclsDeleted(Results<Vec<Acl>>);
    /// A delegation token that was made.
    TokenCreated(DelegationToken);
    /// A delegation token whose end was moved.
    TokenChanged(ChangedToken);
    /// Producer ids of the asker's own.
    ProducerIds(ProducerIdBlock);
}
