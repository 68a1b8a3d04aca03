//! Tables of DynamoDB, as far as AWS's Kinesis Client Library needs them: it keeps in them which worker reads which shard, and how
//! far.
//!
//! | file | idea |
//! |---|---|
//! | [`http`] | from an HTTP request to its response |
//! | [`shapes`] | the operations and types of AWS's model, as tables |
//! | [`call`] | one request: who asks, and for which table |
//! | [`administration`] | making, changing, describing and deleting tables |
//! | [`writes`], [`reads`] | PutItem, UpdateItem, DeleteItem; GetItem, Query, Scan |
//! | [`expression`], [`legacy`] | conditions and changes, in both forms |
//! | [`attribute`], [`decimal`] | what is in items |
//! | [`definition`], [`state`] | what a table is, and what is in it |
//! | [`store`] | tables on the log |
//! | [`error`] | DynamoDB's errors |

mod administration;
mod attribute;
mod call;
mod decimal;
mod definition;
mod error;
mod expression;
mod http;
mod legacy;
mod reads;
mod shapes;
mod state;
mod store;
mod writes;

pub(crate) use http::{Request, SERVICE, respond};
pub(crate) use shapes::OPERATIONS;
pub(crate) use store::Tables;
