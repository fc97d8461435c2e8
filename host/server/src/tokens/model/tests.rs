use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::tokens::tests::fixtures;

/// A model's folder: the tokenizer of a fixture, and other files.
fn folder(files: &[(&str, String)]) -> TempDir {
    let folder = TempDir::new().expect("there is room");
    let tokenizer = fixtures().join("qwen/tokenizer.json");
    fs::copy(tokenizer, folder.path().join("tokenizer.json")).expect("it is there");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("there is room");
        fs::write(path, text).expect("there is room");
    }
    folder
}

fn load(folder: &TempDir, settings: &TokenSettings) -> Result<ModelTokenizer, String> {
    ModelTokenizer::load(folder.path(), settings).map_err(|error| {
        let words = error.to_string();
        words.replace(&folder.path().display().to_string(), "FOLDER")
    })
}

/// The names of a model's templates, with their texts.
fn texts(model: &ModelTokenizer) -> Vec<(&str, String)> {
    let empty = || super::super::template::Rendering {
        messages: Vec::new(),
        tools: None,
        documents: None,
        add_generation_prompt: false,
        continue_final_message: false,
        variables: Vec::new(),
        now: super::super::template::WallTime::default(),
    };
    let texts = model.templates.iter();
    texts.map(|(name, each)| (name.as_str(), each.render(empty()).expect("it is plain"))).collect()
}

