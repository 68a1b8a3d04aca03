//! Transactions of a cluster: producers, readers, and what must hold.
//!
//! Two processes share each transactional id. One that begins fences the other, which goes on as a *zombie* until it is
//! told, and now and then behind that. Transactions write to some of the partitions and to the offsets of a group, and are
//! committed or aborted by the producer, by its successor or by their timeout. Some of what a producer asks for comes twice,
//! as by two connections, the second time much later. Coordinators are the nodes' own, and move and crash as all leaders do.
//! Clients speak transaction version 2 (KIP-890), and in some worlds the older protocol at times. That one has one epoch for
//! many transactions, so what comes late can be taken for a part of the next one. Clients ask for nothing twice by it but for
//! records, and what nodes ask each other for their clients does not come twice, as over one connection.
//!
//! | module | what it is about |
//! |---|---|
//! | `topics` | what transactions write to |
//! | `begin`, `end` | the life of a world |
//! | `producer`, `consumer`, `offset_reader` | clients |
//! | `calls` | what they ask nodes |
//! | `view` | what a consumer returns of what it has fetched |
//! | `ledger` | what was tried, and what became of it |
//! | `invariants` | what must hold, one a file |

mod begin;
mod calls;
mod consumer;
mod end;
mod invariants;
mod ledger;
mod offset_reader;
mod producer;
pub(super) mod topics;
mod view;

pub(super) use calls::coordinator_place;
pub(super) use ledger::Ledger;
pub(super) use producer::TransactionalProducer;
