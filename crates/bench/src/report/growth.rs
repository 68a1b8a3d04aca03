//! Whether a broker gets slower as what it stores grows.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::html::escape;
use super::text::short;
use crate::measure::Row;
use crate::works::STORED_DATA_GROWS;

/// How fast one run was at its beginning and at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Growth {
    pub(super) work: String,
    pub(super) side: String,
    /// Megabytes (10^6) of whole batches, as the work is named after: what fills memory is not the values alone.
    pub(super) stored_megabytes: f64,
    /// Records a second while the first tenth of that was stored, and the last.
    pub(super) first_tenth: f64,
    pub(super) last_tenth: f64,
}

/// Whether a work is about that.
pub(super) fn is_growth(work: &str) -> bool {
    work.starts_with(STORED_DATA_GROWS)
}

/// Of all runs that are about that.
pub(super) fn growths(rows: &[Row]) -> Vec<Growth> {
    let of_run = |row: &Row| {
        let [first_tenth, last_tenth] = first_and_last_tenth(&row.timeline)?;
        Some(Growth {
            work: row.work.clone(),
            side: row.side.clone(),
            stored_megabytes: (row.requests * row.parameters.batch_bytes) as f64 / 1e6,
            first_tenth,
            last_tenth,
        })
    };
    rows.iter().filter(|row| is_growth(&row.work)).filter_map(of_run).collect()
}

/// Records a second while the first tenth of all records was sent, and while the last was; `None`
/// if that was within too little time to tell.
fn first_and_last_tenth(timeline: &[u64]) -> Option<[f64; 2]> {
    const SLOTS_IN_SECOND: f64 = 10.0;
    // The last slot is not a whole one.
    let (_, timeline) = timeline.split_last()?;
    let tenth = timeline.iter().sum::<u64>() / 10;
    let rate = |slots: &mut dyn Iterator<Item = &u64>| {
        let (mut records, mut count) = (0, 0_u32);
        while records < tenth.max(1) {
            records += slots.next()?;
            count += 1;
        }
        Some(records as f64 / f64::from(count) * SLOTS_IN_SECOND)
    };
    Some([rate(&mut timeline.iter())?, rate(&mut timeline.iter().rev())?])
}

pub(super) fn html(growths: &[Growth]) -> String {
    if growths.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<h2>As stored data grows</h2>\n<table><tr><th>work<th class=\"l\">side<th>stored MB\
         <th>records/s, first tenth<th>last tenth<th>last over first</tr>\n",
    );
    for growth in growths {
        let Growth { work, side, stored_megabytes, first_tenth, last_tenth } = growth;
        writeln!(
            text,
            "<tr><td>{}<td class=\"l\">{}<td>{stored_megabytes:.0}<td>{first_tenth:.0}\
             <td>{last_tenth:.0}<td>{}</tr>",
            escape(work),
            escape(side),
            short(last_tenth / first_tenth),
        )
        .expect("a string takes everything");
    }
    text + "</table>\n"
}

/// A line for each run.
pub(super) fn text(growths: &[Growth]) -> String {
    let line = |growth: &Growth| {
        let Growth { work, side, stored_megabytes, first_tenth, last_tenth } = growth;
        format!(
            "\n{work}, {side}: {first_tenth:.0} rec/s in the first tenth of {stored_megabytes:.0} MB, \
             {last_tenth:.0} in the last ({} times)\n",
            short(last_tenth / first_tenth)
        )
    };
    growths.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Durability;
    use crate::report::summary::tests::row;

    #[test]
    fn tenths_are_those_of_what_was_sent() {
        // A tenth is 100 records: one slot at first, four at the end; the last slot was cut off.
        let mut timeline = vec![100; 6];
        timeline.extend([25; 16]);
        timeline.push(1);
        assert_eq!(first_and_last_tenth(&timeline), Some([1000.0, 250.0]));
        assert_eq!(first_and_last_tenth(&[]), None);
        assert_eq!(first_and_last_tenth(&[7]), None);
        assert_eq!(first_and_last_tenth(&[0, 0, 7]), None);
    }

    #[test]
    fn only_works_that_grow_are_shown() {
        let grown = Row {
            timeline: vec![50, 25, 25],
            ..row("stored data grows to 2.0 GB", Durability::Unsynced, "logway", 1, 100)
        };
        let rows = [row("one producer", Durability::Unsynced, "logway", 1, 100), grown];
        let growths = growths(&rows);
        assert_eq!(growths.len(), 1);
        assert!(html(&growths).contains("<td>500<td>250<td>0.500"), "{}", html(&growths));
        assert!(text(&growths).contains("(0.500 times)"));
        assert!(html(&[]).is_empty() && text(&[]).is_empty());
    }
}
