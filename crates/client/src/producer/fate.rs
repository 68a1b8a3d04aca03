//! What is known of records that are not acknowledged.

use logway_model::ErrorCode;

use crate::ClientError;

/// What is known of a batch that is not acknowledged. Of two attempts the greater one counts: a later
/// refusal does not tell what became of an attempt without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// No broker has seen it.
    Unsent,
    /// A broker said no.
    Refused,
    /// It was sent, and no answer says whether it is stored.
    Unanswered,
}

/// How many records were taken and are not acknowledged, by what is known of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unacknowledged {
    /// A broker said no. One whose disk fails may find some of them there when it starts again.
    pub refused_records: u64,
    /// No broker has seen them.
    pub unsent_records: u64,
    /// They were sent, and no answer says whether they are stored.
    pub unanswered_records: u64,
}

impl Fate {
    /// What an attempt that ended in an error says.
    pub(super) fn after(error: &ClientError) -> Fate {
        match error {
            ClientError::Refused { code, .. } if is_unclear(*code) => Fate::Unanswered,
            ClientError::Refused { .. } => Fate::Refused,
            ClientError::Connection { .. }
            | ClientError::MalformedResponse { .. }
            | ClientError::UnexpectedResponse { .. } => Fate::Unanswered,
            _ => Fate::Unsent,
        }
    }
}

/// Whether an error leaves open what became of the records, or says that the leader has them.
fn is_unclear(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::RequestTimedOut
            | ErrorCode::NotEnoughReplicasAfterAppend
            | ErrorCode::NetworkException
            | ErrorCode::UnknownServerError
    )
}

impl Unacknowledged {
    /// Counts records.
    pub(super) fn add(&mut self, fate: Fate, records: u32) {
        let count = match fate {
            Fate::Unsent => &mut self.unsent_records,
            Fate::Refused => &mut self.refused_records,
            Fate::Unanswered => &mut self.unanswered_records,
        };
        *count += u64::from(records);
    }

    /// All of them.
    pub fn records(&self) -> u64 {
        self.refused_records + self.unsent_records + self.unanswered_records
    }
}
