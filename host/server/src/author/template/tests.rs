//! What is written, and what is refused.

use std::path::Path;

use super::*;

/// What a test can't go on after.
type Failure = Box<dyn std::error::Error>;

fn wanted(folder: &Path, name: &str, stage: TemplateStage) -> Wanted {
    let sdk = Sdk::Repository { url: "https://h/o/r".to_owned(), revision: None };
    let folder = folder.join(name);
    Wanted { name: name.to_owned(), stage, origin: Origin::Rust(sdk), folder }
}

#[test]
fn a_crate_has_all_that_it_takes_under_its_own_name() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    for stage in TemplateStage::ALL {
        let name = format!("my-{stage:?}").to_lowercase();
        assert!(TemplateStage::value_variants().contains(&stage));
        let files = make(&wanted(folder.path(), &name, stage))?;
        let text = |file: &str| std::fs::read_to_string(folder.path().join(&name).join(file));
        for file in &files {
            let text = std::fs::read_to_string(file)?;
            assert!(!text.contains("{{") && !text.contains("PolicyName"), "{}", file.display());
        }
        let manifest = text("Cargo.toml")?;
        assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{manifest}");
        assert!(manifest.contains("pointsman-sdk = { git = \"https://h/o/r\" }"), "{manifest}");
        assert!(text("src/lib.rs")?.contains(&format!("My{stage:?}")), "{name}");
        let schema: serde_json::Value = serde_json::from_str(&text("src/parameters.schema.json")?)?;
        let readme = text("README.md")?;
        let yaml = text("policy.yaml")?;
        let properties = schema.get("properties").and_then(serde_json::Value::as_object);
        for (key, of) in properties.ok_or("it has parameters")? {
            let default = of.get("default").ok_or("it has a default")?.to_string();
            assert!(readme.contains(&format!("| `{key}` | {default} |")), "{name}: {readme}");
            assert!(yaml.contains(&format!("{key}: {default}")), "{name}: {yaml}");
        }
        let cases = crate::cases::CaseFile::from_yaml("cases.yaml", &text("cases.yaml")?)?;
        assert!(cases.cases.len() + cases.admissions.len() >= 4, "{name}");
        crate::config::Config::from_yaml("policy.yaml", &yaml, folder.path())?;
    }
    Ok(())
}

#[test]
fn a_project_in_another_language_has_the_same_cases_and_schema_as_the_crate() -> Result<(), Failure>
{
    let folder = tempfile::tempdir()?;
    let languages = [
        (Origin::Python, "pyproject.toml", "policy.py"),
        (Origin::JavaScript, "package.json", "policy.js"),
    ];
    for (origin, manifest, source) in languages {
        for stage in TemplateStage::ALL {
            let crate_files = make(&wanted(folder.path(), "a-crate", stage))?;
            let mut project = wanted(folder.path(), "my-own", stage);
            project.origin = origin.clone();
            let files = make(&project)?;
            for file in &files {
                let text = std::fs::read_to_string(file)?;
                assert!(!text.contains("{{"), "{}", file.display());
            }
            let of = |files: &[PathBuf], name: &str| {
                let file = files.iter().find(|file| file.ends_with(name));
                file.map(std::fs::read_to_string).ok_or(format!("{stage:?}: no {name}"))
            };
            for name in ["cases.yaml", "parameters.schema.json"] {
                assert_eq!(of(&files, name)??, of(&crate_files, name)??, "{stage:?} {name}");
            }
            assert!(of(&files, manifest)??.contains(stage.interface()), "{stage:?}");
            assert!(of(&files, source)??.contains("my-own"), "{stage:?}");
            let yaml = of(&files, "policy.yaml")??;
            crate::config::Config::from_yaml("policy.yaml", &yaml, folder.path())?;
            std::fs::remove_dir_all(&project.folder)?;
            std::fs::remove_dir_all(folder.path().join("a-crate"))?;
        }
    }
    Ok(())
}

#[test]
fn what_is_there_is_left_alone_and_what_fails_leaves_nothing() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let told = |wanted: &Wanted| make(wanted).map(drop).map_err(|error| error.to_string());
    let there = wanted(folder.path(), "there", TemplateStage::Policy);
    std::fs::create_dir(&there.folder)?;
    let refusal = told(&there).expect_err("it is there");
    assert!(
        refusal.ends_with("there exists already; take another name, or another folder with --path")
    );
    assert_eq!(std::fs::read_dir(&there.folder)?.count(), 0);

    std::fs::write(folder.path().join("file"), "")?;
    let mut inside = wanted(folder.path(), "inside", TemplateStage::Policy);
    inside.folder = folder.path().join("file/inside");
    let refusal = told(&inside).expect_err("a file is in the way");
    assert!(refusal.contains("name a folder that you may write"), "{refusal}");

    let bad = wanted(folder.path(), "Bad Name", TemplateStage::Policy);
    assert!(told(&bad).is_err_and(|words| words.contains("my-policy")));
    assert!(!bad.folder.exists());
    Ok(())
}

#[test]
fn the_sdk_is_a_folder_or_a_repository_and_who_has_neither_is_told() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let tree = folder.path().canonicalize()?.join("tree");
    let sdk = tree.join("guest-sdk");
    std::fs::create_dir_all(sdk.join("src"))?;
    std::fs::create_dir_all(tree.join("policies"))?;
    std::fs::write(sdk.join("Cargo.toml"), "[package]\nname = \"pointsman-sdk\"\n")?;
    std::fs::write(tree.join("Cargo.lock"), "# versions")?;
    let it = Sdk::Folder(sdk.clone());
    for named in [&sdk, &tree] {
        assert_eq!(Sdk::named(&named.to_string_lossy())?, it);
    }
    for inside in [&tree, &tree.join("policies"), &sdk.join("src")] {
        assert_eq!(Sdk::found([folder.path(), inside])?, it);
    }
    // Within its tree a crate names it by the way there.
    let dependency = |of: &Path| it.dependency(of);
    assert_eq!(dependency(&tree.join("mine")), "{ path = \"../guest-sdk\" }");
    assert_eq!(dependency(&tree.join("policies/mine")), "{ path = \"../../guest-sdk\" }");
    let whole = format!("{{ path = {:?} }}", sdk.display().to_string());
    assert_eq!(dependency(&folder.path().join("mine")), whole);

    let mut mine = wanted(folder.path(), "mine", TemplateStage::Scorer);
    mine.origin = Origin::Rust(it.clone());
    make(&mine)?;
    assert_eq!(std::fs::read_to_string(mine.folder.join("Cargo.lock"))?, "# versions");

    let revision = Some("v1".to_owned());
    let repository = Sdk::Repository { url: "https://h/o/r".to_owned(), revision };
    assert_eq!(Sdk::named("https://h/o/r#v1")?, repository);
    assert_eq!(repository.dependency(&tree), "{ git = \"https://h/o/r\", rev = \"v1\" }");

    let refusal = Sdk::named("/nowhere").expect_err("nothing is there").to_string();
    assert!(refusal.contains("/nowhere is not the SDK's folder"), "{refusal}");
    let refusal = Sdk::found([Path::new("/nowhere")]).expect_err("nothing is there").to_string();
    assert!(refusal.contains("--sdk path/to/pointsman"), "{refusal}");
    Ok(())
}
