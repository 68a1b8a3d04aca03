//! Bars: how much of something each side does, work by work.

use super::scene::{Anchor, FAINT, INK, SERIES, Scene};
use super::text::short;
use crate::measure::Spread;

const WIDTH: f64 = 860.0;
/// Where the bars begin; left of it stand the works.
const LEFT: f64 = 330.0;
/// Right of the longest bar stands its figure.
const RIGHT: f64 = WIDTH - 90.0;
const TOP: f64 = 60.0;
const BAR_HEIGHT: f64 = 14.0;
const GROUP_GAP: f64 = 12.0;

/// A work with a bar for each side; a side that was not measured has none.
pub(crate) struct BarGroup {
    pub(crate) label: String,
    pub(crate) bars: Vec<Option<Spread>>,
}

/// Horizontal bars as long as the medians, with a line from the least to the most.
pub(crate) fn bars(title: &str, series: &[&str], groups: &[BarGroup]) -> Scene {
    let group_height = series.len() as f64 * BAR_HEIGHT + GROUP_GAP;
    let mut scene = Scene::new(WIDTH, TOP + group_height * groups.len() as f64 + 10.0);
    scene.text((10.0, 20.0), Anchor::Start, title);
    scene.legend((10.0, 42.0), series);
    let spreads = groups.iter().flat_map(|group| &group.bars).flatten();
    let most = spreads.map(|spread| spread.most).fold(f64::MIN_POSITIVE, f64::max);
    let x = |figure: f64| LEFT + figure / most * (RIGHT - LEFT);
    scene.line(vec![(LEFT, TOP - 6.0), (LEFT, scene.height - 10.0)], 1.0, FAINT);
    for (index, group) in groups.iter().enumerate() {
        let top = TOP + index as f64 * group_height;
        let middle = top + series.len() as f64 * BAR_HEIGHT / 2.0 + 4.0;
        scene.text((LEFT - 8.0, middle), Anchor::End, group.label.as_str());
        for (number, spread) in group.bars.iter().enumerate() {
            let Some(spread) = spread else { continue };
            let y = top + number as f64 * BAR_HEIGHT;
            let color = SERIES[number % SERIES.len()];
            scene.bar((LEFT, y), (x(spread.median) - LEFT, BAR_HEIGHT - 2.0), color);
            let middle = y + BAR_HEIGHT / 2.0 - 1.0;
            scene.line(vec![(x(spread.least), middle), (x(spread.most), middle)], 1.0, INK);
            let label = (x(spread.most.max(spread.median)) + 6.0, middle + 4.0);
            scene.text(label, Anchor::Start, amount(spread.median));
        }
    }
    scene
}

/// With a letter for thousands, millions and billions.
pub(crate) fn amount(figure: f64) -> String {
    match figure.abs() {
        size if size >= 1e9 => format!("{} G", short(figure / 1e9)),
        size if size >= 1e6 => format!("{} M", short(figure / 1e6)),
        size if size >= 1e3 => format!("{} k", short(figure / 1e3)),
        _ => short(figure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_the_plot() {
        let spread = |median: f64| Spread { median, least: median / 2.0, most: median * 2.0 };
        let group = BarGroup {
            label: "a < b".to_owned(),
            bars: vec![Some(spread(1000.0)), None, Some(spread(100.0))],
        };
        let scene = bars("records/s", &["logway", "other", "kafka"], &[group]);
        insta::assert_snapshot!("bars", crate::report::svg::render(&scene));
    }

    #[test]
    fn amounts_are_short() {
        let shown = [0.0, 0.5, 12.3, 999.0, 1234.0, 2_500_000.0, 3e9].map(amount);
        assert_eq!(shown, ["0", "0.500", "12.3", "999", "1.23 k", "2.50 M", "3.00 G"]);
    }
}
