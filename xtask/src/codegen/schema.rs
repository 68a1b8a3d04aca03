//! The definitions made ready for generating code: names in Rust's style, types resolved, versions cut to the valid ones.

use anyhow::{Context, bail, ensure};

use super::definition::{Definition, FieldDefinition, Kind};
use super::jar::Artifact;
use super::names::{field_name, module_name};
use super::types::{Default, Type};
use super::versions::{Guard, Versions};

/// One message that has valid versions.
#[derive(Debug)]
pub struct Message {
    pub name: String,
    /// The module that the message and its structs are generated into.
    pub module: String,
    pub kind: Kind,
    /// The jar that defines it.
    pub artifact: Artifact,
    pub api_key: Option<i16>,
    pub listeners: Vec<String>,
    pub latest_version_unstable: bool,
    pub versions: Versions,
    pub flexible: Versions,
    /// The message itself first, then its structs in the order of their first use.
    pub structs: Vec<Struct>,
}

/// One struct of a message, or the message itself.
#[derive(Debug)]
pub struct Struct {
    pub name: String,
    /// The versions at which it can occur.
    pub versions: Versions,
    /// Those of them that are flexible.
    pub flexible: Versions,
    /// The fields that some valid version has, in the order of the wire.
    pub fields: Vec<Field>,
}

/// One field of a struct.
#[derive(Debug)]
pub struct Field {
    pub name: String,
    pub ty: Type,
    pub versions: Versions,
    pub nullable: Versions,
    /// The tag, if the field is a tagged one.
    pub tag: Option<u32>,
    /// Whether its lengths keep the old form even at flexible versions: one field in the protocol does.
    pub fixed_lengths: bool,
    pub default: Default,
    pub ignorable: bool,
}

impl Message {
    /// Resolves a definition; `None` if it has no valid version.
    pub fn resolve(artifact: Artifact, definition: &Definition) -> anyhow::Result<Option<Message>> {
        let versions = definition.valid_versions;
        if versions.is_empty() {
            return Ok(None);
        }
        let mut resolver = Resolver { definition, structs: Vec::new() };
        resolver
            .resolve_struct(&definition.name, versions, &definition.fields)
            .with_context(|| format!("resolving {}", definition.name))?;
        if definition.kind == Kind::CoordinatorKey {
            ensure!(definition.api_key.is_some(), "{} has no record type", definition.name);
        }
        Ok(Some(Message {
            name: definition.name.clone(),
            module: module_name(&definition.name),
            kind: definition.kind,
            artifact,
            api_key: definition.api_key,
            listeners: definition.listeners.clone(),
            latest_version_unstable: definition.latest_version_unstable,
            versions,
            flexible: definition.flexible_versions.intersect(versions),
            structs: resolver.structs,
        }))
    }

    /// The fields whose type is that struct or an array of it, each with the struct that holds it.
    pub fn uses_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Struct, &'a Field)> {
        let fields =
            self.structs.iter().flat_map(|of| of.fields.iter().map(move |field| (of, field)));
        fields.filter(move |(_, field)| field.ty.struct_name() == Some(name))
    }

    /// The struct of that name.
    pub fn find_struct(&self, name: &str) -> &Struct {
        let found = self.structs.iter().find(|candidate| candidate.name == name);
        found.expect("resolving adds every struct that a type names")
    }
}

impl Struct {
    /// An expression for whether the struct is in its flexible form: the variable `flexible` if that depends on the
    /// version.
    pub fn flexible_expression(&self) -> &'static str {
        match self.flexible.guard(self.versions) {
            Guard::Always => "true",
            Guard::Never => "false",
            _ => "flexible",
        }
    }

    /// The tagged fields, by tag.
    pub fn tagged_fields(&self) -> Vec<&Field> {
        let mut fields: Vec<_> = self.fields.iter().filter(|field| field.tag.is_some()).collect();
        fields.sort_by_key(|field| field.tag);
        fields
    }
}

impl Field {
    /// Whether the field is an `Option`.
    pub fn is_nullable(&self) -> bool {
        !self.nullable.is_empty()
    }

    /// An expression for whether the field's lengths have the flexible form.
    pub fn flexible_expression(&self, of: &Struct) -> &'static str {
        match self.tag {
            Some(_) => "true",
            None if self.fixed_lengths => "false",
            None => of.flexible_expression(),
        }
    }
}

struct Resolver<'a> {
    definition: &'a Definition,
    structs: Vec<Struct>,
}

impl Resolver<'_> {
    fn resolve_struct(
        &mut self,
        name: &str,
        versions: Versions,
        fields: &[FieldDefinition],
    ) -> anyhow::Result<()> {
        let flexible = self.definition.flexible_versions.intersect(versions);
        let mut resolved = Struct {
            name: name.to_owned(),
            versions,
            flexible,
            fields: Vec::with_capacity(fields.len()),
        };
        for field in fields {
            let context = || format!("field {name}.{}", field.name);
            let present = field.versions.intersect(versions);
            if !present.is_empty() {
                let field = resolve_field(field, present).with_context(context)?;
                resolved.fields.push(field);
            }
        }
        self.structs.push(resolved);
        for field in fields {
            self.resolve_struct_of(field, field.versions.intersect(versions))?;
        }
        Ok(())
    }

    /// Resolves the struct that the field's type names, if it names one that is not resolved yet.
    fn resolve_struct_of(
        &mut self,
        field: &FieldDefinition,
        versions: Versions,
    ) -> anyhow::Result<()> {
        let ty = Type::parse(&field.type_name)?;
        let Some(name) = ty.struct_name().filter(|_| !versions.is_empty()) else { return Ok(()) };
        let is_known = self.structs.iter().any(|known| known.name == name);
        if !field.fields.is_empty() {
            ensure!(!is_known, "struct {name} is defined twice");
            return self.resolve_struct(name, versions, &field.fields);
        }
        if is_known {
            return Ok(());
        }
        let definition = self.definition;
        let Some(common) = definition.common_structs.iter().find(|common| common.name == name)
        else {
            bail!("struct {name} is not defined");
        };
        self.resolve_struct(
            name,
            common.versions.intersect(definition.valid_versions),
            &common.fields,
        )
    }
}

fn resolve_field(field: &FieldDefinition, versions: Versions) -> anyhow::Result<Field> {
    let ty = Type::parse(&field.type_name)?;
    let nullable = field.nullable_versions.intersect(versions);
    if let Some(tag) = field.tag {
        let tagged = field.tagged_versions.intersect(versions);
        ensure!(tagged == versions, "tag {tag} does not cover the field's versions");
        ensure!(ty != Type::Records, "tagged records would make the encoder's holes move");
    }
    let is_primitive = matches!(ty, Type::Primitive(_));
    ensure!(nullable.is_empty() || !is_primitive, "a null of type {}", field.type_name);
    let fixed_lengths = match field.flexible_versions {
        None => false,
        Some(Versions::NONE) => true,
        Some(other) => bail!("flexibleVersions {other} of a field"),
    };
    Ok(Field {
        name: field_name(&field.name),
        default: ty.default(field.default.as_ref(), !nullable.is_empty())?,
        ty,
        versions,
        nullable,
        tag: field.tag,
        fixed_lengths,
        ignorable: field.ignorable,
    })
}
