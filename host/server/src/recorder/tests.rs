//! Promises of what is kept of decisions.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should say where")]

use std::fs;
use std::path::Path;

use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_share_is_spread_evenly() {
    let recorder = |share| {
        let config = RecordingConfig { share, ..RecordingConfig::default() };
        Recorder::open(&config, 1).unwrap()
    };
    for (share, every) in [(1.0, 1), (0.5, 2), (0.01, 100)] {
        let recorder = recorder(share);
        let recorded = (0..1_000).filter(|_| recorder.mode() == Mode::Record).count();
        assert_eq!(recorded, 1_000 / every, "{share}");
    }
    let none = recorder(0.0);
    assert!((0..1_000).all(|_| none.mode() == Mode::Book));
}

#[test]
fn the_oldest_go_when_there_is_no_room() {
    let mut latest = Latest::new(40);
    for n in 0..10_u64 {
        // Ten bytes each.
        latest.push(DecisionId(n), raw(&format!("\"1234567{n}\"")));
    }
    assert_eq!(latest.len(), 4);
    let newest: Vec<String> = latest.newest(2).iter().map(|text| text.get().to_owned()).collect();
    assert_eq!(newest, ["\"12345679\"", "\"12345678\""]);
    assert!(latest.find(DecisionId(6)).is_some() && latest.find(DecisionId(5)).is_none());
    latest.push(DecisionId(10), raw(&format!("\"{}\"", "x".repeat(100))));
    assert_eq!(latest.len(), 4, "what has no room at all changes nothing");
}

#[test]
fn each_file_has_its_settings_and_the_oldest_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.jsonl");
    let mut journal = Journal::open(path.clone(), 60, 3).unwrap();
    for n in 0..40 {
        let settings = if n < 20 { "\"one\"" } else { "\"two\"" };
        journal.write(settings, &raw(&format!("{n:010}").replace('0', "1"))).unwrap();
    }
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["d.jsonl", "d.jsonl.1", "d.jsonl.2"]);
    for name in names {
        let file = folder.path().join(name);
        assert!(fs::metadata(&file).unwrap().len() <= 60);
        assert_eq!(lines(&file)[0], "\"two\"");
        assert_eq!(lines(&file).iter().filter(|line| line.starts_with('"')).count(), 1);
    }
}

#[test]
fn half_a_line_of_an_earlier_life_gets_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.jsonl");
    fs::write(&path, "{\"kind\":\"dec").unwrap();
    let mut journal = Journal::open(path.clone(), 1 << 20, 1).unwrap();
    journal.write("\"s\"", &raw("1")).unwrap();
    assert_eq!(lines(&path), ["{\"kind\":\"dec", "\"s\"", "1"]);
}

#[cfg(unix)]
#[test]
fn a_file_that_goes_is_begun_anew_and_who_may_read_it_is_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.jsonl");
    let mut journal = Journal::open(path.clone(), 10, 2).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    journal.write("\"s\"", &raw("1")).unwrap();
    fs::remove_file(&path).unwrap();
    // It is to be renamed, and isn't there.
    journal.write("\"s\"", &raw("12345")).unwrap();
    assert_eq!(lines(&path), ["\"s\"", "12345"]);
    let folder_instead = Journal::open(folder.path().to_owned(), 10, 2);
    assert!(folder_instead.is_err());
}

#[test]
fn a_line_that_is_none_says_so() {
    for bad in ["", "{", "[]", "{\"kind\":1}", "{\"kind\":\"decision\"}", "{\"kind\":\"settings\"}"]
    {
        assert!(read(bad).is_err(), "{bad}");
    }
    assert!(matches!(read("{\"kind\":\"later\"}"), Ok(Read::Other(kind)) if kind == "later"));
    let settings = line::settings(3, u64::MAX, &RouterSettings::default());
    let Ok(Read::Settings(read)) = read(&settings) else { panic!("{settings}") };
    assert_eq!((read.number, read.router_seed), (3, u64::MAX));
    assert_eq!(read.settings, RouterSettings::default());
}
