//! The comparison, tried on contracts that are made up: each kind of change, one at a time.

use anyhow::Result;

use super::compare::breaks;
use super::surface::Surface;

/// What was released.
const RELEASED: &str = r#"
package made:up@0.1.0;

/// Values.
@since(version = 0.1.0)
interface types {
  @since(version = 0.1.0)
  record request { id: u64, tokens: u32, trigger: option<string> }
  @since(version = 0.1.0)
  enum role { prefill, decode }
  @since(version = 0.1.0)
  variant event { sent, done(u64) }
  @since(version = 0.1.0)
  flags wants { ids, ranks }
  @since(version = 0.1.0)
  type cost = f64;
}

@since(version = 0.1.0)
interface stages {
  @since(version = 0.1.0)
  use types.{request, cost};
  @since(version = 0.1.0)
  score: func(request: request, rows: list<f64>) -> result<list<cost>, string>;
}

@since(version = 0.1.0)
interface log {
  @since(version = 0.1.0)
  write: func(text: string);
}

@since(version = 0.1.0)
world policy {
  import log;
  export stages;
}

@since(version = 0.1.0)
world full-policy {
  include policy;
}
"#;

/// What is said of the released text with each `from` replaced by its `to`.
fn said(edits: &[(&str, &str)]) -> Result<Vec<String>> {
    let mut text = RELEASED.to_owned();
    for (from, to) in edits {
        assert!(text.contains(from), "{from:?} should be there");
        text = text.replacen(from, to, 1);
    }
    Ok(breaks(&Surface::of_text(RELEASED)?, &Surface::of_text(&text)?))
}

/// One edit, one sentence, which begins so.
fn check(edit: (&str, &str), wanted: &str) -> Result<()> {
    let said = said(&[edit])?;
    let [sentence] = said.as_slice() else {
        anyhow::bail!("{edit:?}: one sentence was expected, not {said:#?}")
    };
    assert!(sentence.starts_with(wanted), "{edit:?}: {sentence:?} should begin with {wanted:?}");
    Ok(())
}

const NEXT: (&str, &str) = ("made:up@0.1.0", "made:up@0.1.1");
const OPTIONAL: (&str, &str) = (
    "@since(version = 0.1.0)\nworld policy",
    "@since(version = 0.1.1)\ninterface hints {\n  @since(version = 0.1.1)\n  hint: func() -> u32;\n}\n\
     @since(version = 0.1.0)\nworld policy",
);

#[test]
fn what_breaks_no_guest_passes() -> Result<()> {
    let none: Vec<String> = Vec::new();
    assert_eq!(said(&[])?, none);
    assert_eq!(said(&[("/// Values.", "/// Other words.\n/// And more.")])?, none);
    assert_eq!(said(&[NEXT, OPTIONAL])?, none);
    assert_eq!(
        said(&[NEXT, OPTIONAL, ("include policy;", "include policy;\n  export hints;")])?,
        none
    );
    let role = "@since(version = 0.1.0)\n  enum role";
    let more = "@since(version = 0.1.1)\n  record more { id: u64 }\n  ";
    assert_eq!(said(&[NEXT, (role, &format!("{more}{role}"))])?, none);
    let world = "@since(version = 0.1.1)\nworld quiet {\n  export stages;\n}\n";
    let before = "@since(version = 0.1.0)\nworld full-policy";
    assert_eq!(said(&[NEXT, (before, &format!("{world}{before}"))])?, none);
    Ok(())
}

#[test]
fn a_new_version_may_change_what_it_likes() -> Result<()> {
    let none: Vec<String> = Vec::new();
    let edits = [("made:up@0.1.0", "made:up@0.2.0"), ("id: u64, tokens: u32", "id: string")];
    assert_eq!(said(&edits)?, none);
    Ok(())
}

#[test]
fn whatever_breaks_guests_is_named_with_both_forms_and_what_to_do() -> Result<()> {
    let said = |edit| -> Result<String> { Ok(said(&[edit])?.join("\n")) };
    assert_eq!(
        said(("tokens: u32", "tokens: u64"))?,
        "field `tokens` of record `types.request` was `u32` in 0.1.0 and is `u64` now, which breaks \
         guests built for 0.1.0; leave it as it was and bring what is wanted in a further optional \
         interface, or make a new version, 0.2.0, with an adapter in the host for 0.1.0"
    );
    assert_eq!(
        said(("tokens: u32,", "tokens: u32, rank: u32,"))?,
        "field `rank` of record `types.request` is new, as `u32`, which breaks guests built for \
         0.1.0; bring it as a named input or in a further optional interface, or make a new \
         version, 0.2.0, with an adapter in the host for 0.1.0"
    );
    assert_eq!(
        said(("write: func(text: string);", "write: func(text: string);\n  flush: func();"))?,
        "func `log.flush` is new, as `func()`, which breaks guests built for 0.1.0; put it in a \
         further optional interface, or make a new version, 0.2.0, with an adapter in the host for \
         0.1.0"
    );
    Ok(())
}

