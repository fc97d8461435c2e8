//! Building policies: one nested cargo call for a workspace's many, then a component of each.
//!
//! The profile, the flags and the environment are ours, so a policy crate needs no settings of its own, and the same source, toolchain and options
//! give the same bytes in any folder. Guests have a target directory of their own: natively their exports don't link, and the host's flags differ.

mod alone;
mod artifact;
mod cargo;
mod error;
mod manifest;

use std::path::{Path, PathBuf};

pub use error::BuildError;

use crate::cache;
use crate::component;
use crate::language::Language;
use crate::languages;
use crate::progress::{Progress, Step};
use crate::project::Project;
use crate::setup::Setup;
use crate::toolchain::Toolchain;
use crate::write::write_atomically;
use alone::Alone;
use cargo::Place;
use manifest::{Package, Workspace};

/// Choices of a build. The default suits a policy's author.
#[derive(Clone, Debug)]
pub struct GuestOptions {
    /// Cargo's target directory for guests. Absent: a folder under the cache folder, of this workspace, or of all crates that are workspaces of
    /// their own.
    pub target_dir: Option<PathBuf>,
    /// Where `PACKAGE.wasm` goes. Absent: `components` in the target directory.
    pub out_dir: Option<PathBuf>,
    /// Features to turn on, as cargo takes them (`name`, or `package/name` when several are built).
    pub features: Vec<String>,
    /// Whether default features are on.
    pub default_features: bool,
    /// Further flags for rustc, one argument each. Flags in cargo's configuration files are not used.
    pub rustflags: Vec<String>,
    /// Whether cargo must do without the network.
    pub offline: bool,
}

impl Default for GuestOptions {
    fn default() -> Self {
        Self {
            target_dir: None,
            out_dir: None,
            features: Vec::new(),
            default_features: true,
            rustflags: Vec::new(),
            offline: false,
        }
    }
}

/// A component, built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The package's name, which is the file's stem.
    pub package: String,
    /// The component's file.
    pub component: PathBuf,
    /// SHA-256 of the component, in hexadecimal.
    pub digest: String,
    /// The size of what the language's compiler made.
    pub core_bytes: u64,
    /// The size of the component.
    pub component_bytes: u64,
    /// Whether the file was written; false if it held these bytes already.
    pub is_new: bool,
    /// The files that it was made from, as far as they are in path dependencies: a build script's `rerun-if-changed`.
    pub inputs: Vec<PathBuf>,
}

/// Builds the policy crate in a folder.
pub fn build_policy(
    toolchain: &Toolchain,
    crate_dir: &Path,
    options: &GuestOptions,
    progress: &dyn Progress,
) -> Result<Built, BuildError> {
    let mut built = build_many(toolchain, &[crate_dir], options, progress)?;
    built.pop().ok_or_else(|| BuildError::NoManifest { crate_dir: crate_dir.into() })
}

/// Builds the policy crates in several folders, in the given order: one cargo call for each workspace that they belong to.
///
/// Cargo unites the features of what is built together, so a policy's bytes may depend on its company where their dependencies' features differ.
pub fn build_many<P: AsRef<Path>>(
    toolchain: &Toolchain,
    crate_dirs: &[P],
    options: &GuestOptions,
    progress: &dyn Progress,
) -> Result<Vec<Built>, BuildError> {
    let built = build_all(toolchain, crate_dirs, options, progress);
    progress.finish();
    built
}

/// Builds the policies in several folders, in whatever languages, in the given order. Tools are found or set up for the languages that occur.
pub fn build_folders<P: AsRef<Path>>(
    setup: &Setup,
    folders: &[P],
    options: &GuestOptions,
    progress: &dyn Progress,
) -> Result<Vec<Built>, BuildError> {
    let built = build_languages(setup, folders, options, progress);
    progress.finish();
    built
}

fn build_languages<P: AsRef<Path>>(
    setup: &Setup,
    folders: &[P],
    options: &GuestOptions,
    progress: &dyn Progress,
) -> Result<Vec<Built>, BuildError> {
    // Whatever is wrong with a manifest is told before minutes go by.
    let mut crates: Vec<&Path> = Vec::new();
    let mut projects: Vec<Option<Project>> = Vec::new();
    for folder in folders {
        let folder = folder.as_ref();
        projects.push(match Language::of(folder)? {
            Language::Rust => {
                crates.push(folder);
                None
            }
            other => Some(Project::read(folder, other)?),
        });
    }
    for project in projects.iter().flatten() {
        let same =
            projects.iter().flatten().find(|other| other.name == project.name && *other != project);
        if same.is_some() {
            return Err(BuildError::SameName { package: project.name.clone() });
        }
        check_file(&project.name, options)?;
    }
    let mut of_crates = Vec::new();
    if !crates.is_empty() {
        let toolchain = Toolchain::ensure(setup, progress)
            .map_err(|error| BuildError::Toolchain(Box::new(error)))?;
        of_crates = build_all(&toolchain, &crates, options, progress)?;
        let taken = |name: &str| of_crates.iter().any(|built| built.package == name);
        if let Some(project) = projects.iter().flatten().find(|project| taken(&project.name)) {
            return Err(BuildError::SameName { package: project.name.clone() });
        }
    }
    let mut of_crates = of_crates.into_iter();
    let mut built = Vec::new();
    for project in projects {
        match project {
            Some(project) => {
                built.push(languages::build(&project, &setup.cache_dir, options, progress)?)
            }
            None => built.extend(of_crates.next()),
        }
    }
    Ok(built)
}

