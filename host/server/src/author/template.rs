//! A first policy: a crate or project that builds, passes its own tests and keeps to the contract as it stands, to be
//! changed from there.
//!
//! Owns what is written, and refuses what can't be: a name that is none, a folder that is there. Templates
//! stand in `templates/`, a folder for each language; a further language is a variant of [`Origin`] with
//! files of its own.

mod javascript;
mod name;
mod outline;
mod python;
mod rust;
mod sdk;

use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use thiserror::Error;

pub use name::NameError;
pub use sdk::{Sdk, SdkError};

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TemplateStage {
    /// Takes rows out
    Filter,
    /// Gives rows costs
    Scorer,
    /// Chooses a row
    Picker,
    /// All three
    Policy,
    /// Admits requests, holds or refuses them
    Classifier,
}

impl TemplateStage {
    /// All that there are.
    pub const ALL: [Self; 5] =
        [Self::Filter, Self::Scorer, Self::Picker, Self::Policy, Self::Classifier];

    /// The contract's interface that such a policy exports.
    fn interface(self) -> &'static str {
        match self {
            Self::Classifier => "request-classifier",
            Self::Filter | Self::Scorer | Self::Picker | Self::Policy => "worker-selection",
        }
    }
}

/// What a project is made from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A crate, and where the SDK is.
    Rust(Sdk),
    /// A Python project: the contract is all that it takes.
    Python,
    /// A JavaScript package, from the same.
    JavaScript,
}

/// What somebody wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The policy's name, which is its type in the YAML.
    pub name: String,
    /// What it is to be.
    pub stage: TemplateStage,
    /// What it is to be written in, and from.
    pub origin: Origin,
    /// The folder to make.
    pub folder: PathBuf,
}

/// Why nothing was made.
#[derive(Debug, Error)]
pub enum TemplateError {
    /// The name is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Something is there.
    #[error("{} exists already; take another name, or another folder with --path", .0.display())]
    Exists(PathBuf),
    /// A file can't be written.
    #[error("can't make {}: {error}; name a folder that you may write with --path", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// A file of a project: where it goes, and what is in it.
pub(crate) type ProjectFile = (&'static str, String);

/// Makes the folder with all that is in it, and tells what that is.
///
/// # Errors
///
/// The name is none, the folder is there, or it can't be written. Nothing is left behind then.
pub fn make(wanted: &Wanted) -> Result<Vec<PathBuf>, TemplateError> {
    name::check(&wanted.name)?;
    let outline = outline::of(wanted.stage);
    let files = match &wanted.origin {
        Origin::Rust(sdk) => rust::files(wanted, &outline, sdk),
        Origin::Python => python::files(wanted, &outline),
        Origin::JavaScript => javascript::files(wanted, &outline),
    };
    let folder = &wanted.folder;
    let failed = |error| TemplateError::Write { path: folder.clone(), error };
    if let Some(parent) = folder.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    // Whoever else makes it meanwhile has it.
    std::fs::create_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => TemplateError::Exists(folder.clone()),
        _ => failed(error),
    })?;
    write(folder, &files).map_err(|error| {
        // What was begun is of no use; if it can't be removed, it stays.
        drop(std::fs::remove_dir_all(folder));
        failed(error)
    })?;
    Ok(files.iter().map(|(path, _)| folder.join(path)).collect())
}

fn write(folder: &Path, files: &[ProjectFile]) -> io::Result<()> {
    for (path, text) in files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
