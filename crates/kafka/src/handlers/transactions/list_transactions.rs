//! ListTransactions: the transactional ids of this node (KIP-664, KIP-994).

use std::future::Future;

use logway_coordinator::transactions::{
    TransactionFilter, TransactionReply, TransactionRequest, TransactionState as State,
};
use logway_model::{ErrorCode, ProducerId};
use logway_wire::messages::list_transactions_response::TransactionState;
use logway_wire::messages::{ListTransactionsRequest, ListTransactionsResponse};
use logway_wire::{Decoder, WireString};
use regex_lite::{Regex, RegexBuilder};

use crate::handlers::building::ENTRY_BYTES;
use crate::handlers::measured::{self, Part, TooLarge, ask_measured};
use crate::request::{RequestContext, RequestError, Work};
use logway_node::memory::Held;
use logway_node::tasks::off_thread;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    let built_bytes = |request: &ListTransactionsRequest| {
        (request.producer_id_filters.len() + request.state_filters.len()) * ENTRY_BYTES
    };
    measured::prepare(context, body, built_bytes, start)
}

fn start(
    context: &RequestContext,
    request: ListTransactionsRequest,
) -> impl Future<Output = (ListTransactionsResponse, Held)> + use<> {
    let (states, unknown_state_filters) = states_of(request.state_filters);
    let filter = TransactionFilter {
        producer_ids: request.producer_id_filters.into_iter().map(ProducerId).collect(),
        states,
        longer_than_ms: Some(request.duration_filter).filter(|&duration_ms| duration_ms >= 0),
    };
    let ask = || context.transaction_question(TransactionRequest::List(filter.clone()));
    let shards = context.measure_all_transactions(ask).into_iter();
    let parts = shards.map(|measuring| Part { about: (), measuring, mentions: 1 }).collect();
    let context = context.clone();
    let pattern = request.transactional_id_pattern.filter(|pattern| !pattern.is_empty());
    let pattern = pattern.map(|pattern| whole(&pattern)).transpose();
    async move {
        let mut response = ListTransactionsResponse { unknown_state_filters, ..Default::default() };
        let pattern = match pattern {
            Ok(pattern) => pattern,
            Err(code) => {
                response.error_code = code.code();
                return (response, None);
            }
        };
        let (told, held) = ask_measured(&context, parts, TooLarge::Refuse).await;
        for part in told {
            let listed = match part.answer {
                Ok(TransactionReply::List(listed)) => listed,
                Ok(other) => unreachable!("the shard answered {other:?}"),
                // One that has just gone has no ids here any more.
                Err(ErrorCode::NotCoordinator) => continue,
                Err(code) => Err(code),
            };
            match listed {
                Ok(listed) => {
                    let seen = listed.into_iter();
                    let seen = seen
                        .filter(|it| context.sees_transactional_id(it.transactional_id.as_str()));
                    response.transaction_states.extend(seen.map(|it| TransactionState {
                        transactional_id: WireString::copy_of(it.transactional_id.as_str()),
                        producer_id: it.producer_id.0,
                        transaction_state: WireString::from(it.state.name()),
                        ..TransactionState::default()
                    }));
                }
                // Nobody shall take a part for the whole.
                Err(code) => response.error_code = code.code(),
            }
        }
        if response.error_code != 0 {
            response.transaction_states.clear();
        }
        if let Some(pattern) = pattern {
            // There may be very many ids.
            response = off_thread(move || {
                response.transaction_states.retain(|it| pattern.is_match(&it.transactional_id));
                response
            })
            .await;
        }
        (response, held)
    }
}

/// What a pattern may take when it is compiled.
const PATTERN_BYTES_MAX: usize = 64 << 10;

/// A pattern that an id matches as a whole (KIP-1152).
fn whole(pattern: &str) -> Result<Regex, ErrorCode> {
    let whole = format!("^(?:{pattern})$");
    let compiled = RegexBuilder::new(&whole).size_limit(PATTERN_BYTES_MAX).build();
    compiled.map_err(|_invalid| ErrorCode::InvalidRegularExpression)
}

/// Names that are no states are told, each once, and not more of them.
const UNKNOWN_STATES_MAX: usize = 64;

/// The states that are asked for, `None` for all, and the names that are none.
fn states_of(names: Vec<WireString>) -> (Option<Vec<State>>, Vec<WireString>) {
    if names.is_empty() {
        return (None, Vec::new());
    }
    let (mut states, mut unknown) = (Vec::new(), Vec::new());
    for name in names {
        match State::from_name(&name) {
            Some(state) if !states.contains(&state) => states.push(state),
            Some(_) => {}
            None if unknown.contains(&name) => {}
            None if unknown.len() >= UNKNOWN_STATES_MAX => {}
            None => unknown.push(name),
        }
    }
    (Some(states), unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_matched_as_a_whole_and_a_bad_one_is_refused() {
        let pattern = whole("a|b.").expect("is one");
        assert!(pattern.is_match("a") && pattern.is_match("bc"));
        assert!(!pattern.is_match("ab") && !pattern.is_match("abc"));
        assert_eq!(whole("(").err(), Some(ErrorCode::InvalidRegularExpression));
        assert!(whole(&"(a{100}){100}".repeat(9)).is_err(), "too large");
    }

    #[test]
    fn names_that_are_no_states_are_told() {
        let (states, unknown) = states_of(vec!["Empty".into(), "empty".into(), "Empty".into()]);
        assert_eq!((states, unknown), (Some(vec![State::Empty]), vec!["empty".into()]));
        assert_eq!(states_of(Vec::new()).0, None);
    }
}
