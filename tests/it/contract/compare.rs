//! What in one version of the contract would break guests that were built for another, a sentence
//! each: the item, both forms, and what to do.
//!
//! Records, enums, variants and flags can't gain anything, functions can't change, and an interface
//! that was released gains no function, since older guests don't export it. New interfaces, worlds
//! and types may come, each with the version that brings it.

use std::collections::BTreeMap;

use semver::{Version, VersionReq};

use super::surface::{Interface, Item, Surface, World};

/// The world that has every optional interface, and so gains those that are new.
const FULL: &str = "full-policy";

/// What `current` would break of what was built for `released`; nothing if it doesn't claim to be
/// compatible.
pub(super) fn breaks(released: &Surface, current: &Surface) -> Vec<String> {
    if !compatible(&released.version, &current.version) {
        return Vec::new();
    }
    let mut found = Breaks { released, current, sentences: Vec::new() };
    found.interfaces();
    found.worlds();
    found.sentences
}

/// Whether a guest built for `old` may be called as one of `new`, by semantic version.
pub(super) fn compatible(old: &Version, new: &Version) -> bool {
    VersionReq::parse(&format!("^{old}")).is_ok_and(|wanted| wanted.matches(new))
}

struct Breaks<'a> {
    released: &'a Surface,
    current: &'a Surface,
    sentences: Vec<String>,
}

impl Breaks<'_> {
    fn interfaces(&mut self) {
        let (released, current) = (self.released, self.current);
        for (name, old) in &released.interfaces {
            let what = format!("interface `{name}`");
            match current.interfaces.get(name) {
                Some(new) => self.items(name, old, new),
                None => self.changed(&what, "there", "gone"),
            }
        }
        for (name, new) in &current.interfaces {
            if !released.interfaces.contains_key(name) {
                self.is_new(&format!("interface `{name}`"), new.since.as_ref());
            }
        }
    }

    fn items(&mut self, interface: &str, old: &Interface, new: &Interface) {
        for (name, old) in &old.items {
            let what = format!("{} `{interface}.{name}`", old.kind);
            match new.items.get(name) {
                Some(new) => self.item(&what, old, new),
                None => self.changed(&what, "there", "gone"),
            }
        }
        for (name, new) in &new.items {
            let what = format!("{} `{interface}.{name}`", new.kind);
            if old.items.contains_key(name) {
                continue;
            }
            if new.kind == "func" {
                let form = format!("is new, as `{}`", new.form);
                self.say(&what, &form, "put it in a further optional interface");
            } else {
                self.is_new(&what, new.since.as_ref());
            }
        }
    }

    fn item(&mut self, what: &str, old: &Item, new: &Item) {
        if old.kind != new.kind {
            self.changed(what, &quoted(old.kind), &quoted(new.kind));
            return;
        }
        if old.form != new.form {
            self.changed(what, &format!("`{}`", old.form), &format!("`{}`", new.form));
        }
        let (noun, instead) = match old.kind {
            "record" => ("field", "bring it as a named input or in a further optional interface"),
            "flags" => {
                ("flag", "let it be a name in a list, or bring it in a further optional interface")
            }
            _ => ("case", "let it be a name, or bring it in a further optional interface"),
        };
        let forms = |item: &Item| item.parts.iter().cloned().collect::<BTreeMap<_, _>>();
        let (old_forms, new_forms) = (forms(old), forms(new));
        for (part, old_form) in &old_forms {
            let what = format!("{noun} `{part}` of {what}");
            match new_forms.get(part) {
                None => self.changed(&what, &quoted(old_form), "gone"),
                Some(form) if form != old_form => {
                    self.changed(&what, &quoted(old_form), &quoted(form));
                }
                Some(_) => {}
            }
        }
        for (part, form) in &new_forms {
            if !old_forms.contains_key(part) {
                let form = if form.is_empty() { String::new() } else { format!(", as `{form}`") };
                self.say(&format!("{noun} `{part}` of {what}"), &format!("is new{form}"), instead);
            }
        }
        let order = |item: &Item| item.parts.iter().map(|part| part.0.clone()).collect::<Vec<_>>();
        if old_forms.keys().eq(new_forms.keys()) && order(old) != order(new) {
            let list = |item: &Item| format!("in the order {}", order(item).join(", "));
            self.changed(&format!("{what}, its {noun}s,"), &list(old), &list(new));
        }
    }

    fn worlds(&mut self) {
        let (released, current) = (self.released, self.current);
        for (name, old) in &released.worlds {
            match current.worlds.get(name) {
                Some(new) => self.world(name, old, new),
                None => self.changed(&format!("world `{name}`"), "there", "gone"),
            }
        }
        for (name, new) in &current.worlds {
            if !released.worlds.contains_key(name) {
                self.is_new(&format!("world `{name}`"), new.since.as_ref());
            }
        }
    }

    fn world(&mut self, name: &str, old: &World, new: &World) {
        for (noun, old, new) in
            [("import", &old.imports, &new.imports), ("export", &old.exports, &new.exports)]
        {
            for gone in old.difference(new) {
                self.changed(&format!("{noun} `{gone}` of world `{name}`"), "there", "gone");
            }
            for more in new.difference(old) {
                let optional = !self.released.interfaces.contains_key(more);
                if noun == "export" && name == FULL && optional {
                    continue;
                }
                let instead = format!("export it from `{FULL}` alone, where it is optional");
                self.say(&format!("{noun} `{more}` of world `{name}`"), "is new", &instead);
            }
        }
    }

    /// What is new says since when, and that is after what was released.
    fn is_new(&mut self, what: &str, since: Option<&Version>) {
        let (released, current) = (&self.released.version, &self.current.version);
        if since.is_some_and(|since| since > released) {
            return;
        }
        let has = since.map_or("no `@since`".to_owned(), |v| format!("`@since(version = {v})`"));
        let next = Version::new(released.major, released.minor, released.patch + 1);
        self.sentences.push(format!(
            "{what} is new since {released} and has {has}, in package {current}; give it \
             `@since(version = {next})`, and the package that version"
        ));
    }

    fn changed(&mut self, what: &str, was: &str, is: &str) {
        let released = &self.released.version;
        let instead = "leave it as it was and bring what is wanted in a further optional interface";
        self.say(what, &format!("was {was} in {released} and is {is} now"), instead);
    }

    fn say(&mut self, what: &str, how: &str, instead: &str) {
        let released = &self.released.version;
        let next = match released {
            Version { major: 0, minor, .. } => Version::new(0, minor + 1, 0),
            Version { major, .. } => Version::new(major + 1, 0, 0),
        };
        self.sentences.push(format!(
            "{what} {how}, which breaks guests built for {released}; {instead}, or make a new \
             version, {next}, with an adapter in the host for {released}"
        ));
    }
}

fn quoted(form: &str) -> String {
    if form.is_empty() { "there".to_owned() } else { format!("`{form}`") }
}
