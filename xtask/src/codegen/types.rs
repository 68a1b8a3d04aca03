//! The protocol's types and what they are in Rust.

use anyhow::{Context, bail, ensure};
use serde_json::Value;

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    Primitive(Primitive),
    String,
    Bytes,
    Records,
    Struct(String),
    Array(Box<Type>),
}

/// A type of fixed size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Primitive {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Float64,
    Uuid,
}

impl Primitive {
    fn parse(name: &str) -> Option<Primitive> {
        Some(match name {
            "bool" => Primitive::Bool,
            "int8" => Primitive::Int8,
            "int16" => Primitive::Int16,
            "uint16" => Primitive::Uint16,
            "int32" => Primitive::Int32,
            "uint32" => Primitive::Uint32,
            "int64" => Primitive::Int64,
            "float64" => Primitive::Float64,
            "uuid" => Primitive::Uuid,
            _ => return None,
        })
    }

    /// The type in Rust.
    pub fn rust_type(self) -> &'static str {
        match self {
            Primitive::Uuid => "Uuid",
            other => other.method(),
        }
    }

    /// The name of the method that reads or writes it.
    pub fn method(self) -> &'static str {
        match self {
            Primitive::Bool => "bool",
            Primitive::Int8 => "i8",
            Primitive::Int16 => "i16",
            Primitive::Uint16 => "u16",
            Primitive::Int32 => "i32",
            Primitive::Uint32 => "u32",
            Primitive::Int64 => "i64",
            Primitive::Float64 => "f64",
            Primitive::Uuid => "uuid",
        }
    }

    /// What it takes on the wire.
    pub fn bytes(self) -> usize {
        match self {
            Primitive::Bool | Primitive::Int8 => 1,
            Primitive::Int16 | Primitive::Uint16 => 2,
            Primitive::Int32 | Primitive::Uint32 => 4,
            Primitive::Int64 | Primitive::Float64 => 8,
            Primitive::Uuid => 16,
        }
    }

    fn default(self, value: &str) -> anyhow::Result<String> {
        Ok(match (self, value) {
            (Primitive::Bool, "" | "false") => "false".to_owned(),
            (Primitive::Bool, "true") => "true".to_owned(),
            (Primitive::Uuid, "") => "Uuid::ZERO".to_owned(),
            (Primitive::Float64, "") => "0.0".to_owned(),
            (Primitive::Float64, number) => format!("{:?}", number.parse::<f64>()?),
            (Primitive::Bool | Primitive::Uuid, other) => bail!("default '{other}'"),
            (_, "") => "0".to_owned(),
            (_, number) => self.integer_default(number)?,
        })
    }

    fn integer_default(self, number: &str) -> anyhow::Result<String> {
        let value = match number.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16),
            None => number.parse(),
        };
        let rust_type = self.rust_type();
        Ok(match value.with_context(|| format!("default '{number}'"))? {
            i64::MAX => format!("{rust_type}::MAX"),
            0x7fff_ffff if self == Primitive::Int32 => format!("{rust_type}::MAX"),
            -0x8000_0000 if self == Primitive::Int32 => format!("{rust_type}::MIN"),
            value => value.to_string(),
        })
    }
}

/// The value of a field that is not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Default {
    /// `None`.
    Null,
    /// No characters, bytes or elements, or a struct of defaults.
    Empty,
    /// This expression.
    Value(String),
}

impl Type {
    /// Reads a type as the definitions write it.
    pub fn parse(name: &str) -> anyhow::Result<Type> {
        if let Some(element) = name.strip_prefix("[]") {
            let element = Type::parse(element)?;
            let is_element = matches!(element, Type::Primitive(_) | Type::String | Type::Struct(_));
            ensure!(is_element, "arrays of type '{name}' do not occur");
            return Ok(Type::Array(Box::new(element)));
        }
        if let Some(primitive) = Primitive::parse(name) {
            return Ok(Type::Primitive(primitive));
        }
        Ok(match name {
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "records" => Type::Records,
            name if name.starts_with(char::is_uppercase) => Type::Struct(name.to_owned()),
            _ => bail!("unknown type '{name}'"),
        })
    }

    /// The struct that this is, or is an array of.
    pub fn struct_name(&self) -> Option<&str> {
        match self {
            Type::Struct(name) => Some(name),
            Type::Array(element) => element.struct_name(),
            _ => None,
        }
    }

    /// The type in Rust, when it is not null.
    pub fn rust_type(&self) -> String {
        match self {
            Type::Primitive(primitive) => primitive.rust_type().to_owned(),
            Type::String => "WireString".to_owned(),
            Type::Bytes => "Bytes".to_owned(),
            Type::Records => "Records".to_owned(),
            Type::Struct(name) => name.clone(),
            Type::Array(element) => format!("Vec<{}>", element.rust_type()),
        }
    }

    /// The default that the definition gives, or the one it implies by silence.
    pub fn default(&self, value: Option<&Value>, is_nullable: bool) -> anyhow::Result<Default> {
        let text = match value {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        match (self, text.as_str()) {
            (_, "null") if is_nullable => Ok(Default::Null),
            // Kafka's records are null until they are set.
            (Type::Records, "") if is_nullable => Ok(Default::Null),
            (Type::Primitive(primitive), value) => primitive.default(value).map(Default::Value),
            (_, "") => Ok(Default::Empty),
            (_, value) => bail!("default '{value}'"),
        }
    }
}
