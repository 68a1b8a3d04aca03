//! The broker's configuration file.

use crate::error::MetadataError;

/// Reads a configuration file's settings: their names, as in the table of
/// [`broker`](super::broker) settings, with their values as text, neither checked yet.
///
/// Fails with [`MetadataError::ConfigFile`] if it is not TOML, if a setting is given twice in
/// different spellings, or if a value is of a type that no setting has.
pub fn parse_config_file(text: &str) -> Result<Vec<(String, String)>, MetadataError> {
    let table: toml::Table = text.parse().map_err(|error| refused(not_toml(text, &error)))?;
    let mut settings = Vec::new();
    flatten(&table, "", &mut settings)?;
    settings.sort();
    match settings.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(refused(format!("'{}' is given twice", pair[0].0))),
        None => Ok(settings),
    }
}

fn flatten(
    table: &toml::Table,
    prefix: &str,
    settings: &mut Vec<(String, String)>,
) -> Result<(), MetadataError> {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        match value {
            toml::Value::Table(inner) => flatten(inner, &format!("{name}."), settings)?,
            value => settings.push((value_text(&name, value).map(|text| (name, text)))?),
        }
    }
    Ok(())
}

fn value_text(name: &str, value: &toml::Value) -> Result<String, MetadataError> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        toml::Value::Boolean(value) => Ok(value.to_string()),
        toml::Value::Array(items) => {
            let items: Result<Vec<String>, _> =
                items.iter().map(|item| value_text(name, item)).collect();
            Ok(items?.join(","))
        }
        toml::Value::Table(_) | toml::Value::Datetime(_) => {
            Err(refused(format!("'{name}' must be a text, a number, true or false, or a list")))
        }
    }
}

/// What is wrong, and in which line. The line itself may hold a password.
fn not_toml(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line} is no TOML: {}", error.message())
}

fn refused(reason: String) -> MetadataError {
    MetadataError::ConfigFile { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Vec<(String, String)> {
        parse_config_file(text).expect("is a configuration file")
    }

    #[test]
    fn dotted_quoted_and_nested_names_are_the_same() {
        let expected = [("log.retention.ms".to_owned(), "5".to_owned())];
        for text in ["log.retention.ms = 5", "\"log.retention.ms\" = 5", "[log.retention]\nms = 5"]
        {
            assert_eq!(settings(text), expected, "{text}");
        }
    }

    #[test]
    fn lists_are_joined_with_commas() {
        let text = "listeners = ['a:1', 'b:2']";
        assert_eq!(settings(text), [("listeners".to_owned(), "a:1,b:2".to_owned())]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("a = [", "TOML"),
            ("a = 1\nb = 'never to be seen", "line 2 is no TOML"),
            ("num.partitions = 1\n\"num.partitions\" = 2", "'num.partitions' is given twice"),
            ("x = 2020-01-01", "'x' must be"),
            ("x = [{}]", "'x' must be"),
        ] {
            let error = parse_config_file(text).expect_err(text).to_string();
            assert!(error.contains(part) && !error.contains("seen"), "{text}: {error}");
        }
    }
}
