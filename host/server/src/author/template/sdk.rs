//! Where the SDK is that a new crate depends on. It is in no registry: it is a folder of the source tree,
//! or a repository that has it.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// The SDK's folder in the source tree.
const FOLDER: &str = "guest-sdk";
/// The line of its manifest that tells it.
const NAME: &str = "name = \"pointsman-sdk\"";

/// The SDK, as a crate names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sdk {
    /// Its folder.
    Folder(PathBuf),
    /// A repository that it is in, and the revision; none is the newest.
    Repository {
        /// Its URL.
        url: String,
        /// A commit, a tag or a branch.
        revision: Option<String>,
    },
}

/// Why it isn't known.
#[derive(Debug, Error)]
pub enum SdkError {
    /// The named folder isn't it.
    #[error("{} is not the SDK's folder: there is no Cargo.toml of pointsman-sdk in it; name Pointsman's source tree, or guest-sdk in it", .0.display())]
    NoSdk(PathBuf),
    /// None was named, and it isn't where it is looked for.
    #[error(
        "the SDK is in no registry, and no source tree is here: run this in a clone of Pointsman, or name it, --sdk path/to/pointsman \
         or --sdk https://HOST/OWNER/REPOSITORY"
    )]
    NotFound,
}

impl Sdk {
    /// As somebody named it: a folder, or a repository's URL with the revision behind a `#`.
    ///
    /// # Errors
    ///
    /// The folder isn't the SDK's.
    pub fn named(text: &str) -> Result<Self, SdkError> {
        if text.contains("://") || text.starts_with("git@") {
            let (url, revision) = match text.split_once('#') {
                Some((url, revision)) => (url, Some(revision.to_owned())),
                None => (text, None),
            };
            return Ok(Self::Repository { url: url.to_owned(), revision });
        }
        in_folder(Path::new(text)).ok_or_else(|| SdkError::NoSdk(text.into()))
    }

    /// In the source tree that one of these folders is in, the first that there is.
    ///
    /// # Errors
    ///
    /// None of them is in one.
    pub fn found<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Result<Self, SdkError> {
        let all = folders.into_iter().flat_map(Path::ancestors);
        all.into_iter().find_map(in_folder).ok_or(SdkError::NotFound)
    }

    /// The dependency as a manifest has it; of a crate in this folder.
    #[must_use]
    pub(super) fn dependency(&self, of: &Path) -> String {
        let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
        match self {
            Self::Folder(folder) => {
                let path = from(of, folder).unwrap_or_else(|| folder.clone());
                format!("{{ path = {} }}", text(&path.to_string_lossy()))
            }
            Self::Repository { url, revision: None } => format!("{{ git = {} }}", text(url)),
            Self::Repository { url, revision: Some(revision) } => {
                format!("{{ git = {}, rev = {} }}", text(url), text(revision))
            }
        }
    }

    /// The versions that the SDK is built with, so that a crate has the same and compiles what is there.
    pub(super) fn lock(&self) -> Option<String> {
        let Self::Folder(folder) = self else { return None };
        std::fs::read_to_string(folder.parent()?.join("Cargo.lock")).ok()
    }
}

/// The SDK, if a folder is it or has it.
fn in_folder(folder: &Path) -> Option<Sdk> {
    let is_it = |folder: &Path| {
        std::fs::read_to_string(folder.join("Cargo.toml")).is_ok_and(|text| text.contains(NAME))
    };
    let candidates = [folder.to_owned(), folder.join(FOLDER)];
    let found = candidates.into_iter().find(|folder| is_it(folder))?;
    Some(Sdk::Folder(found.canonicalize().ok()?))
}

/// The way from a folder to another one where both are in one source tree: it holds where that tree goes.
fn from(folder: &Path, to: &Path) -> Option<PathBuf> {
    let tree = to.parent()?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new(".")).canonicalize().ok()?;
    let inside = parent.strip_prefix(tree).ok()?;
    let up = inside.components().count() + 1;
    let mut way: PathBuf = std::iter::repeat_n("..", up).collect();
    way.push(to.file_name()?);
    Some(way)
}
