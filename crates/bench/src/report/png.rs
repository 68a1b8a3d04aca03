//! A scene as PNG, for wherever no page can be shown.
//!
//! Bars, lines and a few words need no renderer of SVG, which with its fonts would be a tenth of
//! the program. The letters are the 8 x 8 of old screens.

use anyhow::Context;
use font8x8::UnicodeFonts;

use super::scene::{Color, DASH, LETTER_WIDTH, Mark, Pen, Scene, width_of};

/// Pixels of the picture for one of the scene.
const SCALE: f64 = 2.0;

/// A letter's height in pixels of the scene.
const LETTER_HEIGHT: f64 = LETTER_WIDTH;

pub(super) fn render(scene: &Scene) -> anyhow::Result<Vec<u8>> {
    let mut canvas = Canvas::new(scene);
    for mark in &scene.marks {
        canvas.draw(mark);
    }
    let mut bytes = Vec::new();
    let (width, height) = (canvas.width as u32, canvas.height as u32);
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().context("a plot's size is possible")?;
    writer.write_image_data(&canvas.pixels).context("a plot's pixels are all there")?;
    writer.finish().context("a plot ends")?;
    Ok(bytes)
}

struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Canvas {
    fn new(scene: &Scene) -> Canvas {
        let (width, height) = ((scene.width * SCALE) as usize, (scene.height * SCALE) as usize);
        Canvas { width, height, pixels: vec![0xff; width * height * 3] }
    }

    fn draw(&mut self, mark: &Mark) {
        match mark {
            Mark::Bar { x, y, width, height, color } => {
                self.fill((*x, *y), (x + width, y + height), *color);
            }
            Mark::Line { points, width, pen } => {
                let mut behind = 0.0;
                for pair in points.windows(2) {
                    behind += self.stroke(pair[0], pair[1], behind, *width, *pen);
                }
            }
            Mark::Text { x, y, anchor, text, color } => {
                let left = anchor.left(*x, width_of(text));
                let top = y - LETTER_HEIGHT + 1.0;
                for (index, letter) in text.chars().enumerate() {
                    self.letter(letter, left + LETTER_WIDTH * index as f64, top, *color);
                }
            }
        }
    }

    /// Squares along the way, close enough to touch; none in the gaps between dashes. `behind` is how long the line is
    /// already. Returns how much longer it is now.
    fn stroke(
        &mut self,
        from: (f64, f64),
        to: (f64, f64),
        behind: f64,
        width: f64,
        pen: Pen,
    ) -> f64 {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy);
        let steps = (dx.abs().max(dy.abs()) * SCALE).ceil().max(1.0);
        let half = width / 2.0;
        for step in 0..=steps as usize {
            let part = step as f64 / steps;
            let in_turn = (behind + length * part) % (DASH.0 + DASH.1);
            if pen.is_dashed && in_turn >= DASH.0 {
                continue;
            }
            let (x, y) = (from.0 + dx * part, from.1 + dy * part);
            self.fill((x - half, y - half), (x + half, y + half), pen.color);
        }
        length
    }

    fn letter(&mut self, letter: char, left: f64, top: f64, color: Color) {
        let glyph = font8x8::BASIC_FONTS.get(letter).unwrap_or([0x7e; 8]);
        for (row, bits) in glyph.iter().enumerate() {
            for column in (0..8).filter(|column| bits & 1 << column != 0) {
                let (x, y) = (left + f64::from(column), top + row as f64);
                self.fill((x, y), (x + 1.0, y + 1.0), color);
            }
        }
    }

    /// What lies outside is left out.
    fn fill(&mut self, from: (f64, f64), to: (f64, f64), Color(red, green, blue): Color) {
        let pixel = |at: f64, max: usize| ((at * SCALE).round().max(0.0) as usize).min(max);
        let (left, right) = (pixel(from.0, self.width), pixel(to.0, self.width));
        for y in pixel(from.1, self.height)..pixel(to.1, self.height) {
            let row = &mut self.pixels[(y * self.width + left) * 3..(y * self.width + right) * 3];
            for pixel in row.chunks_exact_mut(3) {
                pixel.copy_from_slice(&[red, green, blue]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::scene::{Anchor, INK};

    const BLUE: Color = Color(0x00, 0x72, 0xb2);

    #[test]
    fn marks_are_where_they_should_be() {
        let mut scene = Scene::new(40.0, 20.0);
        scene.bar((10.0, 5.0), (5.0, 5.0), BLUE);
        scene.line(vec![(0.0, 15.0), (100.0, 15.0)], 1.0, Pen::solid(INK));
        scene.line(vec![(0.0, 18.0), (3.0, 18.0), (20.0, 18.0)], 1.0, Pen::solid(INK).dashed());
        scene.text((-4.0, 4.0), Anchor::Start, "ab");
        let bytes = render(&scene).expect("a picture");
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut pixels).expect("pixels");
        assert_eq!((info.width, info.height), (80, 40));
        let at = |x: usize, y: usize| &pixels[(y * 80 + x) * 3..][..3];
        assert_eq!(at(20, 10), [0x00, 0x72, 0xb2]);
        assert_eq!(at(30, 10), [0xff; 3]);
        assert_eq!(at(79, 30), [0x22; 3]);
        // A dash goes on around a corner of the line.
        let is_drawn = [2.0, 6.0, 9.0, 12.0].map(|x| at((x * SCALE) as usize, 36) == [0x22; 3]);
        assert_eq!(is_drawn, [true, true, false, true]);
    }
}
