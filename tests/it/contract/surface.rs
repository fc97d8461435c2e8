//! A version of the contract as guests depend on it: items with names and forms, without prose.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use semver::Version;
use wit_parser::{
    Function, FunctionKind, InterfaceId, PackageId, Resolve, Stability, Type, TypeDef, TypeDefKind,
    TypeOwner, WorldItem, WorldKey,
};

pub(super) struct Surface {
    pub(super) version: Version,
    pub(super) interfaces: BTreeMap<String, Interface>,
    pub(super) worlds: BTreeMap<String, World>,
}

pub(super) struct Interface {
    pub(super) since: Option<Version>,
    pub(super) items: BTreeMap<String, Item>,
}

/// A type or a function.
pub(super) struct Item {
    /// `record`, `func` and so on.
    pub(super) kind: &'static str,
    pub(super) since: Option<Version>,
    /// What it is besides its parts, as WIT has it.
    pub(super) form: String,
    /// Fields, cases or flags with their forms, in order.
    pub(super) parts: Vec<(String, String)>,
}

pub(super) struct World {
    pub(super) since: Option<Version>,
    pub(super) imports: BTreeSet<String>,
    pub(super) exports: BTreeSet<String>,
}

impl Surface {
    /// Of the files in a folder.
    pub(super) fn of_folder(folder: &Path) -> Result<Self> {
        let mut resolve = Resolve::default();
        let (package, _) = resolve
            .push_path(folder)
            .with_context(|| format!("reading the contract in {}", folder.display()))?;
        Self::new(&resolve, package)
    }

    /// Of a text.
    pub(super) fn of_text(text: &str) -> Result<Self> {
        let mut resolve = Resolve::default();
        let package = resolve.push_str("made-up.wit", text)?;
        Self::new(&resolve, package)
    }

    fn new(resolve: &Resolve, package: PackageId) -> Result<Self> {
        let package = &resolve.packages[package];
        let version = package.name.version.clone().context("the package names no version")?;
        let interfaces = package.interfaces.iter();
        let interfaces = interfaces.map(|(name, id)| (name.clone(), interface(resolve, *id)));
        let worlds = package.worlds.iter().map(|(name, id)| {
            let world = &resolve.worlds[*id];
            let names = |items: &mut dyn Iterator<Item = (&WorldKey, &WorldItem)>| {
                items.map(|(key, _)| resolve.name_world_key(key)).map(unversioned).collect()
            };
            let imports = names(&mut world.imports.iter());
            let exports = names(&mut world.exports.iter());
            (name.clone(), World { since: since(&world.stability), imports, exports })
        });
        Ok(Self { version, interfaces: interfaces.collect(), worlds: worlds.collect() })
    }
}

/// An interface's name without the package and its version.
fn unversioned(key: String) -> String {
    let name = key.split('@').next().unwrap_or_default();
    name.rsplit('/').next().unwrap_or_default().to_owned()
}

fn since(stability: &Stability) -> Option<Version> {
    match stability {
        Stability::Stable { since, .. } => Some(since.clone()),
        _ => None,
    }
}

fn interface(resolve: &Resolve, id: InterfaceId) -> Interface {
    let of = &resolve.interfaces[id];
    let types =
        of.types.iter().map(|(name, id)| (name.clone(), named(resolve, &resolve.types[*id])));
    let functions = of.functions.iter().map(|(name, f)| (name.clone(), function(resolve, f)));
    Interface { since: since(&of.stability), items: types.chain(functions).collect() }
}

fn function(resolve: &Resolve, function: &Function) -> Item {
    let mode = match function.kind {
        FunctionKind::AsyncFreestanding => "async func",
        _ => "func",
    };
    let parameters: Vec<String> =
        function.params.iter().map(|p| format!("{}: {}", p.name, text(resolve, &p.ty))).collect();
    let result = function.result.map(|ty| format!(" -> {}", text(resolve, &ty)));
    let form = format!("{mode}({}){}", parameters.join(", "), result.unwrap_or_default());
    Item { kind: "func", since: since(&function.stability), form, parts: Vec::new() }
}

fn named(resolve: &Resolve, def: &TypeDef) -> Item {
    let mut form = String::new();
    let parts: Vec<(String, String)> = match &def.kind {
        TypeDefKind::Record(record) => {
            let fields = record.fields.iter();
            fields.map(|field| (field.name.clone(), text(resolve, &field.ty))).collect()
        }
        TypeDefKind::Variant(variant) => {
            let payload = |ty: &Type| format!("({})", text(resolve, ty));
            let form = |ty: &Option<Type>| ty.as_ref().map(payload).unwrap_or_default();
            variant.cases.iter().map(|case| (case.name.clone(), form(&case.ty))).collect()
        }
        TypeDefKind::Enum(of) => of.cases.iter().map(|c| (c.name.clone(), String::new())).collect(),
        TypeDefKind::Flags(of) => {
            of.flags.iter().map(|f| (f.name.clone(), String::new())).collect()
        }
        other => {
            form = kind_text(resolve, other);
            Vec::new()
        }
    };
    let kind = match &def.kind {
        TypeDefKind::Record(_) => "record",
        TypeDefKind::Variant(_) => "variant",
        TypeDefKind::Enum(_) => "enum",
        TypeDefKind::Flags(_) => "flags",
        _ => "type",
    };
    Item { kind, since: since(&def.stability), form, parts }
}

/// A type where it is used: by its name if it has one.
fn text(resolve: &Resolve, ty: &Type) -> String {
    match ty {
        Type::Id(id) => {
            let def = &resolve.types[*id];
            def.name.clone().unwrap_or_else(|| kind_text(resolve, &def.kind))
        }
        plain => format!("{plain:?}").to_lowercase(),
    }
}

/// A type that is written out.
fn kind_text(resolve: &Resolve, kind: &TypeDefKind) -> String {
    let text = |ty: &Type| text(resolve, ty);
    let or_nothing = |ty: &Option<Type>| ty.as_ref().map_or("_".to_owned(), text);
    match kind {
        TypeDefKind::Option(ty) => format!("option<{}>", text(ty)),
        TypeDefKind::List(ty) => format!("list<{}>", text(ty)),
        TypeDefKind::Result(of) => {
            format!("result<{}, {}>", or_nothing(&of.ok), or_nothing(&of.err))
        }
        TypeDefKind::Tuple(of) => {
            format!("tuple<{}>", of.types.iter().map(text).collect::<Vec<_>>().join(", "))
        }
        // Whose it is, when it was taken from another interface.
        TypeDefKind::Type(ty @ Type::Id(id)) => match resolve.types[*id].owner {
            TypeOwner::Interface(owner) => {
                let owner = resolve.interfaces[owner].name.as_deref().unwrap_or("?");
                format!("{owner}.{}", text(ty))
            }
            _ => text(ty),
        },
        TypeDefKind::Type(ty) => text(ty),
        // The contract has none of these.
        other => format!("{other:?}"),
    }
}
