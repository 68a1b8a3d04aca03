//! The fields of an event, made harmless.

use std::fmt::{self, Debug, Write};

use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{self, FormatFields, Writer};

/// The longest text that one field of a line may have.
pub(super) const TEXT_BYTES_MAX: usize = 2_048;

/// Writes the fields of an event as `message name=value …`.
pub(super) fn write_fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    format::debug_fn(|writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        if field.name() != "message" {
            write!(writer, "{}=", field.name())?;
        }
        write_harmless(writer, format_args!("{value:?}"))
    })
    .delimited(" ")
}

/// Writes a text without what could harm a terminal, and not more than fits.
pub(super) fn write_harmless(to: &mut impl Write, text: fmt::Arguments<'_>) -> fmt::Result {
    let mut harmless = Harmless { to, left_bytes: TEXT_BYTES_MAX, cut_bytes: 0 };
    harmless.write_fmt(text)?;
    match harmless.cut_bytes {
        0 => Ok(()),
        cut_bytes => write!(to, "… (and {cut_bytes} bytes more)"),
    }
}

/// Takes text, and passes on what harms no terminal and fits.
struct Harmless<'a, W: Write> {
    to: &'a mut W,
    left_bytes: usize,
    cut_bytes: usize,
}

impl<W: Write> Write for Harmless<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if self.cut_bytes > 0 || self.left_bytes < letter.len_utf8() {
                self.cut_bytes += letter.len_utf8();
                continue;
            }
            self.left_bytes -= letter.len_utf8();
            match is_harmless(letter) {
                true => self.to.write_char(letter)?,
                false => write!(self.to, "{}", letter.escape_unicode())?,
            }
        }
        Ok(())
    }
}

/// Neither a control character nor one that breaks lines or turns the direction of what follows.
pub(crate) fn is_harmless(letter: char) -> bool {
    let is_layout = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}');
    !letter.is_control() && !is_layout
}
