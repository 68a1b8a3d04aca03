//! The messages and enums of a `FileDescriptorSet`, by name.
//!
//! Names are a tree: packages, and what is within them. No full name is made: a few KB of files with one long name around many
//! others would become hundreds of MB. What files describe is looked at where it is; nothing of it is copied.

use std::collections::HashMap;

use super::decode::Wire;
use crate::read::value::Misfit;
use crate::read::value::bytes::{Bytes, text};

/// Packages, messages and enums that files may have.
const NAMES_MAX: usize = 16_384;

/// A message or an enum, encoded as its file has it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Described<'a> {
    Message {
        encoded: &'a [u8],
        /// Whether a field that is not set looks like one with the default value.
        is_proto3: bool,
        /// Whether it is the entry of a map.
        is_entry: bool,
    },
    Enum(&'a [u8]),
}

/// A package, a message or an enum, by its place in [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NameNumber(usize);

/// What files have.
pub(super) struct Names<'a> {
    /// What each name is; nothing where it is a package.
    described: Vec<Option<Described<'a>>>,
    within: HashMap<(NameNumber, &'a str), NameNumber>,
}

const ROOT: NameNumber = NameNumber(0);

/// The numbers of fields in `descriptor.proto`.
mod tag {
    pub(super) const SET_FILE: u32 = 1;
    pub(super) const FILE_PACKAGE: u32 = 2;
    pub(super) const FILE_MESSAGE: u32 = 4;
    pub(super) const FILE_ENUM: u32 = 5;
    pub(super) const FILE_SYNTAX: u32 = 12;
    pub(super) const NAME: u32 = 1;
    pub(super) const MESSAGE_NESTED: u32 = 3;
    pub(super) const MESSAGE_ENUM: u32 = 4;
    pub(super) const MESSAGE_OPTIONS: u32 = 7;
    pub(super) const OPTIONS_MAP_ENTRY: u32 = 7;
}

/// A message whose place is known, but not yet what is within it.
struct Unread<'a> {
    scope: NameNumber,
    encoded: &'a [u8],
    is_proto3: bool,
}

impl<'a> Names<'a> {
    /// Those of an encoded `FileDescriptorSet`; fails with what is wrong with it.
    pub(super) fn of(files: &'a [u8]) -> Result<Names<'a>, String> {
        let mut names = Names { described: vec![None], within: HashMap::new() };
        for file in counted(files, tag::SET_FILE) {
            names.add_file(file?)?;
        }
        Ok(names)
    }

    /// The message or enum of a full name, which begins with a dot.
    pub(super) fn find(&self, full: &str) -> Option<(NameNumber, Described<'a>)> {
        let mut at = ROOT;
        for name in full.strip_prefix('.')?.split('.') {
            at = *self.within.get(&(at, name))?;
        }
        let described = self.described.get(at.0).copied().flatten();
        Some((at, described?))
    }

    fn add_file(&mut self, file: &'a [u8]) -> Result<(), String> {
        let is_proto3 = last(file, tag::FILE_SYNTAX)? == "proto3";
        let mut package = ROOT;
        let name = last(file, tag::FILE_PACKAGE)?;
        for name in name.split('.').filter(|name| !name.is_empty()) {
            package = self.named(package, name)?;
        }
        for it in counted(file, tag::FILE_ENUM) {
            self.add_enum(package, it?)?;
        }
        // A list of what is left rather than recursion: messages may be as deep as their bytes allow.
        let mut unread = Vec::new();
        for encoded in counted(file, tag::FILE_MESSAGE) {
            unread.push(Unread { scope: package, encoded: encoded?, is_proto3 });
            while let Some(message) = unread.pop() {
                self.add_message(message, &mut unread)?;
            }
        }
        Ok(())
    }

    fn add_message(
        &mut self,
        message: Unread<'a>,
        unread: &mut Vec<Unread<'a>>,
    ) -> Result<(), String> {
        let Unread { scope, encoded, is_proto3 } = message;
        let mut is_entry = false;
        for options in counted(encoded, tag::MESSAGE_OPTIONS) {
            for option in fields(options?) {
                if let (tag::OPTIONS_MAP_ENTRY, Wire::Varint(value)) = option? {
                    is_entry = value != 0;
                }
            }
        }
        let number = self.named(scope, last(encoded, tag::NAME)?)?;
        self.describe(number, Described::Message { encoded, is_proto3, is_entry })?;
        for it in counted(encoded, tag::MESSAGE_ENUM) {
            self.add_enum(number, it?)?;
        }
        for it in counted(encoded, tag::MESSAGE_NESTED) {
            unread.push(Unread { scope: number, encoded: it?, is_proto3 });
        }
        Ok(())
    }

    fn add_enum(&mut self, scope: NameNumber, encoded: &'a [u8]) -> Result<(), String> {
        let number = self.named(scope, last(encoded, tag::NAME)?)?;
        self.describe(number, Described::Enum(encoded))
    }

    fn describe(&mut self, number: NameNumber, described: Described<'a>) -> Result<(), String> {
        match self.described.get_mut(number.0) {
            Some(place @ None) => *place = Some(described),
            _ => return Err("files have two messages or enums of one name".to_owned()),
        }
        Ok(())
    }

    /// The place of a name within another one.
    fn named(&mut self, scope: NameNumber, name: &'a str) -> Result<NameNumber, String> {
        if let Some(number) = self.within.get(&(scope, name)) {
            return Ok(*number);
        }
        if self.described.len() > NAMES_MAX {
            return Err(format!("files have {NAMES_MAX} packages, messages and enums at most"));
        }
        let number = NameNumber(self.described.len());
        self.described.push(None);
        self.within.insert((scope, name), number);
        Ok(number)
    }
}

/// The fields of an encoded message, but for groups. Behind an error there is nothing.
pub(super) fn fields(encoded: &[u8]) -> impl Iterator<Item = Result<(u32, Wire<'_>), String>> {
    let mut bytes = Bytes(encoded);
    std::iter::from_fn(move || {
        while !bytes.0.is_empty() {
            match bytes.field() {
                Ok((tag, Some(wire))) => return Some(Ok((tag, wire))),
                Ok((_, None)) => {}
                Err(misfit) => {
                    bytes.0 = &[];
                    return Some(Err(malformed(&misfit)));
                }
            }
        }
        None
    })
}

/// The messages and texts of one field of an encoded message.
pub(super) fn counted(encoded: &[u8], tag: u32) -> impl Iterator<Item = Result<&[u8], String>> {
    fields(encoded).filter_map(move |field| match field {
        Ok((it, Wire::Counted(bytes))) if it == tag => Some(Ok(bytes)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

/// The text that an encoded message has under a tag. If it has several, the last one counts.
fn last(encoded: &[u8], tag: u32) -> Result<&str, String> {
    let mut found = "";
    for bytes in counted(encoded, tag) {
        found = name_in(bytes?)?;
    }
    Ok(found)
}

pub(super) fn name_in(bytes: &[u8]) -> Result<&str, String> {
    text(bytes).map_err(|misfit| malformed(&misfit))
}

fn malformed(misfit: &Misfit) -> String {
    format!("files is no FileDescriptorSet: {misfit}")
}
