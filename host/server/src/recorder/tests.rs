//! Promises of what is kept of decisions.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should say where")]

use std::fs;
use std::path::Path;

use pointsman_core::classifier::{Answer, Beginning, ClassifierDeclaration, Logged, LoggedEvent};
use pointsman_core::ids::{PartitionKey, Role};

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

/// An entry of a log: how an instance began, or a call of it.
fn entry(instance: u64, call: u64) -> LogEntry {
    let partition =
        PartitionKey { model: "m".into(), routing_group: "default".into(), role: Role::Decode };
    let beginning = || Beginning {
        classifier_type: "gate".into(),
        digest: None,
        declaration: ClassifierDeclaration { tick_ms: 5, most_held: 7 },
        block_size: 16,
        parameters: Arc::new(
            serde_json::from_str(r#"{ "text": "no\u00e4", "share": 0.30000000000000004 }"#)
                .unwrap(),
        ),
        settings: Arc::new(RouterSettings {
            overlap_score_credit: 0.1 + 0.2,
            ..RouterSettings::default()
        }),
        policy_classes: ["default".into()].into(),
        workers: Arc::default(),
        fuel: Some(5),
        memory: None,
        seed: u64::MAX,
    };
    let what = match call {
        0 => Logged::Began(Box::new(beginning())),
        _ => Logged::Told(Box::new(LoggedEvent::Tick), Answer::Gave(Vec::new())),
    };
    LogEntry { partition, instance, call, now_ms: 9, what }
}

fn kept(config: &RecordingConfig, numbers: &[(u64, u64)]) -> RecordingCounts {
    let recorder = Recorder::open(config, 1).unwrap();
    assert!(recorder.keeps_logs());
    numbers.iter().for_each(|(instance, call)| recorder.keep_entry(&entry(*instance, *call)));
    recorder.entry_counts()
}

#[test]
fn a_log_is_written_up_to_the_first_entry_that_is_missing_and_on_with_the_next_instance() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl");
    let config = RecordingConfig {
        file: Some(path.clone()),
        request_classifier: true,
        ..RecordingConfig::default()
    };
    let all = [(1, 0), (1, 1), (1, 3), (1, 4), (2, 1), (3, 0), (3, 1)];
    let counts = kept(&config, &all);
    assert_eq!(counts, RecordingCounts { recorded: 4, dropped: 3, unwritten: 0 });
    let read: Vec<(u64, u64)> = lines(&path)
        .iter()
        .map(|line| match read(line) {
            Ok(Read::Classifier(entry)) => (entry.instance, entry.call),
            other => panic!("{line}: {other:?}"),
        })
        .collect();
    assert_eq!(read, [(1, 0), (1, 1), (3, 0), (3, 1)]);
}

#[test]
fn an_entry_is_read_as_it_was_written_to_the_last_bit() {
    for call in [0, 1] {
        let before = entry(1, call);
        let line = line::classifier(SystemTime::now(), &before).unwrap();
        assert!(line.get().starts_with(r#"{"kind":"classifier","at_unix_ms":"#), "{line}");
        let Ok(Read::Classifier(after)) = read(line.get()) else { panic!("{line}") };
        assert_eq!(*after, before);
    }
    for bad in ["", r#","what":{}"#, r#","what":{"began":{}}"#] {
        let line = format!(r#"{{"kind":"classifier","instance":1{bad}}}"#);
        assert!(read(&line).is_err(), "{line}");
    }
}