fn build_all<P: AsRef<Path>>(
    toolchain: &Toolchain,
    crate_dirs: &[P],
    options: &GuestOptions,
    progress: &dyn Progress,
) -> Result<Vec<Built>, BuildError> {
    let mut workspaces: Vec<Workspace> = Vec::new();
    let mut wanted: Vec<(usize, Package)> = Vec::new();
    for crate_dir in crate_dirs {
        let manifest = manifest::find(crate_dir.as_ref())?;
        let known = workspaces
            .iter()
            .enumerate()
            .find_map(|(index, known)| Some((index, known.package(&manifest)?)));
        let (index, package) = match known {
            Some(known) => known,
            None => {
                let workspace = manifest::read(toolchain, &manifest)?;
                let package = workspace.package(&manifest).ok_or_else(|| {
                    BuildError::NoManifest { crate_dir: crate_dir.as_ref().into() }
                })?;
                workspaces.push(workspace);
                (workspaces.len() - 1, package)
            }
        };
        package.check()?;
        check_place(&package, options)?;
        if wanted.iter().any(|(_, other)| other.name == package.name && other.id != package.id) {
            return Err(BuildError::SameName { package: package.name });
        }
        wanted.push((index, package));
    }

    let mut built: Vec<Option<Built>> = vec![None; wanted.len()];
    for (index, workspace) in workspaces.iter().enumerate() {
        let of_workspace: Vec<&Package> =
            wanted.iter().filter(|(of, _)| *of == index).map(|(_, package)| package).collect();
        let own = target_dir(toolchain, workspace)?;
        let mut work = |place: Place<'_>| -> Result<(), BuildError> {
            progress.step(&Step::BuildingGuests {
                packages: of_workspace.iter().map(|package| package.name.clone()).collect(),
            });
            let artifacts =
                cargo::build(toolchain, workspace, &of_workspace, place, options, progress)?;
            let in_target = || match place {
                Place::Own(folder) => folder.join("components"),
                // Others have packages of that name.
                Place::Shared(_) => own.join("components"),
            };
            let out_dir = options.out_dir.clone().unwrap_or_else(in_target);
            let of_these = wanted.iter().zip(&mut built).filter(|((of, _), _)| *of == index);
            for ((_, package), built) in of_these {
                let module = artifact::module_of(package, &artifacts)?;
                *built = Some(encode(package, &module, &out_dir)?);
            }
            Ok(())
        };
        match (&options.target_dir, workspace.alone()) {
            (Some(chosen), _) => {
                let chosen = std::path::absolute(chosen).map_err(BuildError::io("find", chosen))?;
                work(Place::Own(&chosen))?;
            }
            (None, Some(package)) => {
                let alone = Alone::under(&targets(toolchain)?);
                let shared = || work(Place::Shared(alone.folder()));
                alone.in_turn(&package.name, &workspace.root, progress, shared)?;
            }
            (None, None) => work(Place::Own(&own))?,
        }
    }
    Ok(built.into_iter().flatten().collect())
}

/// Refuses what the component can't take the place of, before it is built.
fn check_place(package: &Package, options: &GuestOptions) -> Result<(), BuildError> {
    check_file(&package.name, options)
}

fn check_file(name: &str, options: &GuestOptions) -> Result<(), BuildError> {
    let Some(out_dir) = &options.out_dir else { return Ok(()) };
    let component = out_dir.join(format!("{name}.wasm"));
    if component.is_dir() { Err(BuildError::FolderInTheWay { component }) } else { Ok(()) }
}

/// Makes the component's file of the module's.
fn encode(package: &Package, module: &Path, out_dir: &Path) -> Result<Built, BuildError> {
    let core = std::fs::read(module).map_err(BuildError::io("read", module))?;
    let bytes = component::componentize(&core).map_err(|source| BuildError::Component {
        package: package.name.clone(),
        module: module.into(),
        source,
    })?;
    let path = out_dir.join(format!("{}.wasm", package.name));
    let is_new = write_atomically(&path, &bytes).map_err(BuildError::io("write", &path))?;
    Ok(Built {
        package: package.name.clone(),
        component: path,
        digest: component::digest(&bytes),
        core_bytes: core.len() as u64,
        component_bytes: bytes.len() as u64,
        is_new,
        inputs: artifact::inputs(package, module),
    })
}

/// The folder of target directories.
fn targets(toolchain: &Toolchain) -> Result<PathBuf, BuildError> {
    let folder = toolchain.cache_dir().join("guest-target");
    cache::private_folder(&folder)?;
    Ok(folder)
}

/// A target directory that no other workspace has, since packages of the same name would meet there.
fn target_dir(toolchain: &Toolchain, workspace: &Workspace) -> Result<PathBuf, BuildError> {
    let name = workspace.root.file_name().unwrap_or_default().to_string_lossy();
    let key = component::digest(workspace.root.as_os_str().as_encoded_bytes());
    Ok(targets(toolchain)?.join(format!("{name}-{}", &key[..16])))
}
