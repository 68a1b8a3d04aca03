//! What a member writes beside an offset that it commits.
//!
//! ```text
//! topic=ID           the topic's id: an offset says nothing about another topic of its name
//! topic=ID NOTE      the same, and what the member's user notes
//! ```

use logway_model::TopicId;

const TOPIC: &str = "topic=";

/// What was written beside an offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Noted<'a> {
    topic_id: &'a str,
    /// What the member's user noted; empty if nothing.
    pub(super) note: &'a str,
}

/// What to write; nothing for a topic whose id is not known.
pub(super) fn write(topic_id: Option<TopicId>, note: &str) -> String {
    match topic_id {
        None => String::new(),
        Some(id) if note.is_empty() => format!("{TOPIC}{id}"),
        Some(id) => format!("{TOPIC}{id} {note}"),
    }
}

impl Noted<'_> {
    /// Reads what was written; `None` for what somebody else wrote, who may write anything.
    pub(super) fn read(text: &str) -> Option<Noted<'_>> {
        let text = text.strip_prefix(TOPIC)?;
        let (topic_id, note) = text.split_once(' ').unwrap_or((text, ""));
        Some(Noted { topic_id, note })
    }

    /// Whether it is about another topic than the one of this id.
    pub(super) fn is_of_other(&self, topic_id: Option<TopicId>) -> bool {
        topic_id.is_some_and(|id| id.to_string() != self.topic_id)
    }
}

#[cfg(test)]
mod tests {
    use logway_model::Uuid;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_others_write_is_not() {
        let id = TopicId(Uuid([7; 16]));
        for note in ["", "0-5 7-9"] {
            let text = write(Some(id), note);
            let noted = Noted::read(&text).expect("our own");
            assert_eq!(noted.note, note);
            assert!(!noted.is_of_other(Some(id)));
            assert!(noted.is_of_other(Some(TopicId(Uuid([8; 16])))));
            assert!(!noted.is_of_other(None));
        }
        for text in ["", "by hand", &write(None, "0-5")] {
            assert_eq!(Noted::read(text), None, "{text}");
        }
    }
}
