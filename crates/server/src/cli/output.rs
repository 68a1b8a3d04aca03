//! Printing data: tables for people, JSON for programs.

use std::io::{self, Write};

pub(super) use logway_client::cli::Format;
use serde::Serialize;

use super::error::CliError;
use crate::log::is_harmless;

/// Large writes keep the cost per record low.
pub(super) const OUTPUT_BUFFER_BYTES: usize = 128 << 10;

/// Prints a value as a JSON document.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let json = serde_json::to_string_pretty(value).map_err(no_json)?;
    print(&format!("{json}\n"))
}

/// A JSON document that is an array, printed value by value.
pub(super) struct JsonArray {
    is_empty: bool,
}

impl JsonArray {
    /// An array without a value yet.
    pub(super) fn new() -> JsonArray {
        JsonArray { is_empty: true }
    }

    /// Prints the next value.
    pub(super) fn push(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let before = if std::mem::take(&mut self.is_empty) { "[\n" } else { ",\n" };
        let json = serde_json::to_string_pretty(value).map_err(no_json)?;
        print(&format!("{before}{json}"))
    }

    /// Prints the end.
    pub(super) fn end(self) -> Result<(), CliError> {
        print(if self.is_empty { "[]\n" } else { "\n]\n" })
    }
}

/// A value as one line of JSON, with its line end.
pub(super) fn json_line(value: &impl Serialize) -> Result<String, CliError> {
    serde_json::to_string(value).map(|json| format!("{json}\n")).map_err(no_json)
}

fn no_json(error: serde_json::Error) -> CliError {
    CliError::Io { what: "write JSON".to_owned(), source: error.into() }
}

/// Prints text that is complete with its line ends.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(CliError::Output)
}

/// A truth as people say it.
pub(super) fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

/// Several values in one cell of a table.
pub(super) fn list<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

fn escaped(cell: String) -> String {
    if cell.chars().all(is_harmless) {
        return cell;
    }
    let shown = |letter: char| match is_harmless(letter) {
        true => letter.to_string(),
        false => letter.escape_default().to_string(),
    };
    cell.chars().map(shown).collect()
}

/// Lines up columns; the last column is not padded.
#[derive(Debug, Clone)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a line of column names.
    pub(super) fn new(names: &[&str]) -> Table {
        Table { rows: vec![names.iter().map(|name| (*name).to_owned()).collect()] }
    }

    /// A table without column names.
    pub(super) fn without_names() -> Table {
        Table { rows: Vec::new() }
    }

    /// Adds a line. An empty cell is shown as `-`, so that each line has as many words. Control characters are escaped: names
    /// are what clients chose, and would move the cursor or break the line.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let shown = |cell: String| match cell.is_empty() {
            true => "-".to_owned(),
            false => escaped(cell),
        };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    /// The lines.
    pub(super) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let padded = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
            let line = padded.collect::<Vec<_>>().join("  ");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["NAME", "N"]);
        table.row(["a-long-name".to_owned(), "1".to_owned()]);
        table.row([String::new(), "22".to_owned()]);
        assert_eq!(table.render(), "NAME         N\na-long-name  1\n-            22\n");
    }

    #[test]
    fn what_clients_call_themselves_does_nothing_to_the_terminal() {
        let mut table = Table::without_names();
        table.row(["a\u{1b}[2Jb\nc\u{9b}".to_owned(), "é 1".to_owned()]);
        assert_eq!(table.render(), "a\\u{1b}[2Jb\\nc\\u{9b}  é 1\n");
    }
}
