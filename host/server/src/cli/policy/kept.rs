//! The component that a project was built into to be looked at, while its sources are as they were.
//!
//! An author looks by one command after the other, and tools of languages other than Rust build all of it anew each time, to other
//! bytes. What cargo builds needs none of this. Sources are known by their time stamps and sizes; what stands outside of the project's
//! folder (packages of an environment) isn't known here, and `policy build` always builds.

use std::path::{Path, PathBuf};

use anyhow::Result;
use pointsman_build::{Built, digest, write_atomically};

use super::subject::CASES;
use super::watch::{Sources, Stamp, settled};

/// Beside the component: what it was built from, and its own digest.
const MARK: &str = ".looked-at";

/// The component of the last look, or of a build.
pub(super) fn or_build(folder: &Path, build: impl FnOnce() -> Result<Built>) -> Result<PathBuf> {
    let before = stamp(folder);
    if let Some(component) = kept(folder, &before) {
        return Ok(component);
    }
    let Built { component, digest, .. } = build()?;
    // What the build itself has written is a source from now on.
    let sources = words(&settled(&before, stamp(folder)));
    let mark = format!("{sources}\n{digest}\n{}\n", component.display());
    let place = component.with_file_name(MARK);
    if let Err(error) = write_atomically(&place, mark.as_bytes()) {
        tracing::debug!(?place, %error, "the next look builds again");
    }
    Ok(component)
}

/// How the sources stand. Cases are no source: they are changed the most, and read anew at each look.
fn stamp(folder: &Path) -> Stamp {
    let mut stamp = Sources::of(&[folder.to_owned()]).stamp();
    stamp.remove(&folder.join(CASES));
    stamp
}

fn kept(folder: &Path, now: &Stamp) -> Option<PathBuf> {
    let mark = std::fs::read_to_string(folder.join("components").join(MARK)).ok()?;
    let [sources, made, component] = mark.lines().collect::<Vec<_>>().try_into().ok()?;
    let component = PathBuf::from(component);
    let is_whole = || std::fs::read(&component).is_ok_and(|bytes| digest(&bytes) == made);
    (sources == words(now) && is_whole()).then_some(component)
}

/// The stamp as one word. Another program may build otherwise.
fn words(stamp: &Stamp) -> String {
    let program = std::env::current_exe().and_then(std::fs::metadata);
    let program = program.ok().map(|found| (found.modified().ok(), found.len()));
    digest(format!("{program:?} {stamp:?}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A build that leaves what tools leave, and is counted.
    fn build(folder: &Path, times: &mut u32) -> Result<Built> {
        *times += 1;
        let component = folder.join("components/p.wasm");
        std::fs::create_dir_all(folder.join("components"))?;
        std::fs::create_dir_all(folder.join("bindings"))?;
        write_atomically(&folder.join("bindings/made.py"), b"made")?;
        let bytes = format!("built {times} times");
        std::fs::write(&component, &bytes)?;
        Ok(Built {
            package: "p".to_owned(),
            component,
            digest: digest(bytes.as_bytes()),
            core_bytes: 1,
            component_bytes: 1,
            is_new: true,
            inputs: Vec::new(),
        })
    }

    #[test]
    fn a_project_is_built_again_when_a_source_or_the_component_is_another_one() -> Result<()> {
        let place = tempfile::tempdir()?;
        let (folder, mut times) = (place.path(), 0);
        std::fs::write(folder.join("policy.py"), "one")?;
        let mut look = |wanted: u32, why: &str| -> Result<()> {
            let component = or_build(folder, || build(folder, &mut times))?;
            assert_eq!(component, folder.join("components/p.wasm"));
            assert_eq!(times, wanted, "{why}");
            Ok(())
        };
        look(1, "nothing is there")?;
        look(1, "nothing has changed")?;
        std::fs::write(folder.join(CASES), "cases: []")?;
        look(1, "cases are read anew, and not built")?;
        std::fs::write(folder.join("policy.py"), "another")?;
        look(2, "a source is another one")?;
        look(2, "nothing has changed")?;
        std::fs::write(folder.join("helper.py"), "")?;
        look(3, "a source has come")?;
        std::fs::write(folder.join("components/p.wasm"), "somebody else's")?;
        look(4, "the component is another one")?;
        std::fs::remove_file(folder.join("components/p.wasm"))?;
        look(5, "the component is gone")?;
        std::fs::write(folder.join("components").join(MARK), "nonsense")?;
        look(6, "nothing is known of it")?;
        look(6, "nothing has changed")?;
        Ok(())
    }
}
