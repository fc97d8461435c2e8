//! What a file is, before anything is compiled: a component or not, and what it asks for and gives.

use std::collections::BTreeSet;
use std::path::Path;

use semver::Version;
use wasmparser::{ComponentInstance, Encoding, FunctionBody, Operator, Parser, Payload};

use super::versions::{self, Contract, Misfit};
use crate::error::LoadError;
use crate::text::bounded;

/// The contract's package.
const PACKAGE: &str = "pointsman:policy/";
/// What a policy exports: this, to select workers,
const SELECTION: &str = "pointsman:policy/worker-selection";
/// or this, to classify requests, or both.
const CLASSIFIER: &str = "pointsman:policy/request-classifier";
/// What a policy may import, in words.
const MAY_IMPORT: &str = "pointsman:policy/log (and wasi, of which it gets an empty one)";

/// A component's outside.
pub(super) struct Shape<'a> {
    /// The interfaces that it imports, sorted.
    pub(super) imports: Vec<String>,
    /// The interfaces that it exports, sorted.
    pub(super) exports: Vec<String>,
    /// The version of the contract that speaks with it.
    pub(super) contract: &'a Contract,
    /// The version that it was built for.
    pub(super) built_for: Version,
}

/// Reads the outside of a component, and refuses what can't be a policy of one of the `taken`
/// versions.
pub(super) fn read<'a>(
    taken: &'a [Contract],
    path: &Path,
    bytes: &[u8],
) -> Result<Shape<'a>, LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty { path: path.to_owned() });
    }
    if !bytes.starts_with(b"\0asm") {
        let text = bytes.trim_ascii_start();
        let path = path.to_owned();
        return Err(if text.starts_with(b"(") || text.starts_with(b";;") {
            LoadError::Text { path }
        } else {
            LoadError::NotWasm { path }
        });
    }
    let (mut imports, mut exports) = names(path, bytes)?;
    imports.sort();
    for import in &imports {
        check_import(taken, path, import)?;
    }
    let (contract, built_for) = check_exports(taken, path, &exports)?;
    exports.sort();
    Ok(Shape { imports, exports, contract, built_for })
}

/// The names of what the outermost component imports and exports.
fn names(path: &Path, bytes: &[u8]) -> Result<(Vec<String>, Vec<String>), LoadError> {
    let malformed = |error: wasmparser::BinaryReaderError| LoadError::Malformed {
        path: path.to_owned(),
        reason: format!("{} (at byte {})", bounded(error.message(), 300), error.offset()),
    };
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    let mut depth = 0_u32;
    let mut size = Intricacy::new(path);
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(malformed)?;
        size.add(&payload)?;
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err(LoadError::CoreModule { path: path.to_owned() });
            }
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    imports.push(import.map_err(malformed)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    exports.push(export.map_err(malformed)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok((imports, exports))
}

/// What compiling a component will cost, as far as its outside tells. A few kilobytes can ask for
/// hours: components that each instantiate the one before twice, or a body that takes the
/// register allocator for ever.
struct Intricacy<'a> {
    path: &'a Path,
    /// Of each component or module that is open, the components that it instantiates.
    open: Vec<u64>,
    /// At most so many instances, once all are laid flat.
    instances: u64,
    functions: u64,
}

impl<'a> Intricacy<'a> {
    /// Instances of components, laid flat. What toolchains make has a few dozen.
    const MOST_INSTANCES: u64 = 4_096;
    /// Functions. An interpreter has some ten thousand.
    const MOST_FUNCTIONS: u64 = 100_000;
    /// Bytes of one function's body. An interpreter's main loop has a few hundred thousand.
    const MOST_BODY: u64 = 1 << 20;
    /// Blocks within blocks. What compilers make of a large switch has some hundreds.
    const MOST_DEPTH: u64 = 2_000;
    /// Values that may have to be told apart at the joins of one function: joins times the locals
    /// that are written. The compiler's memory grows with them, by 800 bytes or so for each, and
    /// its time faster than they do. The most entangled function of CPython has 184,000.
    const MOST_JOINED: u64 = 1_000_000;

