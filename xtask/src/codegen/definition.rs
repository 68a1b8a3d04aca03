//! The message definitions as their JSON files spell them.

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

use super::versions::Versions;

/// One JSON file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Definition {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub api_key: Option<i16>,
    #[serde(default)]
    pub listeners: Vec<String>,
    pub valid_versions: Versions,
    #[serde(default = "no_versions")]
    pub flexible_versions: Versions,
    #[serde(default)]
    pub latest_version_unstable: bool,
    #[serde(default)]
    pub fields: Vec<FieldDefinition>,
    #[serde(default)]
    pub common_structs: Vec<StructDefinition>,
}

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Request,
    Response,
    Header,
    Data,
    /// The key of a record that a coordinator keeps in its log.
    #[serde(rename = "coordinator-key")]
    CoordinatorKey,
    /// The value of such a record.
    #[serde(rename = "coordinator-value")]
    CoordinatorValue,
}

/// A struct that several fields of one message share.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StructDefinition {
    pub name: String,
    pub versions: Versions,
    pub fields: Vec<FieldDefinition>,
}

/// One field. What is only of interest to documentation or to Kafka's own classes is read and dropped.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FieldDefinition {
    pub name: String,
    #[serde(rename = "type")]
    pub type_name: String,
    /// Where they are not given: those in which the field is tagged.
    #[serde(default = "no_versions")]
    pub versions: Versions,
    #[serde(default = "no_versions")]
    pub nullable_versions: Versions,
    #[serde(default = "no_versions")]
    pub tagged_versions: Versions,
    pub tag: Option<u32>,
    pub flexible_versions: Option<Versions>,
    pub default: Option<Value>,
    #[serde(default)]
    pub ignorable: bool,
    #[serde(default)]
    pub fields: Vec<FieldDefinition>,
    #[serde(rename = "about")]
    _about: Option<String>,
    #[serde(rename = "entityType")]
    _entity_type: Option<String>,
    #[serde(rename = "mapKey")]
    _map_key: Option<bool>,
    #[serde(rename = "zeroCopy")]
    _zero_copy: Option<bool>,
}

fn no_versions() -> Versions {
    Versions::NONE
}

impl Definition {
    /// Reads a definition: JSON with `//` comments.
    pub fn parse(file_name: &str, text: &str) -> anyhow::Result<Definition> {
        let mut definition: Definition = serde_json::from_str(&without_comments(text))
            .with_context(|| format!("reading {file_name}"))?;
        definition.fields.iter_mut().for_each(FieldDefinition::complete);
        Ok(definition)
    }
}

impl FieldDefinition {
    /// Fills in what the definition leaves to be understood.
    fn complete(&mut self) {
        if self.versions == Versions::NONE {
            self.versions = self.tagged_versions;
        }
        self.fields.iter_mut().for_each(FieldDefinition::complete);
    }
}

/// Drops everything from `//` to the end of the line, except inside strings.
fn without_comments(text: &str) -> String {
    text.lines().map(|line| &line[..comment_start(line)]).collect::<Vec<_>>().join("\n")
}

fn comment_start(line: &str) -> usize {
    let bytes = line.as_bytes();
    let (mut position, mut in_string) = (0, false);
    while position < bytes.len() {
        match bytes[position] {
            b'"' => in_string = !in_string,
            b'\\' if in_string => position += 1,
            b'/' if !in_string && bytes.get(position + 1) == Some(&b'/') => break,
            _ => {}
        }
        position += 1;
    }
    position.min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::without_comments;

    #[test]
    fn comments_end_lines_but_not_strings() {
        assert_eq!(without_comments("// a\n1 // b"), "\n1 ");
        assert_eq!(without_comments(r#"{"a//": "\"//"} // c"#), r#"{"a//": "\"//"} "#);
    }
}
