//! What a plot is drawn of, before anybody knows whether it becomes SVG or PNG.

/// Red, green, blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Color(pub(crate) u8, pub(crate) u8, pub(crate) u8);

pub(crate) const INK: Color = Color(0x22, 0x22, 0x22);
pub(crate) const FAINT: Color = Color(0xd8, 0xd8, 0xd8);

/// The sides in their order: told apart by people who see no red or no green (Okabe and Ito).
pub(crate) const SERIES: [Color; 6] = [
    Color(0x00, 0x72, 0xb2),
    Color(0xe6, 0x9f, 0x00),
    Color(0x00, 0x9e, 0x73),
    Color(0xcc, 0x79, 0xa7),
    Color(0xd5, 0x5e, 0x00),
    Color(0x56, 0xb4, 0xe9),
];

/// Where a text is in relation to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
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
        color: Color,
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

    pub(crate) fn line(&mut self, points: Vec<(f64, f64)>, width: f64, color: Color) {
        self.marks.push(Mark::Line { points, width, color });
    }

    pub(crate) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: impl Into<String>) {
        let text = text.into();
        self.marks.push(Mark::Text { x, y, anchor, text, color: INK });
    }

    /// Small squares with names, from left to right.
    pub(crate) fn legend(&mut self, (mut x, y): (f64, f64), names: &[&str]) {
        for (name, color) in names.iter().zip(SERIES.iter().cycle()) {
            self.bar((x, y - 8.0), (10.0, 10.0), *color);
            self.text((x + 15.0, y), Anchor::Start, *name);
            x += 35.0 + 8.0 * name.chars().count() as f64;
        }
    }
}
