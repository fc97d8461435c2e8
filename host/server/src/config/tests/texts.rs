//! Any text at all: an answer, never a panic.

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

fn of_bytes(bytes: &[u8]) -> String {
    let strings = BTreeMap::new();
    let read = Config::from_bytes("pointsman.yaml", bytes, Path::new(""), &strings);
    read.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_text_that_is_no_configuration_is_refused_with_its_place_and_a_remedy() {
    let texts: [(&str, &[u8]); 22] = [
        ("empty", b""),
        ("comments only", b"# nothing\n\n"),
        ("a document of nothing", b"---\n"),
        ("a scalar", b"hello"),
        ("a list", b"- listen: 127.0.0.1:1"),
        ("not UTF-8", b"listen: 127.0.0.1:1\nadmin: \xff"),
        ("UTF-16", b"\xff\xfel\0i\0"),
        ("two documents", b"listen: 127.0.0.1:1\n---\nadmin: 127.0.0.1:2\n"),
        ("a tab as indentation", b"proxy:\n\tretries: 1\n"),
        ("an open bracket", b"workers: [\n"),
        ("an open quote", b"listen: \"127.0.0.1:1\n"),
        ("a colon too many", b"listen: a: b\n"),
        ("an anchor and an alias", b"proxy: &p\n  retries: 1\nhealth: *p\n"),
        ("an unknown alias", b"proxy: *p\n"),
        ("a merge key", b"proxy:\n  <<: { retries: 1 }\n"),
        ("a tag", b"proxy: !special\n  retries: 1\n"),
        ("a core tag", b"drain_timeout: !!str 1s\n"),
        ("a key given twice", b"proxy:\n  retries: 1\n  idle_timeout: 1s\n  retries: 2\n"),
        ("a key that is a list", b"? [a, b]\n: 1\n"),
        ("a key that is nothing", b": 1\n"),
        ("a control character", b"listen: \"\x01\"\nproxy: \x07\n"),
        ("a NUL", b"listen: \0\n"),
    ];
    let all = texts.map(|(name, text)| format!("--- {name}\n{}", of_bytes(text)));
    assert_snapshot!(all.join("\n"));
}

#[test]
fn a_byte_order_mark_and_carriage_returns_are_no_mistakes() {
    let config = good("\u{feff}proxy:\r\n  retries: 3\r\n");
    assert_eq!(config.proxy.retries, 3);
}

#[test]
fn what_ends_too_soon_is_told_at_the_end_of_the_file() {
    let ends = [("a: 1\n)", "2:2"), ("a: 1\r)", "2:2"), ("a: 1\r\n\r\n)", "3:2"), ("[1,", "1:4")];
    for (text, place) in ends {
        let told = mistakes(text);
        assert!(told.starts_with(&format!("pointsman.yaml:{place}: not valid YAML")), "{told}");
    }
}

#[test]
fn what_a_file_says_moves_no_cursor_where_its_mistakes_are_read() {
    let texts = [
        "worker_selection:\n  default: \"a\\e[2J\"\n",
        "worker_selection:\n  \"a\\e[2J\": 1\n",
        "worker_selection:\n  aggregated: \"a\\e[2J\"\n",
        "listen: \":1\\e[2J\"\n",
        "drain_timeout: \"5\\n\"\n",
        "policies_dir: \"a\\nb\"\n",
        "\"a\\e[2J\": 1\n",
    ];
    for text in texts {
        let told = mistakes(text);
        assert!(!told.contains(char::is_control), "{told:?}");
    }
    assert!(mistakes(&format!("policies_dir: {}", "x".repeat(5_000))).len() < 300);
    assert!(mistakes(&format!("listen: :{}", "1".repeat(5_000))).len() < 300);
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = format!("workers: {}", "[".repeat(200));
    assert_snapshot!(mistakes(&deep), @"pointsman.yaml:1:73: nested deeper than 64 levels; nothing after this place was read");
    // The parser has a bound of its own, and looks ahead.
    let deep = format!("workers: {}", "[".repeat(100_000));
    assert!(mistakes(&deep).contains("recursion limit exceeded"));
    let deep = (0..70).fold(String::new(), |text, i| text + &" ".repeat(i) + "a:\n");
    assert!(mistakes(&deep).contains("nested deeper than 64 levels"));
    let large = format!("# {}", "x".repeat(5 << 20));
    assert_snapshot!(mistakes(&large), @"pointsman.yaml:1:1: the file has more than 4194304 bytes; register workers over POST /v1/workers instead");
}

#[test]
fn a_billion_laughs_cost_no_more_than_their_text() {
    let mut text = "a: &a [lol, lol, lol, lol]\n".to_owned();
    for (one, next) in ('a'..='z').zip('b'..='z') {
        text += &format!("{next}: &{next} [*{one}, *{one}, *{one}, *{one}]\n");
    }
    let ConfigErrors::Invalid { mistakes, more } = read(&text).unwrap_err() else {
        panic!("the text was read")
    };
    // 26 anchors, 100 aliases, 26 unknown keys; nothing is expanded.
    assert_eq!(mistakes.len() + more, 26 + 100 + 26);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::from_path(Path::new("/nowhere/pointsman.yaml")).unwrap_err().to_string();
    assert!(error.starts_with("can't read /nowhere/pointsman.yaml: "), "{error}");
    assert!(error.ends_with("name a readable file with --config"), "{error}");
}

/// Neither what never ends nor what never begins holds the reader up.
#[test]
#[cfg(unix)]
fn only_files_are_read_and_only_so_far() {
    let refused = |path: &Path| Config::from_path(path).unwrap_err().to_string();
    let folder = tempfile::TempDir::new().unwrap();
    assert!(refused(folder.path()).contains("directory"), "{}", refused(folder.path()));
    let told = refused(Path::new("/dev/zero"));
    assert!(told.contains("it is a pipe or a device, not a file"), "{told}");
    let pipe = folder.path().join("pointsman.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let told = refused(&pipe);
    assert!(told.contains("it is a pipe or a device, not a file"), "{told}");
    let sparse = folder.path().join("sparse.yaml");
    std::fs::File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
    let told = refused(&sparse);
    assert!(told.contains("sparse.yaml:1:1: the file has more than 4194304 bytes"), "{told}");
}

/// Texts that are large in each way that a text of the largest size can be: what is wrong is found
/// without reading or telling more of it than of others.
#[test]
fn large_texts_are_answered_with_a_few_mistakes_at_their_places() {
    const SIZE: usize = 1 << 18;
    let filled = |head: &str, piece: &str, tail: &str| {
        format!("{head}{}{tail}", piece.repeat(SIZE / piece.len()))
    };
    let numbered = |piece: &dyn Fn(usize) -> String| (0..SIZE / 64).map(piece).collect::<String>();
    let texts = [
        ("opened lists", filled("workers: ", "[", "")),
        ("opened mappings", filled("workers: ", "{a: ", "")),
        ("lists in lists", filled("", "- ", "")),
        ("keys in keys", filled("", "? ", "")),
        ("a scalar", filled("listen: ", "x", "")),
        ("a scalar in quotes", filled("listen: \"", "x", "\"")),
        ("an open quote", filled("listen: '", "x\n ", "")),
        ("lines of a scalar", filled("listen: |\n", "  x\n", "")),
        ("an anchor", filled("a: &", "a", " 1")),
        ("a tag", filled("a: !", "a", " 1")),
        ("a key", filled("", "x", ": 1")),
        ("aliases", filled("a: &a 1\nb: [", "*a,", "]")),
        ("anchors", numbered(&|i| format!("a{i}: &a{i} 1\n"))),
        ("a circle", "a: &a\n  b: *a\n".repeat(SIZE / 16)),
        ("one key", filled("", "proxy: {}\n", "")),
        ("empty keys", filled("", ": ", "")),
        ("empty values", filled("", "?\n", "")),
        ("unknown keys", numbered(&|i| format!("worker_selectio{i}: 1\n"))),
        ("bad workers", filled("workers:\n", "- {}\n", "")),
        ("taints", filled("workers:\n- taints:\n", "  - a\n", "")),
        (
            "labels",
            format!("workers: [{{ labels: {{ {} }} }}]", numbered(&|i| format!("a{i}: 1,"))),
        ),
        (
            "a role among many",
            format!(
                "worker_selection:\n  aggregated: b\n  instances:\n{}",
                numbered(&|i| format!("  - {{name: a{i}, type: random}}\n"))
            ),
        ),
        ("commas", filled("[", ",", "]")),
        ("tabs", filled("", "\t", "a: 1")),
        ("NULs", filled("", "\0", "")),
        ("directives", filled("", "%YAML 1.2\n", "")),
        ("blanks", filled("", " ", "")),
        ("comments", filled("", "#\n", "")),
    ];
    for (name, text) in texts {
        let errors = read(&text).map(|_| ()).unwrap_err();
        let mistakes = errors.mistakes();
        assert!((1..=50).contains(&mistakes.len()), "{name}: {}", mistakes.len());
        assert!(mistakes.iter().all(|mistake| mistake.at.place.line > 0), "{name}");
        let told = errors.to_string();
        assert!(told.len() < 50_000, "{name}: {} bytes are told", told.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Config::from_bytes("f", &bytes, Path::new(""), &BTreeMap::new());
    }

    #[test]
    fn no_yaml_like_text_makes_it_panic(text in "([a-z_]{1,8}|[-\\[\\]{}:,&*!|>'\"%@`#?~<=]|\n|  | |\t|é|[0-9.]{1,6}){0,60}") {
        let _ = read(&text);
    }

    #[test]
    fn no_change_to_a_good_text_makes_it_panic(
        at in 0_usize..6_000,
        gone in 0_usize..12,
        new in "[ -~\n]{0,6}",
    ) {
        let text = include_str!("../../../samples/full.yaml");
        let start = text.floor_char_boundary(at.min(text.len()));
        let end = text.floor_char_boundary((start + gone).min(text.len()));
        let _ = read(&format!("{}{new}{}", &text[..start], &text[end..]));
    }
}
