//! What a check found, and how it is told.

use std::fmt;
use std::path::{Path, PathBuf};

use pointsman_core::ids::Role;
use pointsman_core::policy::selection::{Recipe, Rollout, StageUse};
use pointsman_core::policy::{Digest, InstanceSpec, OnFailure, SelectionSpec};
use serde::Serialize;

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The file.
    pub file: PathBuf,
    /// What keeps the router from serving as the file says, each behind its place where it has one,
    /// in the order of the file; at most fifty.
    pub problems: Vec<String>,
    /// How many problems there are beside them.
    pub more_problems: usize,
    /// What is likely not meant, in the same order; at most fifty.
    pub warnings: Vec<String>,
    /// How many warnings there are beside them.
    pub more_warnings: usize,
    /// The components in the folder.
    pub types: Vec<TypeLine>,
    /// The instances; none unless all could be made.
    pub instances: Vec<InstanceLine>,
    /// The partitions of the file's workers.
    pub partitions: Vec<PartitionLine>,
}

/// A component.
#[derive(Clone, Debug, Serialize)]
pub struct TypeLine {
    /// Its type: the file's stem.
    #[serde(rename = "type")]
    pub policy_type: String,
    /// Its identity; none when it could not be read, or was refused unread.
    pub digest: Option<Digest>,
    /// In bytes.
    pub size: Option<u64>,
    /// The interfaces that it imports.
    pub imports: Vec<String>,
    /// The instances that use it.
    pub used_by: Vec<String>,
}

/// An instance.
#[derive(Clone, Debug, Serialize)]
pub struct InstanceLine {
    /// Its name.
    pub name: String,
    /// What it is made of, in words.
    pub made_of: String,
    /// The roles that it decides for.
    pub roles: Vec<Role>,
    /// The instances that show it what they decided.
    pub shadow_of: Vec<String>,
    /// The instances that let it make a share of their decisions.
    pub canary_of: Vec<String>,
    /// What becomes of a decision that it fails.
    pub on_failure: OnFailure,
}

/// A partition.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionLine {
    /// Model, routing group and role.
    pub partition: String,
    /// The instance that decides for it.
    pub instance: String,
    /// How many of the file's workers are in it.
    pub workers: usize,
    /// How many ranks those have.
    pub rows: usize,
    /// Tokens in one block there.
    pub block_size: u32,
}

impl Report {
    pub(super) fn of(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            problems: Vec::new(),
            more_problems: 0,
            warnings: Vec::new(),
            more_warnings: 0,
            types: Vec::new(),
            instances: Vec::new(),
            partitions: Vec::new(),
        }
    }

    /// Whether the router would serve as the file says.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }
}

impl InstanceLine {
    pub(super) fn of(spec: &InstanceSpec, selection: &SelectionSpec) -> Self {
        let made_of = match &spec.recipe {
            Recipe::Whole(whole) => whole.policy_type.to_string(),
            Recipe::Composed { filters, scorers, picker } => {
                let parts = [
                    part("filters", filters),
                    part("scorers", scorers),
                    part("picker", picker.as_slice()),
                ];
                parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
            }
        };
        let serves = |role: &Role| selection.instance_name(*role) == &*spec.name;
        let shows = |rollout: &Rollout| rollout.shadows.iter().any(|s| s.instance == spec.name);
        let tries = |rollout: &Rollout| rollout.canary.iter().any(|c| c.instance == spec.name);
        Self {
            name: spec.name.to_string(),
            made_of,
            roles: Role::ALL.into_iter().filter(serves).collect(),
            shadow_of: followed(selection, shows),
            canary_of: followed(selection, tries),
            on_failure: spec.on_failure,
        }
    }

    /// What it is there for, in words.
    fn purpose(&self) -> String {
        let roles: Vec<_> = self.roles.iter().map(|role| role.as_str()).collect();
        let parts = [
            ("for", roles.join(", ")),
            ("shadow of", self.shadow_of.join(", ")),
            ("canary of", self.canary_of.join(", ")),
        ];
        let parts = parts.iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<_> = parts.map(|(what, names)| format!("{what} {names}")).collect();
        if parts.is_empty() { "for no role".to_owned() } else { parts.join("; ") }
    }
}

/// The instances that another one comes after in such a way.
fn followed(selection: &SelectionSpec, by: impl Fn(&Rollout) -> bool) -> Vec<String> {
    let followed = selection.instances.iter().filter(|spec| by(&spec.rollout));
    followed.map(|spec| spec.name.to_string()).collect()
}

/// The types of a composed policy's stages of one kind, in words.
fn part(kind: &str, stages: &[StageUse]) -> Option<String> {
    let types: Vec<_> = stages.iter().map(|stage| &*stage.source.policy_type).collect();
    (!types.is_empty()).then(|| format!("{kind} {}", types.join(" + ")))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        if self.more_problems > 0 {
            writeln!(f, "and {}", counted(self.more_problems, "more problem"))?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        if self.more_warnings > 0 {
            writeln!(f, "and {}", counted(self.more_warnings, "more warning"))?;
        }
        section(
            f,
            "components",
            self.types.iter().map(|line| {
                let digest = match &line.digest {
                    Some(digest) => format!("sha256 {}", digest.short()),
                    None => "not read".to_owned(),
                };
                let size = line.size.map_or_else(String::new, |size| format!("{size} bytes"));
                let users = match line.used_by.as_slice() {
                    [] => "not used".to_owned(),
                    users => format!("used by {}", users.join(", ")),
                };
                [line.policy_type.clone(), digest, size, users]
            }),
        )?;
        section(
            f,
            "instances",
            self.instances.iter().map(|line| {
                [line.name.clone(), line.made_of.clone(), line.purpose(), String::new()]
            }),
        )?;
        section(
            f,
            "partitions",
            self.partitions.iter().map(|line| {
                [
                    line.partition.clone(),
                    format!("{}, {}", counted(line.workers, "worker"), counted(line.rows, "row")),
                    format!("blocks of {} tokens", line.block_size),
                    format!("decided by {}", line.instance),
                ]
            }),
        )?;
        let verdict = match self.problems.len() + self.more_problems {
            0 => "good".to_owned(),
            problems => counted(problems, "problem"),
        };
        writeln!(f, "{}: {verdict}", self.file.display())
    }
}

fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A title, and rows in aligned columns; nothing without rows.
fn section(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    rows: impl Iterator<Item = [String; 4]>,
) -> fmt::Result {
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(f, "{title}")?;
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = [0, 1, 2].map(|column| width(column).unwrap_or_default());
    for [one, two, three, four] in &rows {
        let [a, b, c] = widths;
        let line = format!("  {one:<a$}  {two:<b$}  {three:<c$}  {four}");
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}
