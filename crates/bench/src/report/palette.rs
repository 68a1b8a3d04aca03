//! Which colour a side has: the same in every plot of every report.

use super::scene::Color;
use crate::side::{ACTIVEMQ, BARE, KAFKA, NATS, NULL, OURS, RABBITMQ};

/// Told apart by people who see no red or no green (Okabe and Ito). What is no broker is grey, or pale.
const KNOWN: [(&str, Color); 7] = [
    (OURS, Color(0x00, 0x72, 0xb2)),
    (KAFKA, Color(0xe6, 0x9f, 0x00)),
    (RABBITMQ, Color(0xd5, 0x5e, 0x00)),
    (ACTIVEMQ, Color(0xcc, 0x79, 0xa7)),
    (NATS, Color(0x00, 0x9e, 0x73)),
    (NULL, Color(0x99, 0x99, 0x99)),
    (BARE, Color(0x56, 0xb4, 0xe9)),
];

/// For other builds, and for a broker that was running, in their order.
const OTHERS: [Color; 3] =
    [Color(0x00, 0x00, 0x00), Color(0x88, 0x22, 0x55), Color(0xd0, 0xc4, 0x20)];

/// The colours of a report's sides.
#[derive(Debug)]
pub(super) struct Palette<'a> {
    /// Those that are not known by their names.
    others: Vec<&'a str>,
}

impl<'a> Palette<'a> {
    /// For all sides of a report, so that none has another colour where some do not take part.
    pub(super) fn of(sides: &[&'a str]) -> Palette<'a> {
        let is_other = |side: &&str| KNOWN.iter().all(|(name, _)| name != side);
        Palette { others: sides.iter().copied().filter(is_other).collect() }
    }

    pub(super) fn color(&self, side: &str) -> Color {
        if let Some((_, color)) = KNOWN.iter().find(|(name, _)| *name == side) {
            return *color;
        }
        let number = self.others.iter().position(|&other| other == side).unwrap_or(0);
        OTHERS[number % OTHERS.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_has_a_colour_of_its_own() {
        let sides = ["../a/logway", OURS, KAFKA, RABBITMQ, ACTIVEMQ, NATS, NULL, BARE, "broker"];
        let palette = Palette::of(&sides);
        for (index, side) in sides.iter().enumerate() {
            for other in &sides[index + 1..] {
                assert_ne!(palette.color(side), palette.color(other), "{side} and {other}");
            }
        }
    }

    #[test]
    fn a_known_side_keeps_its_colour_whoever_else_is_there() {
        let (alone, beside) = (Palette::of(&[NATS]), Palette::of(&["x", OURS, KAFKA, NATS]));
        assert_eq!(alone.color(NATS), beside.color(NATS));
    }
}
