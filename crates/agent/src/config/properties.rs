//! Java's grammar of `.properties` files (`java.util.Properties.load`), as Flume reads them.

use super::Property;
use crate::declaration::nearest;

/// All properties, with the lines on which they begin. Of equal keys the last holds.
pub(super) fn read(text: &str, say: &mut impl FnMut(usize, String)) -> Vec<Property> {
    let mut properties: Vec<Property> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let line = trimmed_start(line);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = line.to_owned();
        while ends_in_backslash(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else { break };
            logical.push_str(trimmed_start(next));
        }
        let (key, value) = split(&logical);
        match (unescaped(key), unescaped(value)) {
            (Some(key), Some(value)) => {
                let value = value.trim().to_owned();
                properties.retain(|property| property.key != key);
                properties.push(Property { key, value, line: index + 1 });
            }
            _ => say(index + 1, "a \\u needs four hexadecimal digits".to_owned()),
        }
    }
    properties
}

/// Those of one agent, without its name before.
pub(super) fn of_agent(
    all: Vec<Property>,
    agent: &str,
    say: &mut impl FnMut(usize, String),
) -> Option<Vec<Property>> {
    let prefix = format!("{agent}.");
    let names: Vec<&str> = all.iter().filter_map(|p| Some(p.key.split_once('.')?.0)).collect();
    if !names.contains(&agent) {
        let near = nearest(agent, names.iter().copied()).or(names.first().copied());
        let near = near.map(|near| format!("; it has '{near}'")).unwrap_or_default();
        say(0, format!("there is no agent '{agent}'{near}"));
        return None;
    }
    let own = all.iter().filter_map(|property| {
        let key = property.key.strip_prefix(&prefix)?.to_owned();
        Some(Property { key, ..property.clone() })
    });
    Some(own.collect())
}

/// The agent that a text in Flume's form begins with, if it is in that form.
pub(super) fn first_agent(text: &str) -> Option<String> {
    let is_part = |part: &str| ["sources", "channels", "sinks"].contains(&part);
    let agent = |property: &Property| {
        let (agent, rest) = property.key.split_once('.')?;
        rest.split('.').next().is_some_and(is_part).then(|| agent.to_owned())
    };
    read(text, &mut |_, _| ()).iter().find_map(agent)
}

fn trimmed_start(line: &str) -> &str {
    line.trim_start_matches([' ', '\t', '\x0c'])
}

/// Whether the line goes on: an even number of backslashes stands for themselves.
fn ends_in_backslash(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The key ends at the first blank, `=` or `:` that is not escaped; what is between them is dropped.
fn split(line: &str) -> (&str, &str) {
    let mut is_escaped = false;
    let end = line.find(|letter| {
        let ends = !is_escaped && matches!(letter, ' ' | '\t' | '\x0c' | '=' | ':');
        is_escaped = letter == '\\' && !is_escaped;
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = trimmed_start(rest);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, trimmed_start(rest))
}

fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    // Java writes what is beyond 16 bits as two halves.
    let mut units: Vec<u16> = Vec::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let escaped = if letter == '\\' { letters.next() } else { None };
        if escaped == Some('u') {
            let digits: String = letters.by_ref().take(4).collect();
            let is_hex = digits.len() == 4 && digits.chars().all(|d| d.is_ascii_hexdigit());
            units.push(is_hex.then(|| u16::from_str_radix(&digits, 16).ok()).flatten()?);
            continue;
        }
        plain.push_str(&String::from_utf16_lossy(&std::mem::take(&mut units)));
        match (letter, escaped) {
            ('\\', Some('t')) => plain.push('\t'),
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some('r')) => plain.push('\r'),
            ('\\', Some('f')) => plain.push('\x0c'),
            ('\\', Some(other)) => plain.push(other),
            ('\\', None) => {}
            (other, _) => plain.push(other),
        }
    }
    plain.push_str(&String::from_utf16_lossy(&units));
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String, usize)> {
        let properties = read(text, &mut |line, text| panic!("{line}: {text}"));
        properties.into_iter().map(|p| (p.key, p.value, p.line)).collect()
    }

    #[test]
    fn the_grammar_is_javas() {
        let text = "# comment\n  ! another = one\na.b = c d\n\nx:y\nlong = one \\\n   two\\\n\nkey\\ with\\:signs v\n\
            uni = \\u00e9\\ud83d\\ude00\npath = C:\\\\temp\\n.\nlast = \\\\\\\\\nnothing\na.b = again\n";
        let expected = [
            ("x", "y", 5),
            ("long", "one two", 6),
            ("key with:signs", "v", 9),
            ("uni", "é😀", 10),
            ("path", "C:\\temp\n.", 11),
            ("last", "\\\\", 12),
            ("nothing", "", 13),
            ("a.b", "again", 14),
        ];
        let expected = expected.map(|(key, value, line)| (key.to_owned(), value.to_owned(), line));
        assert_eq!(pairs(text), expected);
    }

    #[test]
    fn a_bad_escape_is_told_with_its_line() {
        let mut told = Vec::new();
        read("a=1\nb=\\u12", &mut |line, text| told.push((line, text)));
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].0, 2);
    }
}
