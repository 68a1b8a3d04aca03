//! Curves: how one figure changes with another.

use super::chart::amount;
use super::scene::{Anchor, FAINT, INK, Pen, Scene, width_of};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 80.0;
/// The last tick's label lies on both sides of the axis' end.
const RIGHT: f64 = WIDTH - 45.0;
const PLOT_HEIGHT: f64 = 295.0;
/// Below the plot stand the ticks' labels and the axis' name.
const BELOW: f64 = 45.0;

/// About so many ticks of amounts.
const TICKS: f64 = 6.0;

/// What an axis shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Amounts, each power of ten as long as the next: for what is never 0. Where it is, nothing is drawn.
    Powers,
    /// Amounts from 0 on, as they are.
    Amounts,
    /// Quantiles, given as `1 / (1 - quantile)`; each nine as long as the next.
    Nines,
}

/// What the figures are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    /// What the title does not say.
    pub(crate) note: Option<&'a str>,
    pub(crate) across: (Scale, &'a str),
    pub(crate) upwards: (Scale, &'a str),
}

/// Points to be joined.
pub(crate) struct Curve {
    /// In the legend; what has none belongs to the curve before it.
    pub(crate) name: Option<String>,
    pub(crate) pen: Pen,
    pub(crate) points: Vec<(f64, f64)>,
}

pub(crate) fn curves(frame: Frame<'_>, curves: &[Curve]) -> Scene {
    let ((across, x_name), (upwards, y_name)) = (frame.across, frame.upwards);
    let title = format!("{}: {y_name}", frame.title);
    let texts = [Some(title.as_str()), frame.note];
    let width = texts.iter().flatten().map(|text| width_of(text) + 20.0).fold(WIDTH, f64::max);
    let mut scene = Scene::new(width, 0.0);
    let mut y = 20.0;
    for text in texts.into_iter().flatten() {
        scene.text((10.0, y), Anchor::Start, text);
        y += 20.0;
    }
    let named = curves.iter().filter_map(|curve| Some((curve.name.as_deref()?, curve.pen)));
    let top = scene.legend((10.0, y + 2.0), named);
    let bottom = top + PLOT_HEIGHT;
    scene.height = bottom + BELOW;

    let place = |&(x, y): &(f64, f64)| Some((across.place(x)?, upwards.place(y)?));
    let placed: Vec<Vec<(f64, f64)>> =
        curves.iter().map(|curve| curve.points.iter().filter_map(place).collect()).collect();
    let x_axis = Axis::around(across, placed.iter().flatten().map(|point| point.0), LEFT, RIGHT);
    let y_axis = Axis::around(upwards, placed.iter().flatten().map(|point| point.1), bottom, top);
    for (y, label) in y_axis.ticks() {
        let at = y_axis.at(y);
        scene.line(vec![(LEFT, at), (RIGHT, at)], 1.0, Pen::solid(FAINT));
        scene.text((LEFT - 8.0, at + 4.0), Anchor::End, label);
    }
    for (x, label) in x_axis.ticks() {
        let at = x_axis.at(x);
        scene.line(vec![(at, top), (at, bottom)], 1.0, Pen::solid(FAINT));
        scene.text((at, bottom + 18.0), Anchor::Middle, label);
    }
    scene.line(vec![(LEFT, top), (LEFT, bottom), (RIGHT, bottom)], 1.0, Pen::solid(INK));
    let below = (f64::midpoint(LEFT, RIGHT), scene.height - 8.0);
    scene.text(below, Anchor::Middle, x_name);
    for (curve, placed) in curves.iter().zip(placed) {
        let path: Vec<(f64, f64)> =
            placed.iter().map(|&(x, y)| (x_axis.at(x), y_axis.at(y))).collect();
        for &(x, y) in path.iter().filter(|_| across == Scale::Powers) {
            scene.bar((x - 3.0, y - 3.0), (6.0, 6.0), curve.pen.color);
        }
        scene.line(path, 2.0, curve.pen);
    }
    scene
}

impl Scale {
    /// Where a figure is on an axis, in its units; nowhere if it has no logarithm and needs one.
    fn place(self, figure: f64) -> Option<f64> {
        match self {
            Scale::Amounts => Some(figure),
            Scale::Powers | Scale::Nines => (figure > 0.0).then(|| figure.log10()),
        }
    }

    fn label(self, place: f64) -> String {
        match self {
            Scale::Powers => amount(10_f64.powf(place)),
            Scale::Amounts => amount(place),
            Scale::Nines if place == 0.0 => "0 %".to_owned(),
            Scale::Nines => {
                let digits = (place as usize).saturating_sub(2);
                format!("{:.digits$} %", 100.0 - 10_f64.powf(2.0 - place))
            }
        }
    }
}

/// A stretch of numbers and where it lies on the plot.
struct Axis {
    scale: Scale,
    least: f64,
    most: f64,
    /// From one tick to the next.
    step: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// From a tick to a tick around all of them.
    fn around(
        scale: Scale,
        figures: impl Iterator<Item = f64> + Clone,
        from: f64,
        to: f64,
    ) -> Axis {
        let least = figures.clone().fold(f64::INFINITY, f64::min);
        let most = figures.fold(f64::NEG_INFINITY, f64::max);
        let (least, most, step) = match scale {
            Scale::Amounts => {
                let step = round_step(most);
                (0.0, (most.max(step) / step).ceil() * step, step)
            }
            Scale::Powers | Scale::Nines => {
                let (least, most) =
                    if least <= most { (least.floor(), most.ceil()) } else { (0.0, 1.0) };
                let most = most.max(least + 1.0);
                // More than a few lines would be a grey area.
                (least, most, ((most - least) / 10.0).ceil())
            }
        };
        Axis { scale, least, most, step, from, to }
    }

    fn at(&self, figure: f64) -> f64 {
        self.from + (figure - self.least) / (self.most - self.least) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let count = ((self.most - self.least) / self.step).round() as usize;
        let tick = |number: usize| self.least + number as f64 * self.step;
        (0..=count).map(tick).map(|at| (at, self.scale.label(at))).collect()
    }
}

/// 1, 2 or 5 times a power of ten, so that a few of them reach `most`.
fn round_step(most: f64) -> f64 {
    // Nothing is shown on an axis up to 1.
    let rough = if most > 0.0 { most / TICKS } else { 1.0 };
    let power = 10_f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0].into_iter().find(|times| times * power >= rough);
    round.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::super::scene::Mark;
    use super::*;

    fn drawn(across: Scale, upwards: Scale, points: Vec<(f64, f64)>) -> Scene {
        let (across, upwards) = ((across, "x"), (upwards, "y"));
        let curve = Curve { name: Some("a".to_owned()), pen: Pen::solid(INK).dashed(), points };
        curves(Frame { title: "t", note: Some("so"), across, upwards }, &[curve])
    }

    /// The curve: the only dashed line but for that in the legend.
    fn path(scene: &Scene) -> &[(f64, f64)] {
        let mut dashed = scene.marks.iter().filter_map(|mark| match mark {
            Mark::Line { points, pen, .. } if pen.is_dashed => Some(points),
            _ => None,
        });
        dashed.next_back().expect("a curve is drawn")
    }

    #[test]
    fn nines_are_named_in_full() {
        let axis = Axis::around(Scale::Nines, [0.0, 4.7].into_iter(), 0.0, 1.0);
        let labels: Vec<String> = axis.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"]);
        let scene = drawn(Scale::Nines, Scale::Powers, vec![(1.0, 1.0), (90_000.0, 50.0)]);
        assert!(scene.cut_texts().is_empty(), "{:?}", scene.cut_texts());
    }

    #[test]
    fn amounts_have_round_ticks_from_0_on() {
        for (most, expected) in [
            (121.5, vec!["0", "50.0", "100", "150"]),
            (737_280.0, vec!["0", "200 k", "400 k", "600 k", "800 k"]),
            (0.55, vec!["0", "0.100", "0.200", "0.300", "0.400", "0.500", "0.600"]),
            (0.0, vec!["0", "1.00"]),
        ] {
            let axis = Axis::around(Scale::Amounts, [most].into_iter(), 0.0, 1.0);
            let labels: Vec<String> = axis.ticks().into_iter().map(|(_, label)| label).collect();
            assert_eq!(labels, expected, "{most}");
            assert!(axis.most >= most);
        }
    }

    #[test]
    fn a_stall_goes_down_to_the_axis() {
        let points = vec![(1.0, 500.0), (1.0, 0.0), (2.0, 500.0)];
        let scene = drawn(Scale::Amounts, Scale::Amounts, points);
        let path = path(&scene);
        assert_eq!(path.len(), 3);
        assert_eq!(path[1].1, scene.height - BELOW, "0 is at the bottom");
        assert!(path[0].1 < path[1].1 && path[2].1 < path[1].1);
    }

    #[test]
    fn all_points_are_on_the_plot() {
        let points = vec![(1.0, 0.02), (128.0, 4000.0), (0.0, 1.0), (3.0, 0.0)];
        let scene = drawn(Scale::Powers, Scale::Powers, points);
        assert_eq!(path(&scene).len(), 2, "0 has no logarithm");
        for mark in &scene.marks {
            if let Mark::Line { points, .. } = mark {
                for (x, y) in points {
                    let (width, height) = (scene.width, scene.height);
                    assert!((0.0..=width).contains(x) && (0.0..=height).contains(y), "{x} {y}");
                }
            }
        }
    }

    #[test]
    fn no_points_are_no_problem() {
        for scale in [Scale::Nines, Scale::Powers, Scale::Amounts] {
            assert!(!drawn(scale, scale, Vec::new()).marks.is_empty());
        }
    }
}