#[test]
fn templates_are_found_where_models_have_them() {
    let config = |template: serde_json::Value| {
        ("tokenizer_config.json", json!({"chat_template": template}).to_string())
    };
    let named =
        json!([{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]);
    let legacy = ("chat_template.json", json!({"chat_template": "legacy"}).to_string());
    let jinja = ("chat_template.jinja", "jinja".to_owned());
    let more = ("additional_chat_templates/tool_use.jinja", "more".to_owned());
    let one = |text: &str| vec![("default", text.to_owned())];
    for (files, expected) in [
        (vec![], vec![]),
        (vec![config(json!(null))], vec![]),
        (vec![config(json!("config"))], one("config")),
        (vec![config(named)], vec![("default", "D".to_owned()), ("tool_use", "T".to_owned())]),
        (vec![config(json!("config")), legacy.clone()], one("legacy")),
        (vec![config(json!("config")), legacy, jinja.clone()], one("jinja")),
        (vec![jinja, more], vec![("default", "jinja".to_owned()), ("tool_use", "more".to_owned())]),
    ] {
        let folder = folder(&files);
        let model = load(&folder, &TokenSettings::default()).expect("it is whole");
        assert_eq!(texts(&model), expected);
    }
}

#[test]
fn an_operators_template_wins_and_special_tokens_come_in_both_forms() {
    let folder = folder(&[
        (
            "tokenizer_config.json",
            json!({"chat_template": "config", "bos_token": {"content": "<b>"}, "eos_token": null})
                .to_string(),
        ),
        (
            "special_tokens_map.json",
            json!({"bos_token": "<x>", "eos_token": "<x>", "pad_token": {"content": "<p>"}})
                .to_string(),
        ),
        ("mine.jinja", "{{ bos_token }}{{ pad_token }}[{{ eos_token }}]".to_owned()),
    ]);
    let chat_template = Some(folder.path().join("mine.jinja"));
    let settings = TokenSettings { chat_template, ..TokenSettings::default() };
    let model = load(&folder, &settings).expect("it is whole");
    assert_eq!(texts(&model), [("default", "<b><p>[]".to_owned())]);
    // The file alone will do as well as its folder.
    let file = folder.path().join("tokenizer.json");
    assert!(ModelTokenizer::load(&file, &settings).is_ok());
}

#[test]
fn what_is_wrong_is_said_with_its_file() {
    let wrong = |name, text: &str| folder(&[(name, text.to_owned())]);
    let none = TempDir::new().expect("there is room");
    for (folder, begins) in [
        (none, "FOLDER/tokenizer.json can't be read: "),
        (wrong("tokenizer.json", "{}"), "FOLDER/tokenizer.json is no tokenizer that can be used: "),
        (wrong("tokenizer.json", "{"), "FOLDER/tokenizer.json is no tokenizer that can be used: "),
        (wrong("tokenizer_config.json", "["), "FOLDER/tokenizer_config.json can't be understood: "),
        (
            wrong("tokenizer_config.json", r#"{"chat_template": 7}"#),
            "FOLDER/tokenizer_config.json can't be understood: ",
        ),
        (
            wrong("special_tokens_map.json", "7"),
            "FOLDER/special_tokens_map.json can't be understood: ",
        ),
        (wrong("chat_template.json", "{}"), "FOLDER/chat_template.json can't be understood: "),
        (
            wrong("chat_template.jinja", "{% if"),
            "FOLDER/chat_template.jinja: the chat template can't be read: ",
        ),
    ] {
        let problem = load(&folder, &TokenSettings::default()).expect_err(begins);
        assert!(problem.starts_with(begins), "{problem}");
        assert!(problem.contains("; "), "it says what to do: {problem}");
    }
    let settings =
        TokenSettings { chat_template: Some("/nowhere".into()), ..TokenSettings::default() };
    assert!(
        load(&folder(&[]), &settings).expect_err("it is nowhere").starts_with("/nowhere can't")
    );
}

#[test]
fn models_whose_prompts_are_made_without_a_template_are_known() {
    let config = |json: serde_json::Value| ("config.json", json.to_string());
    let parts = [("tekken.json", String::new()), ("consolidated.safetensors", String::new())];
    for (files, expected) in [
        (vec![config(json!({"model_type": "gpt_oss"}))], Some("harmony")),
        (vec![config(json!({"architectures": ["DeepseekV32ForCausalLM"]}))], Some("deepseek_v32")),
        (vec![config(json!({"architectures": ["LlamaForCausalLM"], "model_type": "llama"}))], None),
        (parts.to_vec(), Some("mistral-common")),
        (parts[..1].to_vec(), None),
    ] {
        let folder = folder(&files);
        let model = load(&folder, &TokenSettings::default()).expect("it is whole");
        assert_eq!(model.own_format(), expected);
        // An operator who names a template knows better.
        let chat_template = Some(fixtures().join("qwen/chat_template.jinja"));
        let settings = TokenSettings { chat_template, ..TokenSettings::default() };
        assert_eq!(load(&folder, &settings).expect("it is whole").own_format(), None);
    }
}

#[test]
fn what_is_no_regular_file_is_refused_unopened_and_what_is_too_long_unread() {
    let refused = "is not a regular file; ";
    for name in [
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "config.json",
        "chat_template.jinja",
        "chat_template.json",
        "additional_chat_templates/tool_use.jinja",
    ] {
        for kind in ["pipe", "device", "folder", "long"] {
            let folder = folder(&[]);
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("it has one")).expect("there is room");
            drop(fs::remove_file(&path));
            match kind {
                "pipe" => {
                    let made = std::process::Command::new("mkfifo").arg(&path).status();
                    assert!(made.expect("it is there").success());
                }
                "device" => std::os::unix::fs::symlink("/dev/zero", &path).expect("there is room"),
                "folder" => fs::create_dir(&path).expect("there is room"),
                // It has holes alone.
                _ => fs::File::create(&path)
                    .and_then(|file| file.set_len(LONGEST_TOKENIZER + 1))
                    .expect("there is room"),
            }
            let problem = load(&folder, &TokenSettings::default()).expect_err(name);
            let words = if kind == "long" { "has more than" } else { refused };
            let place = format!("FOLDER/{name} {words}");
            assert!(problem.starts_with(place.trim_end()), "{kind}: {problem}");
        }
    }
    let settings =
        TokenSettings { chat_template: Some("/dev/zero".into()), ..TokenSettings::default() };
    let problem = load(&folder(&[]), &settings).expect_err("it never ends");
    assert!(problem.starts_with("/dev/zero is not a regular file"), "{problem}");
}
