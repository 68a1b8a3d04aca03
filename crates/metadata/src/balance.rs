//! Where replicas should be, and when a cluster sees to that by itself.
//!
//! | file | idea |
//! |---|---|
//! | [`plan`](plan()) | where replicas should be, and how to get there with few bytes: for people who ask, and for the controller |
//! | [`Occasions`] | when the controller makes a plan that nobody has asked for |
//! | [`moves_for`] | that plan |

mod moves;
mod occasion;
mod plan;

pub use moves::{Sizes, UnaskedMoves, moves_for};
pub use occasion::{BalanceRules, Occasion, Occasions};
pub use plan::{Goal, Holder, Placed, Step, plan};
