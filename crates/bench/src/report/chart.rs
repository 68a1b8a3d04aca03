//! Bars: how much of something each side does, work by work.

use super::palette::Palette;
use super::scene::{Anchor, FAINT, INK, Pen, Scene, width_of};
use super::text::short;
use crate::measure::Spread;

/// How long the longest bar is.
const BAR_LENGTH: f64 = 440.0;
/// Right of the longest bar stands its figure.
const FIGURE_WIDTH: f64 = 90.0;
const BAR_HEIGHT: f64 = 14.0;
const GROUP_GAP: f64 = 12.0;

/// A work with a bar for each side; a side that was not measured has none.
pub(crate) struct BarGroup {
    pub(crate) label: String,
    pub(crate) bars: Vec<Option<Spread>>,
}

/// Horizontal bars as long as the medians, with a line from the least to the most.
pub(crate) fn bars(
    title: &str,
    series: &[&str],
    palette: &Palette<'_>,
    groups: &[BarGroup],
) -> Scene {
    // Left of the bars stand the works, as wide as the longest name.
    let labels = groups.iter().map(|group| width_of(&group.label));
    let left = labels.fold(0.0, f64::max) + 16.0;
    let right = left + BAR_LENGTH;
    let mut scene = Scene::new((right + FIGURE_WIDTH).max(width_of(title) + 20.0), 0.0);
    scene.text((10.0, 20.0), Anchor::Start, title);
    let pen = |side: &str| Pen::solid(palette.color(side));
    let top = scene.legend((10.0, 42.0), series.iter().map(|&side| (side, pen(side))));
    let group_height = series.len() as f64 * BAR_HEIGHT + GROUP_GAP;
    scene.height = top + group_height * groups.len() as f64 + 10.0;
    let spreads = groups.iter().flat_map(|group| &group.bars).flatten();
    let most = spreads.map(|spread| spread.most).fold(f64::MIN_POSITIVE, f64::max);
    let x = |figure: f64| left + figure / most * (right - left);
    let axis = vec![(left, top - 6.0), (left, scene.height - 10.0)];
    scene.line(axis, 1.0, Pen::solid(FAINT));
    for (index, group) in groups.iter().enumerate() {
        let top = top + index as f64 * group_height;
        let middle = top + series.len() as f64 * BAR_HEIGHT / 2.0 + 4.0;
        scene.text((left - 8.0, middle), Anchor::End, group.label.as_str());
        for (number, (spread, side)) in group.bars.iter().zip(series).enumerate() {
            let Some(spread) = spread else { continue };
            let y = top + number as f64 * BAR_HEIGHT;
            let size = (x(spread.median) - left, BAR_HEIGHT - 2.0);
            scene.bar((left, y), size, palette.color(side));
            let middle = y + BAR_HEIGHT / 2.0 - 1.0;
            let extremes = vec![(x(spread.least), middle), (x(spread.most), middle)];
            scene.line(extremes, 1.0, Pen::solid(INK));
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
        let series = ["logway", "other", "kafka"];
        let scene = bars("records/s", &series, &Palette::of(&series), &[group]);
        insta::assert_snapshot!("bars", crate::report::svg::render(&scene));
    }

    #[test]
    fn long_names_have_room() {
        let spread = Spread { median: 1e6, least: 1e6, most: 1e6 };
        let sides =
            ["logway", "kafka", "rabbitmq", "activemq", "nats", "null", "bare", "../a/b/logway"];
        let label = "100 partitions, 100 connections, and more, unsynced".to_owned();
        let group = BarGroup { label, bars: vec![Some(spread); sides.len()] };
        let scene = bars(&"title ".repeat(30), &sides, &Palette::of(&sides), &[group]);
        assert!(scene.cut_texts().is_empty(), "{:?}", scene.cut_texts());
    }

    #[test]
    fn amounts_are_short() {
        let shown = [0.0, 0.5, 12.3, 999.0, 1234.0, 2_500_000.0, 3e9].map(amount);
        assert_eq!(shown, ["0", "0.500", "12.3", "999", "1.23 k", "2.50 M", "3.00 G"]);
    }
}