    fn new(path: &'a Path) -> Self {
        Self { path, open: Vec::new(), instances: 1, functions: 0 }
    }

    fn add(&mut self, payload: &Payload<'_>) -> Result<(), LoadError> {
        match payload {
            Payload::Version { .. } => self.open.push(0),
            Payload::End(_) => {
                let made = self.open.pop().unwrap_or(0).max(1);
                self.instances = self.instances.saturating_mul(made);
            }
            Payload::ComponentInstanceSection(section) => {
                let instances = section.clone().into_iter().flatten();
                let made = instances.filter(|i| matches!(i, ComponentInstance::Instantiate { .. }));
                if let Some(open) = self.open.last_mut() {
                    *open = open.saturating_add(made.count() as u64);
                }
            }
            Payload::FunctionSection(section) => self.functions += u64::from(section.count()),
            Payload::CodeSectionEntry(body) => {
                let bytes = body.range().len() as u64;
                self.check("bytes in one function", bytes, Self::MOST_BODY)?;
                let weave = Weave::of(body);
                self.check("blocks within blocks", weave.depth, Self::MOST_DEPTH)?;
                let joined = weave.joins.saturating_mul(weave.written);
                self.check("values to join in one function", joined, Self::MOST_JOINED)?;
            }
            _ => {}
        }
        self.check("instances of components", self.instances, Self::MOST_INSTANCES)?;
        self.check("functions", self.functions, Self::MOST_FUNCTIONS)
    }

    fn check(&self, what: &'static str, found: u64, most: u64) -> Result<(), LoadError> {
        if found <= most {
            return Ok(());
        }
        Err(LoadError::TooIntricate { path: self.path.to_owned(), what, found, most })
    }
}

/// How entangled one function's control and its locals are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weave {
    /// Blocks that control can come together at, and the branches to them.
    joins: u64,
    /// Locals that are written at all.
    written: u64,
    /// The deepest nesting.
    depth: u64,
}

impl Weave {
    /// Of a body; what can't be read counts for nothing, and is refused when it is compiled.
    fn of(body: &FunctionBody<'_>) -> Self {
        let mut weave = Self::default();
        let Ok(mut operators) = body.get_operators_reader() else { return weave };
        let (mut depth, mut written) = (0_u64, BTreeSet::new());
        while let Ok(operator) = operators.read() {
            match operator {
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                    weave.joins += 1;
                    depth += 1;
                    weave.depth = weave.depth.max(depth);
                }
                Operator::End => depth = depth.saturating_sub(1),
                Operator::Br { .. } | Operator::BrIf { .. } => weave.joins += 1,
                Operator::BrTable { targets } => weave.joins += u64::from(targets.len()) + 1,
                Operator::LocalSet { local_index } | Operator::LocalTee { local_index } => {
                    written.insert(local_index);
                }
                _ => {}
            }
        }
        weave.written = written.len() as u64;
        weave
    }
}

fn check_import(taken: &[Contract], path: &Path, import: &str) -> Result<(), LoadError> {
    if import.starts_with("wasi:") {
        return Ok(());
    }
    let refused = || {
        let found = bounded(import, 200);
        LoadError::Import { path: path.to_owned(), found, wanted: MAY_IMPORT }
    };
    let of_contract = import.strip_prefix(PACKAGE).ok_or_else(refused)?;
    // A newer contract may have more to import: that it is newer is what there is to say.
    versions::of(taken, import).map_err(misfit(path))?;
    match of_contract.split_once('@') {
        Some(("log" | "types", _)) => Ok(()),
        _ => Err(refused()),
    }
}

