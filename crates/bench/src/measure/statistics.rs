//! What several rounds say together.

use serde::{Deserialize, Serialize};

/// The middle and the extremes of a figure over the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of some figures; `None` without any.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> =
            figures.into_iter().filter(|figure| figure.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&least, &most) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        Some(Spread { median, least, most })
    }
}

/// Our figure over theirs, round by round: the runs of one round lie next to each other in time, so
/// what the machine did then happened to both. Rounds that one side lacks are left out.
pub(crate) fn compare(ours: &[(u32, f64)], theirs: &[(u32, f64)]) -> Option<Spread> {
    let ratios = ours.iter().filter_map(|(round, ours)| {
        let (_, theirs) = theirs.iter().find(|(of, _)| of == round)?;
        (*theirs > 0.0).then(|| ours / theirs)
    });
    Spread::of(ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let spread = |figures: &[f64]| Spread::of(figures.iter().copied());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[f64::NAN]), None);
        let odd = spread(&[9.0, 1.0, 5.0]).expect("there are figures");
        assert_eq!((odd.median, odd.least, odd.most), (5.0, 1.0, 9.0));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 9.0]).map(|spread| spread.median), Some(3.0));
    }

    #[test]
    fn rounds_are_compared_with_themselves() {
        // A machine that gets twice as fast after the first round changes no ratio.
        let ours = [(1, 10.0), (2, 20.0), (3, 22.0)];
        let theirs = [(1, 5.0), (2, 10.0), (4, 1.0)];
        let ratio = compare(&ours, &theirs).expect("two rounds are on both sides");
        assert_eq!((ratio.median, ratio.least, ratio.most), (2.0, 2.0, 2.0));
        assert_eq!(compare(&ours, &[(1, 0.0)]), None);
    }
}
