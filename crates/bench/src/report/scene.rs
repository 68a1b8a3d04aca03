//! What a plot is drawn of, before anybody knows whether it becomes SVG or PNG.

/// Red, green, blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Color(pub(crate) u8, pub(crate) u8, pub(crate) u8);

pub(crate) const INK: Color = Color(0x22, 0x22, 0x22);
pub(crate) const FAINT: Color = Color(0xd8, 0xd8, 0xd8);

/// How long a dash is, and the gap behind it.
pub(crate) const DASH: (f64, f64) = (7.0, 4.0);

/// How wide a letter is at most, whatever the scene becomes: that of [`super::png`].
pub(super) const LETTER_WIDTH: f64 = 8.0;

/// How far one line of a legend is below the next one above.
const LEGEND_LINE: f64 = 18.0;

/// How long a legend's example of a line is.
const LEGEND_SAMPLE: f64 = 18.0;

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pen {
    pub(crate) color: Color,
    pub(crate) is_dashed: bool,
}

/// Where a text is in relation to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    /// Where a text begins that is so wide.
    pub(super) fn left(self, x: f64, width: f64) -> f64 {
        match self {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        }
    }
}

impl Pen {
    pub(crate) fn solid(color: Color) -> Pen {
        Pen { color, is_dashed: false }
    }

    pub(crate) fn dashed(self) -> Pen {
        Pen { is_dashed: true, ..self }
    }
}

/// One thing that is drawn; in pixels, from the top left.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mark {
    Bar {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        color: Color,
    },
    Line {
        points: Vec<(f64, f64)>,
        width: f64,
        pen: Pen,
    },
    /// Its point is at the base of the letters.
    Text {
        x: f64,
        y: f64,
        anchor: Anchor,
        text: String,
        color: Color,
    },
}

/// A plot: marks in the order in which they are drawn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scene {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) marks: Vec<Mark>,
}

impl Scene {
    pub(crate) fn new(width: f64, height: f64) -> Scene {
        Scene { width, height, marks: Vec::new() }
    }

    pub(crate) fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), color: Color) {
        self.marks.push(Mark::Bar { x, y, width, height, color });
    }

    pub(crate) fn line(&mut self, points: Vec<(f64, f64)>, width: f64, pen: Pen) {
        self.marks.push(Mark::Line { points, width, pen });
    }

    pub(crate) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: impl Into<String>) {
        let text = text.into();
        self.marks.push(Mark::Text { x, y, anchor, text, color: INK });
    }

    /// Examples of lines with their names, from left to right and on as many lines as it takes. Returns the height of
    /// what is free below.
    pub(crate) fn legend<'a>(
        &mut self,
        (left, mut y): (f64, f64),
        entries: impl IntoIterator<Item = (&'a str, Pen)>,
    ) -> f64 {
        let mut x = left;
        for (name, pen) in entries {
            let width = LEGEND_SAMPLE + 5.0 + width_of(name);
            if x > left && x + width > self.width {
                (x, y) = (left, y + LEGEND_LINE);
            }
            self.line(vec![(x, y - 4.0), (x + LEGEND_SAMPLE, y - 4.0)], 4.0, pen);
            self.text((x + LEGEND_SAMPLE + 5.0, y), Anchor::Start, name);
            x += width + 20.0;
        }
        y + LEGEND_LINE
    }

    /// The texts that do not lie within the picture as a whole.
    #[cfg(test)]
    pub(crate) fn cut_texts(&self) -> Vec<&str> {
        let cut = self.marks.iter().filter_map(|mark| {
            let Mark::Text { x, y, anchor, text, .. } = mark else { return None };
            let left = anchor.left(*x, width_of(text));
            let is_whole = left >= 0.0
                && left + width_of(text) <= self.width
                && (LETTER_WIDTH..=self.height).contains(y);
            (!is_whole).then_some(text.as_str())
        });
        cut.collect()
    }
}

/// How much room a text needs.
pub(crate) fn width_of(text: &str) -> f64 {
    LETTER_WIDTH * text.chars().count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legend_goes_on_in_the_next_line() {
        let pen = Pen::solid(INK);
        let mut scene = Scene::new(300.0, 100.0);
        let one = scene.legend((10.0, 20.0), [("logway synced", pen)]);
        let names = ["logway synced", "rabbitmq unsynced", "activemq unsynced"];
        let three = scene.legend((10.0, 20.0), names.map(|name| (name, pen)));
        assert_eq!((one, three), (20.0 + LEGEND_LINE, 20.0 + 3.0 * LEGEND_LINE));
        assert!(scene.cut_texts().is_empty(), "{:?}", scene.cut_texts());
        scene.text((290.0, 20.0), Anchor::Middle, "cut");
        assert_eq!(scene.cut_texts(), ["cut"]);
    }
}