fn check_exports<'a>(
    taken: &'a [Contract],
    path: &Path,
    exports: &[String],
) -> Result<(&'a Contract, Version), LoadError> {
    let ours = exports.iter().map(String::as_str).filter(|export| export.starts_with(PACKAGE));
    let contract = versions::of_all(taken, ours).map_err(misfit(path))?;
    let does_something =
        |export: &String| matches!(export.split('@').next(), Some(SELECTION | CLASSIFIER));
    if let Some(contract) = contract.filter(|_| exports.iter().any(does_something)) {
        return Ok(contract);
    }
    let found = match exports {
        [] => "nothing".to_owned(),
        some => {
            let quoted = some.iter().take(8).map(|name| format!("{:?}", bounded(name, 100)));
            quoted.collect::<Vec<_>>().join(", ")
        }
    };
    let newest = taken.last().map(Contract::version).map(|v| format!("@{v}")).unwrap_or_default();
    let wanted = format!("\"{SELECTION}{newest}\"");
    Err(LoadError::MissingExport { path: path.to_owned(), found, wanted })
}

fn misfit(path: &Path) -> impl FnOnce(Misfit) -> LoadError {
    let path = path.to_owned();
    |reason| LoadError::Version { path, reason }
}

#[cfg(test)]
mod tests {
    use super::super::versions::TAKEN;
    use super::*;

    /// A component with `levels` components in it, each of which instantiates the one before twice.
    fn doubling(levels: usize) -> Vec<u8> {
        let mut text = "(component $c0)".to_owned();
        for level in 1..=levels {
            let before = level - 1;
            text += &format!(
                "(component $c{level} (alias outer $root $c{before} (component $c)) \
                 (instance (instantiate $c)) (instance (instantiate $c)))"
            );
        }
        text += &format!("(instance (instantiate $c{levels}))");
        wat::parse_str(format!("(component $root {text})")).expect("the text is a component")
    }

    #[test]
    fn what_would_compile_for_ever_is_refused_before() {
        let refused =
            read(&TAKEN, Path::new("bomb.wasm"), &doubling(26)).err().expect("it is a bomb");
        assert!(matches!(refused, LoadError::TooIntricate { .. }), "{refused}");
        let small =
            read(&TAKEN, Path::new("small.wasm"), &doubling(3)).err().expect("it is no policy");
        assert!(matches!(small, LoadError::MissingExport { .. }), "{small}");

        let body = "(drop (i32.const 1))".repeat(400_000);
        let module = format!("(core module (func {body}))");
        let long = wat::parse_str(format!("(component {module})")).expect("it is a component");
        let refused =
            read(&TAKEN, Path::new("long.wasm"), &long).err().expect("its function is too long");
        assert!(matches!(refused, LoadError::TooIntricate { .. }), "{refused}");
    }

    /// A function with so many loops in one another and so many locals that all are written.
    fn woven(loops: usize, locals: usize) -> Vec<u8> {
        let writes: String =
            (0..locals).map(|at| format!("(local.set {at} (i32.const 1))")).collect();
        let function = format!(
            "(func (local {}) {} {writes} {})",
            "i32 ".repeat(locals),
            "(loop ".repeat(loops),
            "(br_if 0 (local.get 0)))".repeat(loops),
        );
        wat::parse_str(format!("(component (core module {function}))")).expect("it is a component")
    }

    #[test]
    fn control_and_locals_may_not_be_too_entangled() {
        for (loops, locals) in [(2_001, 1), (1_000, 2_000), (100, 20_000), (20, 30_000)] {
            let refused =
                read(&TAKEN, Path::new("woven.wasm"), &woven(loops, locals)).err().expect("a bomb");
            assert!(
                matches!(refused, LoadError::TooIntricate { .. }),
                "{loops} {locals}: {refused}"
            );
        }
        // Three times as much as an interpreter's largest function.
        let small =
            read(&TAKEN, Path::new("large.wasm"), &woven(500, 500)).err().expect("it is no policy");
        assert!(matches!(small, LoadError::MissingExport { .. }), "{small}");
    }
}