#[test]
fn each_kind_of_change_that_breaks_guests_is_found() -> Result<()> {
    // Fields, cases, flags: gone, changed, new, in another order.
    let request = "of record `types.request`";
    check(
        (" tokens: u32,", ""),
        &format!("field `tokens` {request} was `u32` in 0.1.0 and is gone"),
    )?;
    check(
        ("trigger: option<string>", "trigger: string"),
        &format!("field `trigger` {request} was `option<string>` in 0.1.0 and is `string` now"),
    )?;
    check(
        ("id: u64, tokens: u32", "tokens: u32, id: u64"),
        "record `types.request`, its fields, was in the order id, tokens, trigger in 0.1.0 and is \
         in the order tokens, id, trigger now",
    )?;
    check(("prefill, decode", "prefill"), "case `decode` of enum `types.role` was there in 0.1.0")?;
    check(("decode }", "decode, encode }"), "case `encode` of enum `types.role` is new, which")?;
    check(
        ("done(u64)", "done(u32)"),
        "case `done` of variant `types.event` was `(u64)` in 0.1.0 and is `(u32)` now",
    )?;
    check(
        ("done(u64)", "done(u64), lost(string)"),
        "case `lost` of variant `types.event` is new, as `(string)`, which",
    )?;
    check(
        ("ids, ranks", "ids, ranks, taints"),
        "flag `taints` of flags `types.wants` is new, which",
    )?;
    check(("flags wants", "enum wants"), "flags `types.wants` was `flags` in 0.1.0 and is `enum`")?;
    check(("cost = f64", "cost = f32"), "type `types.cost` was `f64` in 0.1.0 and is `f32` now")?;

    // Functions.
    check(
        ("rows: list<f64>", "rows: list<f32>"),
        "func `stages.score` was `func(request: request, rows: list<f64>) -> result<list<cost>, \
         string>` in 0.1.0 and is `func(request: request, rows: list<f32>) -> ",
    )?;
    check(("write: func", "write: async func"), "func `log.write` was `func(text: string)`")?;
    check(("-> result<list<cost>, string>", "-> list<cost>"), "func `stages.score` was ")?;
    check(
        ("  @since(version = 0.1.0)\n  write: func(text: string);\n", ""),
        "func `log.write` was there in 0.1.0 and is gone now",
    )?;
    Ok(())
}

#[test]
fn worlds_and_interfaces_stay() -> Result<()> {
    let gone = said(&[
        (
            "@since(version = 0.1.0)\ninterface log {\n  @since(version = 0.1.0)\n  write: func(text: string);\n}\n",
            "",
        ),
        ("  import log;\n", ""),
    ])?;
    let wanted = [
        "interface `log` was there",
        "import `log` of world `full-policy` was there",
        "import `log` of world `policy` was there",
    ];
    assert_eq!(gone.len(), wanted.len(), "{gone:#?}");
    for (sentence, wanted) in gone.iter().zip(wanted) {
        assert!(sentence.starts_with(wanted), "{sentence:?} should begin with {wanted:?}");
    }
    // What every policy must export stays, too.
    let more = said(&[NEXT, OPTIONAL, ("export stages;", "export stages;\n  export hints;")])?;
    assert_eq!(more.len(), 1, "{more:#?}");
    assert!(
        more[0].starts_with("export `hints` of world `policy` is new, which breaks"),
        "{more:#?}"
    );
    assert!(more[0].contains("export it from `full-policy` alone"), "{more:#?}");
    let renamed = said(&[("world full-policy", "world whole-policy")])?;
    assert_eq!(renamed.len(), 2, "{renamed:#?}");
    assert!(renamed[0].starts_with("world `full-policy` was there in 0.1.0 and is gone"));
    assert!(renamed[1].starts_with("world `whole-policy` is new since 0.1.0 and has `@since"));
    Ok(())
}

#[test]
fn what_is_new_says_since_when() -> Result<()> {
    let hints = |said: Vec<String>| {
        assert_eq!(said.len(), 1, "{said:#?}");
        said.concat()
    };
    let early = OPTIONAL.1.replace("0.1.1", "0.1.0");
    assert_eq!(
        hints(said(&[(OPTIONAL.0, &early)])?),
        "interface `hints` is new since 0.1.0 and has `@since(version = 0.1.0)`, in package 0.1.0; \
         give it `@since(version = 0.1.1)`, and the package that version"
    );
    assert!(
        hints(said(&[NEXT, (OPTIONAL.0, &early)])?).contains("0.1.0)`, in package 0.1.1; give it")
    );
    let without = OPTIONAL.1.replacen("@since(version = 0.1.1)\n", "", 1);
    assert!(hints(said(&[NEXT, (OPTIONAL.0, &without)])?).contains("has no `@since`"));
    Ok(())
}
