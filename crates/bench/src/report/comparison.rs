//! A figure of ours over that of another side, and how far it can be believed.

use serde::{Deserialize, Serialize};

use super::figure::{Figure, HeldBack};
use crate::measure::{Row, Spread, compare};

/// What the signs of [`Bound`] mean, for those who read a table.
pub(super) const SIGNS: &str = "≥ and ≤: the generator was busy more than 85 % of the time and held one side back, so \
                                that the ratio is at least, or at most, this; ~: it held both back, and the ratio may \
                                be more or less.";

/// Over the rounds that both sides have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Comparison {
    #[serde(flatten)]
    pub(super) spread: Spread,
    /// Reports from before this was told apart have none.
    #[serde(default)]
    pub(super) bound: Bound,
}

/// What a ratio is if the generator held one side back, or both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bound {
    /// It held back nobody.
    #[default]
    Exact,
    /// The ratio is this or more.
    AtLeast,
    /// The ratio is this or less.
    AtMost,
    /// Anything.
    Unclear,
}

impl Comparison {
    /// None if no round has the figure on both sides.
    pub(super) fn of(ours: &[&Row], theirs: &[&Row], figure: Figure) -> Option<Comparison> {
        let by_round = |rows: &[&Row]| -> Vec<(u32, f64)> {
            rows.iter().filter_map(|row| Some((row.round, figure.of(row)?))).collect()
        };
        let spread = compare(&by_round(ours), &by_round(theirs))?;
        let is_bound = |rows: &[&Row]| rows.iter().any(|row| row.is_generator_bound());
        Some(Comparison { spread, bound: Bound::of(figure, is_bound(ours), is_bound(theirs)) })
    }

    /// The figure itself, over one of its unit.
    pub(super) fn alone(ours: &[&Row], figure: Figure) -> Option<Comparison> {
        let spread = Spread::of(ours.iter().filter_map(|row| figure.of(row)))?;
        let is_bound = ours.iter().any(|row| row.is_generator_bound());
        Some(Comparison { spread, bound: Bound::of(figure, is_bound, false) })
    }

    pub(super) fn is_marked(self) -> bool {
        self.bound != Bound::Exact
    }
}

impl Bound {
    fn of(figure: Figure, ours_is_bound: bool, theirs_is_bound: bool) -> Bound {
        match (figure.held_back(), ours_is_bound, theirs_is_bound) {
            (HeldBack::Untouched, ..) | (_, false, false) => Bound::Exact,
            (HeldBack::Lowered, true, false) | (HeldBack::Raised, false, true) => Bound::AtLeast,
            (HeldBack::Lowered, false, true) | (HeldBack::Raised, true, false) => Bound::AtMost,
            (_, true, true) => Bound::Unclear,
        }
    }

    /// In front of the figure.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Bound::Exact => "",
            Bound::AtLeast => "≥ ",
            Bound::AtMost => "≤ ",
            Bound::Unclear => "~ ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Durability;
    use crate::report::summary::tests::row;

    #[test]
    fn a_busy_generator_makes_a_ratio_a_bound() {
        let row = |busy_seconds| {
            let mut row = row("a", Durability::Unsynced, "a", 1, 1000);
            row.usage.generator_busy_seconds = busy_seconds;
            row
        };
        let (free, bound) = (row(0.1), row(1.9));
        let sign = |ours: &Row, theirs: &Row, figure| {
            Comparison::of(&[ours], &[theirs], figure).expect("both have it").bound.sign()
        };
        for (figure, expected) in [
            (Figure::Rate, ["", "≥ ", "≤ ", "~ "]),
            (Figure::P99, ["", "≤ ", "≥ ", "~ "]),
            (Figure::CpuPerRecord, ["", "", "", ""]),
        ] {
            let pairs = [(&free, &free), (&bound, &free), (&free, &bound), (&bound, &bound)];
            let signs = pairs.map(|(ours, theirs)| sign(ours, theirs, figure));
            assert_eq!(signs, expected, "{figure:?}");
            let alone = [&free, &bound].map(|row| Comparison::alone(&[row], figure));
            let alone = alone.map(|figure| figure.expect("it has it").bound.sign());
            assert_eq!(alone, expected[..2], "{figure:?}");
        }
    }

    #[test]
    fn a_comparison_from_before_there_were_bounds_is_read() {
        let then = r#"{"median": 1.0, "least": 0.5, "most": 2.0}"#;
        let read: Comparison = serde_json::from_str(then).expect("it is one");
        assert_eq!((read.spread.most, read.is_marked()), (2.0, false));
        let now = Comparison { bound: Bound::AtMost, ..read };
        let text = serde_json::to_string(&now).expect("it is plain");
        assert_eq!(serde_json::from_str::<Comparison>(&text).expect("it is one"), now);
    }
}
