use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::progress::Quiet;

fn store() -> (tempfile::TempDir, Store) {
    let outer = tempfile::tempdir().unwrap();
    let store = Store::new(outer.path());
    std::fs::create_dir_all(store.folder()).unwrap();
    (outer, store)
}

/// Fills a work folder as the real builder does, as far as the store can tell.
fn build(work: &Path) -> Result<String, ToolchainError> {
    let root = work.join("root");
    std::fs::create_dir_all(root.join("bin")).unwrap();
    std::fs::write(rustc_in(&root), "").unwrap();
    std::fs::create_dir_all(target_libs_in(&root)).unwrap();
    std::fs::write(target_libs_in(&root).join("libcore-1.rlib"), "").unwrap();
    std::fs::write(work.join("big-download"), "").unwrap();
    Ok("1:2.3/4~deb".to_owned())
}

fn names(store: &Store) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(store.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_was_made_is_found_again_and_nothing_else_is_left() {
    let (_outer, store) = store();
    assert_eq!(store.ready(), None);
    let made = store.make(build).unwrap();
    assert_eq!(store.ready(), Some(made.clone()));
    assert_eq!(made.version, "1:2.3/4~deb");
    assert_eq!(names(&store), ["current-1", "rustc-web-1_2.3_4~deb-1"]);
}

#[test]
fn a_failed_build_leaves_nothing() {
    let (_outer, store) = store();
    let failed = store.make(|work| {
        build(work)?;
        Err(ToolchainError::NoPackage { package: "rustc-web".into() })
    });
    assert!(failed.is_err());
    assert!(names(&store).is_empty());
    assert_eq!(store.ready(), None);
}

#[test]
fn a_run_that_was_killed_at_any_point_is_recovered_from() {
    let (_outer, store) = store();
    // While it worked: a work folder stays.
    std::fs::create_dir_all(store.folder().join("work-dead/root/usr")).unwrap();
    assert_eq!(store.ready(), None);
    let made = store.make(build).unwrap();
    assert!(!store.folder().join("work-dead").exists());

    // Between the rename and the pointer: a whole sysroot that nothing points to.
    std::fs::remove_file(store.pointer()).unwrap();
    assert_eq!(store.ready(), None);
    assert_eq!(store.make(build).unwrap(), made);

    // A sysroot that somebody took a part out of isn't ready, and is replaced.
    std::fs::remove_file(target_libs_in(&made.folder).join("libcore-1.rlib")).unwrap();
    assert_eq!(store.ready(), None);
    assert_eq!(store.make(build).unwrap(), made);
    assert_eq!(store.ready(), Some(made));
}

#[test]
fn a_pointer_out_of_the_folder_is_not_followed() {
    let (outer, store) = store();
    let elsewhere = Store::new(&outer.path().join("other"));
    std::fs::create_dir_all(elsewhere.folder()).unwrap();
    let made = elsewhere.make(build).unwrap();
    for name in [made.folder.to_str().unwrap(), "../other", ".", ""] {
        std::fs::write(store.pointer(), name).unwrap();
        assert_eq!(store.ready(), None, "{name:?}");
    }
}

#[test]
fn of_many_callers_one_makes_it_and_all_get_it() {
    let (_outer, store) = store();
    let made = AtomicUsize::new(0);
    let ensure = || {
        store
            .locked(&Quiet, || match store.ready() {
                Some(ready) => Ok(ready),
                None => {
                    made.fetch_add(1, Ordering::Relaxed);
                    store.make(build)
                }
            })
            .unwrap()
    };
    let all: Vec<Ready> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8).map(|_| scope.spawn(ensure)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    assert_eq!(made.into_inner(), 1);
    assert!(all.iter().all(|ready| Some(ready) == store.ready().as_ref()));
}
