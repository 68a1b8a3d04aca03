//! Writes one random message.

use crate::codegen::schema::{Field, Message, Struct};
use crate::codegen::types::{Default, Primitive, Type};

use super::random::Random;

/// Beyond this size arrays stay short, so that nesting does not blow a message up.
const LARGE_BYTES: usize = 4096;

/// Writes one message at one version.
pub struct Writer<'a> {
    message: &'a Message,
    version: i16,
    random: &'a mut Random,
}

impl<'a> Writer<'a> {
    pub fn new(message: &'a Message, version: i16, random: &'a mut Random) -> Writer<'a> {
        Writer { message, version, random }
    }

    /// The bytes of a random message.
    pub fn message(mut self) -> Vec<u8> {
        let message = self.message;
        let mut out = Vec::new();
        self.write_struct(&mut out, message.find_struct(&message.name));
        out
    }

    fn write_struct(&mut self, out: &mut Vec<u8>, of: &Struct) {
        let flexible = of.flexible.contains(self.version);
        for field in self.present(of).filter(|field| field.tag.is_none()) {
            self.write_field(out, field, flexible && !field.fixed_lengths);
        }
        if flexible {
            let fields = self.tagged_fields(of);
            varint(out, fields.len());
            for (tag, data) in fields {
                varint(out, tag as usize);
                varint(out, data.len());
                out.extend(data);
            }
        }
    }

    fn present<'s>(&self, of: &'s Struct) -> impl Iterator<Item = &'s Field> + use<'s> {
        let version = self.version;
        of.fields.iter().filter(move |field| field.versions.contains(version))
    }

    /// Known and unknown tagged fields, by tag.
    fn tagged_fields(&mut self, of: &Struct) -> Vec<(u32, Vec<u8>)> {
        let mut fields = Vec::new();
        for field in self.present(of) {
            if let Some(tag) = field.tag.filter(|_| self.random.once_in(2)) {
                let mut data = Vec::new();
                self.write_set(&mut data, field);
                fields.push((tag, data));
            }
        }
        // A tag that another version knows is an error to the Java client.
        let is_known = |tag| of.fields.iter().any(|field| field.tag == Some(tag));
        let unknown = if self.random.once_in(4) { 1 + self.random.below(3) } else { 0 };
        for _ in 0..unknown {
            let tag = self.random.below(300) as u32;
            if !is_known(tag) && fields.iter().all(|(other, _)| *other != tag) {
                let len = self.len(false);
                fields.push((tag, self.random.bytes(len)));
            }
        }
        fields.sort_by_key(|(tag, _)| *tag);
        fields
    }

    /// A value that is not the field's default.
    fn write_set(&mut self, out: &mut Vec<u8>, field: &Field) {
        match &field.ty {
            Type::Primitive(Primitive::Bool) => {
                out.push(u8::from(field.default == Default::Value("false".to_owned())))
            }
            // The defaults of the others are 0, -1 and the largest value.
            Type::Primitive(primitive) => {
                out.push(1);
                out.extend(self.random.bytes(primitive.bytes() - 1));
            }
            // The default is null, so that any struct will do.
            Type::Struct(name) if field.nullable.contains(self.version) => {
                let message = self.message;
                out.push(1);
                self.write_struct(out, message.find_struct(name));
            }
            Type::Struct(name) => self.write_set_struct(out, name),
            ty => {
                let len = 1 + self.len(out.len() > LARGE_BYTES);
                self.write_sized(out, ty, len, true);
            }
        }
    }

    /// A struct whose first field is not its default.
    fn write_set_struct(&mut self, out: &mut Vec<u8>, name: &str) {
        let message = self.message;
        let of = message.find_struct(name);
        let first = self.present(of).next();
        let first = first.expect("a tagged struct has fields");
        assert!(matches!(first.ty, Type::Primitive(_)), "{name} begins with a number");
        let mut value = Vec::new();
        self.write_struct(&mut value, of);
        value[0] = 1;
        out.extend(value);
    }

    fn write_field(&mut self, out: &mut Vec<u8>, field: &Field, flexible: bool) {
        if field.nullable.contains(self.version) {
            let is_null = self.random.once_in(4);
            match &field.ty {
                Type::Struct(_) => out.push(if is_null { 0xff } else { 1 }),
                ty if is_null => null(out, ty, flexible),
                _ => {}
            }
            if is_null {
                return;
            }
        }
        self.write_value(out, &field.ty, flexible);
    }

    fn write_value(&mut self, out: &mut Vec<u8>, ty: &Type, flexible: bool) {
        match ty {
            Type::Primitive(Primitive::Bool) => out.push(self.random.below(2) as u8),
            // Not any bits: there are many that are no number, and Java keeps only one of them.
            Type::Primitive(Primitive::Float64) => {
                out.extend((self.random.bits() as i64 as f64 / 1000.0).to_be_bytes());
            }
            Type::Primitive(primitive) => out.extend(self.random.bytes(primitive.bytes())),
            Type::Struct(name) => {
                let message = self.message;
                self.write_struct(out, message.find_struct(name));
            }
            ty => {
                let len = self.len(out.len() > LARGE_BYTES);
                self.write_sized(out, ty, len, flexible);
            }
        }
    }

    /// A value that begins with its length.
    fn write_sized(&mut self, out: &mut Vec<u8>, ty: &Type, len: usize, flexible: bool) {
        match ty {
            Type::String => {
                let text = self.text(len);
                length(out, ty, text.len(), flexible);
                out.extend(text.as_bytes());
            }
            Type::Bytes | Type::Records => {
                length(out, ty, len, flexible);
                out.extend(self.random.bytes(len));
            }
            Type::Array(element) => {
                let is_small = matches!(**element, Type::Primitive(_));
                let count = if is_small { len } else { len.min(3) };
                length(out, ty, count, flexible);
                (0..count).for_each(|_| self.write_value(out, element, flexible));
            }
            Type::Primitive(_) | Type::Struct(_) => unreachable!("these have no length"),
        }
    }

    /// Mostly a small length; sometimes one whose flexible form takes two bytes.
    fn len(&mut self, is_large: bool) -> usize {
        match self.random.below(32) {
            0 if !is_large => 120 + self.random.below(40),
            _ if is_large => self.random.below(2),
            _ => self.random.below(6),
        }
    }

    /// Text with characters of 1 to 4 bytes.
    fn text(&mut self, chars: usize) -> String {
        let alphabet = ['a', 'Z', '0', '-', '.', '\0', 'é', 'ß', '€', '木', '\u{ffff}', '🪵'];
        (0..chars).map(|_| alphabet[self.random.below(alphabet.len())]).collect()
    }
}

fn null(out: &mut Vec<u8>, ty: &Type, flexible: bool) {
    match ty {
        _ if flexible => out.push(0),
        Type::String => out.extend((-1i16).to_be_bytes()),
        _ => out.extend((-1i32).to_be_bytes()),
    }
}

fn length(out: &mut Vec<u8>, ty: &Type, len: usize, flexible: bool) {
    match ty {
        _ if flexible => varint(out, len + 1),
        Type::String => out.extend((len as i16).to_be_bytes()),
        _ => out.extend((len as i32).to_be_bytes()),
    }
}

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
