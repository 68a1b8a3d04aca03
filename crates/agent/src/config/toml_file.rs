//! Our own form: tables `sources`, `channels`, `sinks` and `groups`, flattened into the keys that Flume's
//! form has too.
//!
//! | TOML                                  | key                                      |
//! |---------------------------------------|------------------------------------------|
//! | `name = "a"`                          | the agent's name                         |
//! | `[sources.r]` `type = "seq"`          | `sources.r.type`                         |
//! | `channels = ["c", "d"]`               | `sources.r.channels` with blanks between |
//! | `[[sources.r.interceptors]]`          | `sources.r.interceptors.1.…`, in order   |
//! | `[sources.r.filegroups]` `f = "/a"`   | `sources.r.filegroups.f`, and their list |

use toml::de::{DeTable, DeValue};

use super::Property;

/// Names of tables whose own names are a list that Flume's form has beside them.
const LISTED: &[&str] = &["filegroups", "serializers"];

/// No table is deeper: components have at most `interceptors.1.serializers.s.name`.
const DEPTH_MAX: usize = 8;

/// Whether a text is TOML at all.
pub(super) fn is_toml(text: &str) -> bool {
    DeTable::parse(text).is_ok()
}

pub(super) fn read(
    text: &str,
    name: &mut String,
    say: &mut impl FnMut(usize, String),
) -> Option<Vec<Property>> {
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let line = error.span().map_or(0, |span| line_of(text, span.start));
            say(line, error.message().to_owned());
            return None;
        }
    };
    let mut flat = Vec::new();
    for (key, value) in table.get_ref() {
        let line = line_of(text, key.span().start);
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("name", DeValue::String(given)) => *name = given.to_string(),
            (part @ ("sources" | "channels" | "sinks" | "groups"), DeValue::Table(components)) => {
                let part = if part == "groups" { "sinkgroups" } else { part };
                flatten(text, part, components, &mut flat, say);
            }
            ("name", _) => say(line, "'name' has to be text, in quotes".to_owned()),
            (part @ ("sources" | "channels" | "sinks" | "groups"), _) => {
                say(line, format!("'{part}' has to be a table of components"));
            }
            (other, _) => say(
                line,
                format!(
                    "'{other}' is unknown: there are name, and the tables sources, channels, sinks and groups"
                ),
            ),
        }
    }
    if name.is_empty() {
        "agent".clone_into(name);
    }
    Some(flat)
}

fn flatten(
    text: &str,
    prefix: &str,
    table: &DeTable<'_>,
    flat: &mut Vec<Property>,
    say: &mut impl FnMut(usize, String),
) {
    let depth = prefix.matches('.').count();
    for (name, value) in table {
        let line = line_of(text, name.span().start);
        let key = format!("{prefix}.{}", name.get_ref());
        if depth >= DEPTH_MAX {
            say(line, format!("'{key}' is nested deeper than anything that is known"));
            return;
        }
        match value.get_ref() {
            DeValue::Table(inner) => {
                if LISTED.contains(&name.get_ref().as_ref()) {
                    let names = inner.keys().map(|name| name.get_ref().to_string());
                    let value = names.collect::<Vec<_>>().join(" ");
                    flat.push(Property { key: key.clone(), value, line });
                }
                flatten(text, &key, inner, flat, say);
            }
            DeValue::Array(items) if items.iter().any(|item| item.get_ref().is_table()) => {
                let numbers = (1..=items.len()).map(|n| n.to_string());
                let value = numbers.collect::<Vec<_>>().join(" ");
                flat.push(Property { key: key.clone(), value, line });
                for (index, item) in items.iter().enumerate() {
                    let DeValue::Table(inner) = item.get_ref() else {
                        say(line, format!("'{key}' has tables and other things in one list"));
                        continue;
                    };
                    flatten(text, &format!("{key}.{}", index + 1), inner, flat, say);
                }
            }
            DeValue::Array(items) => {
                let texts: Option<Vec<String>> = items.iter().map(|i| plain(i.get_ref())).collect();
                match texts {
                    Some(texts) => flat.push(Property { key, value: texts.join(" "), line }),
                    None => say(line, format!("'{key}' has lists in a list")),
                }
            }
            other => {
                let value = plain(other).expect("what has parts was looked at before");
                flat.push(Property { key, value, line });
            }
        }
    }
}

/// The text of what has no parts.
fn plain(value: &DeValue<'_>) -> Option<String> {
    Some(match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) | DeValue::Table(_) => return None,
    })
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_become_keys_with_their_lines() {
        let text = "name = 'web'\n[sources.r]\ntype = 'seq'\nchannels = ['c', 'd']\ntotalEvents = 5\n\
            [[sources.r.interceptors]]\ntype = 'host'\n[[sources.r.interceptors]]\ntype = 'uuid'\n\
            [sources.r.filegroups]\nb = '/b'\na = '/a'\n[groups.g]\nsinks = ['s']\n";
        let mut name = String::new();
        let mut told = Vec::new();
        let flat = read(text, &mut name, &mut |line, text| told.push((line, text)));
        assert_eq!((name.as_str(), told), ("web", vec![]));
        let flat: Vec<_> =
            flat.expect("is read").into_iter().map(|p| (p.key, p.value, p.line)).collect();
        for (key, value, line) in [
            ("sources.r.type", "seq", 3),
            ("sources.r.channels", "c d", 4),
            ("sources.r.totalEvents", "5", 5),
            ("sources.r.interceptors", "1 2", 6),
            ("sources.r.interceptors.2.type", "uuid", 9),
            ("sources.r.filegroups", "a b", 10),
            ("sources.r.filegroups.b", "/b", 11),
            ("sinkgroups.g.sinks", "s", 14),
        ] {
            let found = flat.iter().find(|(k, ..)| k == key).unwrap_or_else(|| panic!("{key}"));
            assert_eq!((found.1.as_str(), found.2), (value, line), "{key}");
        }
    }

    #[test]
    fn what_is_unknown_or_no_toml_is_told() {
        let mut told = Vec::new();
        read("x = 1\n", &mut String::new(), &mut |line, text| told.push((line, text)));
        assert!(told[0].1.contains("'x' is unknown"), "{told:?}");
        told.clear();
        read("name = 5\nsinks = 'k'\n", &mut String::new(), &mut |l, t| told.push((l, t)));
        assert_eq!(told[0], (1, "'name' has to be text, in quotes".to_owned()));
        assert_eq!(told[1], (2, "'sinks' has to be a table of components".to_owned()));
        told.clear();
        read("name = 'a'\nsources = [\n", &mut String::new(), &mut |l, t| told.push((l, t)));
        assert_eq!(told.len(), 1);
    }
}
