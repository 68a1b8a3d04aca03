//! A message and all that it can have within it, out of a `FileDescriptorSet`.

use std::collections::{BTreeMap, HashMap};

use prost_types::field_descriptor_proto::{Label, Type};

use super::Schema;
use super::decode::Wire;
use super::names::{Described, NameNumber, Names, counted, fields, name_in};

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

/// Reads descriptors, and keeps what a message needs.
pub(super) fn compile(files: &[u8], root: &str) -> Result<Schema, String> {
    let mut compiling = Compiling {
        names: Names::of(files)?,
        messages: Vec::new(),
        enums: Vec::new(),
        wanted: Vec::new(),
        message_numbers: HashMap::new(),
        enum_numbers: HashMap::new(),
        fields: 0,
    };
    compiling.number_of(&format!(".{}", root.trim_start_matches('.')))?;
    // Each one may name others, which are put behind it.
    let mut next = 0;
    while let Some(wanted) = compiling.wanted.get(next).copied() {
        let message = compiling.message(wanted)?;
        compiling.messages.push(message);
        next += 1;
    }
    Ok(Schema { messages: compiling.messages, enums: compiling.enums })
}

/// The numbers of fields in `descriptor.proto`.
mod tag {
    pub(super) const MESSAGE_FIELD: u32 = 2;
    pub(super) const FIELD_NAME: u32 = 1;
    pub(super) const FIELD_NUMBER: u32 = 3;
    pub(super) const FIELD_LABEL: u32 = 4;
    pub(super) const FIELD_TYPE: u32 = 5;
    pub(super) const FIELD_TYPE_NAME: u32 = 6;
    pub(super) const FIELD_ONEOF: u32 = 9;
    pub(super) const ENUM_VALUE: u32 = 2;
    pub(super) const VALUE_NAME: u32 = 1;
    pub(super) const VALUE_NUMBER: u32 = 2;
}

/// A field as its file has it.
#[derive(Default)]
struct DescribedField<'a> {
    name: &'a str,
    number: i32,
    label: i32,
    kind: i32,
    type_name: &'a str,
    is_in_oneof: bool,
}

impl<'a> DescribedField<'a> {
    fn read(encoded: &'a [u8]) -> Result<DescribedField<'a>, String> {
        let mut field = DescribedField::default();
        for part in fields(encoded) {
            match part? {
                (tag::FIELD_NAME, Wire::Counted(name)) => field.name = name_in(name)?,
                (tag::FIELD_NUMBER, Wire::Varint(number)) => field.number = number as i32,
                (tag::FIELD_LABEL, Wire::Varint(label)) => field.label = label as i32,
                (tag::FIELD_TYPE, Wire::Varint(kind)) => field.kind = kind as i32,
                (tag::FIELD_TYPE_NAME, Wire::Counted(name)) => field.type_name = name_in(name)?,
                (tag::FIELD_ONEOF, Wire::Varint(_)) => field.is_in_oneof = true,
                _ => {}
            }
        }
        Ok(field)
    }

    fn is_repeated(&self) -> bool {
        self.label == i32::from(Label::Repeated)
    }
}

/// A message that is wanted.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    encoded: &'a [u8],
    has_defaults: bool,
    is_entry: bool,
}

struct Compiling<'a> {
    names: Names<'a>,
    messages: Vec<Message>,
    enums: Vec<EnumNames>,
    /// Messages, in the order of their numbers.
    wanted: Vec<Wanted<'a>>,
    message_numbers: HashMap<NameNumber, usize>,
    enum_numbers: HashMap<NameNumber, usize>,
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
        let found = self.names.find(name);
        let Some((found, Described::Message { encoded, is_proto3, is_entry })) = found else {
            return Err(format!("files have no message '{:.80}'", name.trim_start_matches('.')));
        };
        if let Some(number) = self.message_numbers.get(&found) {
            return Ok(*number);
        }
        self.count()?;
        let number = self.wanted.len();
        self.wanted.push(Wanted { encoded, has_defaults: is_proto3 || is_entry, is_entry });
        self.message_numbers.insert(found, number);
        Ok(number)
    }

    fn enum_number_of(&mut self, name: &str) -> Result<usize, String> {
        let Some((found, Described::Enum(encoded))) = self.names.find(name) else {
            return Err(format!("files have no enum '{:.80}'", name.trim_start_matches('.')));
        };
        if let Some(number) = self.enum_numbers.get(&found) {
            return Ok(*number);
        }
        let mut names = EnumNames::new();
        for value in counted(encoded, tag::ENUM_VALUE) {
            self.count()?;
            let (name, number) = enum_value(value?)?;
            // Of several names for a number the first one counts.
            names.entry(number).or_insert_with(|| name.to_owned());
        }
        self.enums.push(names);
        let number = self.enums.len() - 1;
        self.enum_numbers.insert(found, number);
        Ok(number)
    }

    fn message(&mut self, wanted: Wanted<'_>) -> Result<Message, String> {
        let mut message = Message::default();
        for encoded in counted(wanted.encoded, tag::MESSAGE_FIELD) {
            self.count()?;
            let field = DescribedField::read(encoded?)?;
            let number = u32::try_from(field.number).ok().filter(|number| *number > 0);
            let number =
                number.ok_or_else(|| format!("a field has the number {}", field.number))?;
            // Groups are read over, as fields that nobody knows.
            let Some(kind) = self.kind(&field)? else { continue };
            let count = match kind {
                Kind::Message(of) if field.is_repeated() && self.wanted[of].is_entry => Count::Map,
                _ if field.is_repeated() => Count::List,
                Kind::Message(_) => Count::Maybe,
                _ if wanted.has_defaults && !field.is_in_oneof => Count::One,
                _ => Count::Maybe,
            };
            message.fields.insert(number, Field { name: field.name.to_owned(), kind, count });
        }
        Ok(message)
    }

    fn kind(&mut self, field: &DescribedField<'_>) -> Result<Option<Kind>, String> {
        let kind = Type::try_from(field.kind);
        let kind = kind.map_err(|_| format!("field '{:.80}' has no known type", field.name))?;
        Ok(Some(match kind {
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
            Type::Message => Kind::Message(self.number_of(field.type_name)?),
            Type::Enum => Kind::Enum(self.enum_number_of(field.type_name)?),
            Type::Group => return Ok(None),
        }))
    }
}

/// The name and the number of an enum's value.
fn enum_value(encoded: &[u8]) -> Result<(&str, i32), String> {
    let (mut name, mut number) = ("", 0);
    for part in fields(encoded) {
        match part? {
            (tag::VALUE_NAME, Wire::Counted(bytes)) => name = name_in(bytes)?,
            (tag::VALUE_NUMBER, Wire::Varint(it)) => number = it as i32,
            _ => {}
        }
    }
    Ok((name, number))
}
