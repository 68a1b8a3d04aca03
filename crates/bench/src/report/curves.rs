//! Curves: how one figure changes with another.

use super::chart::amount;
use super::scene::{Anchor, FAINT, INK, SERIES, Scene};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = WIDTH - 30.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = HEIGHT - 45.0;

/// What a horizontal axis shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Across {
    /// Amounts, each power of ten as wide as the next.
    Powers,
    /// Amounts as they are.
    Amounts,
    /// Quantiles, given as `1 / (1 - quantile)`; each nine as wide as the next.
    Nines,
}

/// Points to be joined.
pub(crate) struct Curve<'a> {
    pub(crate) name: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Curves over a logarithmic axis upwards; points that have no logarithm are left out.
pub(crate) fn curves(
    title: &str,
    across: Across,
    (x_name, y_name): (&str, &str),
    curves: &[Curve<'_>],
) -> Scene {
    let mut scene = Scene::new(WIDTH, HEIGHT);
    scene.text((10.0, 20.0), Anchor::Start, format!("{title}: {y_name}"));
    let names: Vec<&str> = curves.iter().map(|curve| curve.name).collect();
    scene.legend((10.0, 42.0), &names);
    let is_shown = |&(x, y): &(f64, f64)| y > 0.0 && (x > 0.0 || across == Across::Amounts);
    let points = || curves.iter().flat_map(|curve| &curve.points).filter(|point| is_shown(point));
    let place = |x: f64| if across == Across::Amounts { x } else { x.log10() };
    let x_axis = Axis::around(points().map(|point| place(point.0)), LEFT, RIGHT);
    let y_axis = Axis::around(points().map(|point| point.1.log10()), BOTTOM, TOP);
    for y in y_axis.whole_numbers() {
        let at = y_axis.at(y);
        scene.line(vec![(LEFT, at), (RIGHT, at)], 1.0, FAINT);
        scene.text((LEFT - 8.0, at + 4.0), Anchor::End, amount(10_f64.powf(y)));
    }
    for (x, label) in ticks(across, &x_axis) {
        let at = x_axis.at(x);
        scene.line(vec![(at, TOP), (at, BOTTOM)], 1.0, FAINT);
        scene.text((at, BOTTOM + 18.0), Anchor::Middle, label);
    }
    scene.line(vec![(LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM)], 1.0, INK);
    scene.text(((LEFT + RIGHT) / 2.0, HEIGHT - 8.0), Anchor::Middle, x_name);
    for (curve, color) in curves.iter().zip(SERIES.iter().cycle()) {
        let shown = curve.points.iter().filter(|point| is_shown(point));
        let path: Vec<(f64, f64)> =
            shown.map(|&(x, y)| (x_axis.at(place(x)), y_axis.at(y.log10()))).collect();
        for &(x, y) in path.iter().filter(|_| across == Across::Powers) {
            scene.bar((x - 3.0, y - 3.0), (6.0, 6.0), *color);
        }
        scene.line(path, 2.0, *color);
    }
    scene
}

/// A stretch of numbers and where it lies on the plot.
struct Axis {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// From a whole number to a whole number around all of them.
    fn around(figures: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Axis {
        let least = figures.clone().fold(f64::INFINITY, f64::min);
        let most = figures.fold(f64::NEG_INFINITY, f64::max);
        let (least, most) = if least <= most { (least.floor(), most.ceil()) } else { (0.0, 1.0) };
        Axis { least, most: most.max(least + 1.0), from, to }
    }

    fn at(&self, figure: f64) -> f64 {
        self.from + (figure - self.least) / (self.most - self.least) * (self.to - self.from)
    }

    fn whole_numbers(&self) -> impl Iterator<Item = f64> {
        let count = (self.most - self.least) as usize;
        // More than a few would be a grey area.
        let step = count.div_ceil(10).max(1);
        let least = self.least;
        (0..=count).step_by(step).map(move |number| least + number as f64)
    }
}

fn ticks(across: Across, axis: &Axis) -> Vec<(f64, String)> {
    let label = |x: f64| match across {
        Across::Powers => amount(10_f64.powf(x)),
        Across::Amounts => amount(x),
        Across::Nines if x == 0.0 => "0 %".to_owned(),
        Across::Nines => {
            let digits = (x as usize).saturating_sub(2);
            format!("{:.digits$} %", 100.0 - 10_f64.powf(2.0 - x))
        }
    };
    axis.whole_numbers().map(|x| (x, label(x))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nines_are_named() {
        let axis = Axis { least: 0.0, most: 4.0, from: 0.0, to: 1.0 };
        let labels: Vec<String> =
            ticks(Across::Nines, &axis).into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
    }

    #[test]
    fn all_points_are_on_the_plot() {
        let points = vec![(1.0, 0.02), (128.0, 4000.0), (0.0, 1.0), (3.0, 0.0)];
        let curve = Curve { name: "a", points };
        let scene = curves("t", Across::Powers, ("x", "y"), &[curve]);
        for mark in &scene.marks {
            if let super::super::scene::Mark::Line { points, .. } = mark {
                for (x, y) in points {
                    assert!((0.0..=WIDTH).contains(x) && (0.0..=HEIGHT).contains(y), "{x} {y}");
                }
            }
        }
    }

    #[test]
    fn no_points_are_no_problem() {
        let curve = Curve { name: "a", points: Vec::new() };
        assert!(!curves("t", Across::Nines, ("x", "y"), &[curve]).marks.is_empty());
    }
}
