//! A scene as SVG, for the page.

use std::fmt::Write;

use super::html::escape;
use super::scene::{Anchor, Color, DASH, Mark, Scene};

pub(super) fn render(scene: &Scene) -> String {
    let Scene { width, height, marks } = scene;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         font-family=\"sans-serif\" font-size=\"12\" xmlns=\"http://www.w3.org/2000/svg\">\n"
    );
    for mark in marks {
        draw(&mut svg, mark).expect("a string takes everything");
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, mark: &Mark) -> std::fmt::Result {
    match mark {
        Mark::Bar { x, y, width, height, color } => writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{}\"/>",
            hex(*color)
        ),
        Mark::Line { points, width, pen } => {
            let points: Vec<String> =
                points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let dashes = match pen.is_dashed {
                true => format!(" stroke-dasharray=\"{} {}\"", DASH.0, DASH.1),
                false => String::new(),
            };
            writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"{dashes}/>",
                points.join(" "),
                hex(pen.color)
            )
        }
        Mark::Text { x, y, anchor, text, color } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{}\">{}</text>",
                hex(*color),
                escape(text)
            )
        }
    }
}

fn hex(Color(red, green, blue): Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
