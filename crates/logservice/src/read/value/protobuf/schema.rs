//! A message and all that it can have within it, out of a `FileDescriptorSet`.

use std::collections::{BTreeMap, HashMap};

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};

use super::Schema;

/// Fields that a message and all within it may have, and the values of enums.
const FIELDS_MAX: usize = 4_096;

/// The names of an enum's values, by number.
pub(super) type EnumNames = BTreeMap<i32, String>;

/// A message, by the numbers of its fields.
#[derive(Debug, Clone, Default)]
pub(super) struct Message {
    pub(super) fields: BTreeMap<u32, Field>,
}

/// A field.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) count: Count,
}

/// How many values a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// One, which is the default where it is not set.
    One,
    /// One or none.
    Maybe,
    List,
    /// A list of entries, which are an object by their keys.
    Map,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Double,
    Float,
    /// `int32` and `int64`.
    Int,
    /// `uint32` and `uint64`.
    Unsigned,
    /// `sint32` and `sint64`.
    ZigZag,
    Fixed32,
    Fixed64,
    SignedFixed32,
    SignedFixed64,
    Bool,
    Text,
    Bytes,
    /// The number of its message.
    Message(usize),
    /// The number of its enum.
    Enum(usize),
}

/// A message as its file has it.
struct Described<'a> {
    message: &'a DescriptorProto,
    /// Whether a field that is not set looks like one with the default value.
    is_proto3: bool,
}

/// Reads descriptors, and keeps what a message needs.
pub(super) fn compile(files: &[u8], root: &str) -> Result<Schema, String> {
    let files = FileDescriptorSet::decode(files)
        .map_err(|error| format!("files is no FileDescriptorSet: {error}"))?;
    let mut known = Known::default();
    for file in &files.file {
        let is_proto3 = file.syntax() == "proto3";
        let package = match file.package() {
            "" => String::new(),
            package => format!(".{package}"),
        };
        for it in &file.enum_type {
            known.enums.insert(format!("{package}.{}", it.name()), it);
        }
        for it in &file.message_type {
            known.add(&package, it, is_proto3);
        }
    }
    let mut compiling = Compiling { known, ..Compiling::default() };
    compiling.number_of(&format!(".{}", root.trim_start_matches('.')))?;
    // Each one may name others, which are put behind it.
    let mut next = 0;
    while let Some(name) = compiling.wanted.get(next).cloned() {
        let message = compiling.message(&name)?;
        compiling.messages.push(message);
        next += 1;
    }
    Ok(Schema { messages: compiling.messages, enums: compiling.enums })
}

/// What the files have, by full name with a dot before it.
#[derive(Default)]
struct Known<'a> {
    messages: HashMap<String, Described<'a>>,
    enums: HashMap<String, &'a EnumDescriptorProto>,
}

impl<'a> Known<'a> {
    /// Messages within messages are bounded in depth by the decoder of descriptors.
    fn add(&mut self, scope: &str, message: &'a DescriptorProto, is_proto3: bool) {
        let name = format!("{scope}.{}", message.name());
        for it in &message.enum_type {
            self.enums.insert(format!("{name}.{}", it.name()), it);
        }
        for it in &message.nested_type {
            self.add(&name, it, is_proto3);
        }
        self.messages.insert(name, Described { message, is_proto3 });
    }
}

#[derive(Default)]
struct Compiling<'a> {
    known: Known<'a>,
    messages: Vec<Message>,
    enums: Vec<EnumNames>,
    /// Full names of messages, in the order of their numbers.
    wanted: Vec<String>,
    message_numbers: HashMap<String, usize>,
    enum_numbers: HashMap<String, usize>,
    fields: usize,
}

impl Compiling<'_> {
    fn count(&mut self) -> Result<(), String> {
        self.fields += 1;
        match self.fields <= FIELDS_MAX {
            true => Ok(()),
            false => Err(format!("a message has {FIELDS_MAX} fields at most, with all within it")),
        }
    }

    /// The number of a message.
    fn number_of(&mut self, name: &str) -> Result<usize, String> {
        if let Some(number) = self.message_numbers.get(name) {
            return Ok(*number);
        }
        if !self.known.messages.contains_key(name) {
            return Err(format!("files have no message '{:.80}'", name.trim_start_matches('.')));
        }
        self.count()?;
        let number = self.wanted.len();
        self.wanted.push(name.to_owned());
        self.message_numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    fn enum_number_of(&mut self, name: &str) -> Result<usize, String> {
        if let Some(number) = self.enum_numbers.get(name) {
            return Ok(*number);
        }
        let Some(described) = self.known.enums.get(name).copied() else {
            return Err(format!("files have no enum '{:.80}'", name.trim_start_matches('.')));
        };
        let mut names = EnumNames::new();
        for value in &described.value {
            self.count()?;
            // Of several names for a number the first one counts.
            names.entry(value.number()).or_insert_with(|| value.name().to_owned());
        }
        self.enums.push(names);
        let number = self.enums.len() - 1;
        self.enum_numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    fn message(&mut self, name: &str) -> Result<Message, String> {
        let Some(Described { message, is_proto3 }) = self.known.messages.get(name) else {
            return Ok(Message::default());
        };
        let described = *message;
        let is_entry = described.options.as_ref().is_some_and(|options| options.map_entry());
        let has_defaults = *is_proto3 || is_entry;
        let mut fields = BTreeMap::new();
        for field in &described.field {
            self.count()?;
            let number = u32::try_from(field.number());
            let number = number.ok().filter(|number| *number > 0);
            let number =
                number.ok_or_else(|| format!("a field has the number {}", field.number()))?;
            // Groups are read over, as fields that nobody knows.
            let Some(kind) = self.kind(field)? else { continue };
            let count = match field.label() {
                Label::Repeated if self.is_map_entry(field) => Count::Map,
                Label::Repeated => Count::List,
                _ if matches!(kind, Kind::Message(_)) || field.oneof_index.is_some() => {
                    Count::Maybe
                }
                _ if has_defaults => Count::One,
                _ => Count::Maybe,
            };
            fields.insert(number, Field { name: field.name().to_owned(), kind, count });
        }
        Ok(Message { fields })
    }

    fn is_map_entry(&self, field: &FieldDescriptorProto) -> bool {
        let described = self.known.messages.get(field.type_name());
        described.and_then(|it| it.message.options.as_ref()).is_some_and(|it| it.map_entry())
    }

    fn kind(&mut self, field: &FieldDescriptorProto) -> Result<Option<Kind>, String> {
        Ok(Some(match field.r#type() {
            Type::Double => Kind::Double,
            Type::Float => Kind::Float,
            Type::Int32 | Type::Int64 => Kind::Int,
            Type::Uint32 | Type::Uint64 => Kind::Unsigned,
            Type::Sint32 | Type::Sint64 => Kind::ZigZag,
            Type::Fixed32 => Kind::Fixed32,
            Type::Fixed64 => Kind::Fixed64,
            Type::Sfixed32 => Kind::SignedFixed32,
            Type::Sfixed64 => Kind::SignedFixed64,
            Type::Bool => Kind::Bool,
            Type::String => Kind::Text,
            Type::Bytes => Kind::Bytes,
            Type::Message => Kind::Message(self.number_of(field.type_name())?),
            Type::Enum => Kind::Enum(self.enum_number_of(field.type_name())?),
            Type::Group => return Ok(None),
        }))
    }
}
