//! The documents' examples, run as they are written: the README's router, its workers, and every
//! command that is sent to them.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use pointsman::cli::check::check_with;
use pointsman::config::Config;
use pointsman::load_client::{Answer, LoadClient};
use pointsman::mock_engine::{MockConfig, MockEngine};
use pointsman::serve::Server;
use pointsman_tests::guests;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

use crate::docs::{blocks, read, root};

/// The README's router, with engines for its workers, on ports that are free.
struct Example {
    server: Server,
    engines: Vec<MockEngine>,
    _folder: tempfile::TempDir,
}

/// A source tree as far as the README's YAML names it, with this YAML.
fn tree(yaml: &str) -> Result<(tempfile::TempDir, std::path::PathBuf)> {
    let folder = tempfile::tempdir()?;
    let policies = folder.path().join("policies-dir");
    std::fs::create_dir(&policies)?;
    std::fs::copy(guests::least_busy(), policies.join("least-busy.wasm"))?;
    let tokens = Path::new("tests/tokens/qwen");
    std::fs::create_dir_all(folder.path().join(tokens))?;
    for file in std::fs::read_dir(root().join(tokens))? {
        let file = file?;
        std::fs::copy(file.path(), folder.path().join(tokens).join(file.file_name()))?;
    }
    let file = folder.path().join("pointsman.yaml");
    std::fs::write(&file, yaml)?;
    Ok((folder, file))
}

impl Example {
    async fn start() -> Result<Self> {
        let readme = read("README.md")?;
        let mut yaml =
            (*blocks(&readme, "yaml").first().context("the README has YAML")?).to_owned();
        let mut engines = Vec::new();
        for port in [8001, 8002] {
            let models = vec!["my-model".to_owned()];
            let engine = MockEngine::start(MockConfig { models, ..MockConfig::default() })?;
            let written = format!("http://127.0.0.1:{port}");
            ensure!(yaml.contains(&written), "the README's workers are elsewhere: {yaml}");
            yaml = yaml.replace(&written, &engine.url());
            engines.push(engine);
        }
        for listener in ["listen: 127.0.0.1:8080", "admin: 127.0.0.1:9090"] {
            ensure!(yaml.contains(listener), "{listener} isn't in the README's YAML");
            let (key, _) = listener.split_once(' ').context("it has a key")?;
            yaml = yaml.replace(listener, &format!("{key} 127.0.0.1:0"));
        }
        let (folder, file) = tree(&yaml)?;
        let server = Server::start(Config::from_path(&file)?, Some(file)).await?;
        Ok(Self { server, engines, _folder: folder })
    }

    /// Sends what a `curl` command says.
    async fn run(&self, command: &[String]) -> Result<Answer> {
        let (mut method, mut headers, mut body, mut url) = (None, Vec::new(), "", "");
        let mut words = command.iter().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} without a value"));
            match word.as_str() {
                "-N" => {}
                "-X" => method = Some(value()?.as_str()),
                "-H" => headers.push(value()?.split_once(": ").context("a header")?),
                "-d" => body = value()?.as_str(),
                other => url = other,
            }
        }
        let to = |port, address| Some((url.strip_prefix(port)?, LoadClient::new(address)));
        let (path, client) = to("http://127.0.0.1:8080", self.server.public_addr())
            .or_else(|| to("http://127.0.0.1:9090", self.server.admin_addr()))
            .with_context(|| format!("{url:?} is of no listener"))?;
        // As curl does; the client says the type of a body by itself.
        let usual = if body.is_empty() { "GET" } else { "POST" };
        let method: Method = method.unwrap_or(usual).parse()?;
        headers.retain(|(name, _)| *name != "content-type");
        let body = Bytes::from(body.to_owned());
        Ok(client.send_bytes(method, path, &headers, body).await?)
    }

    async fn stop(self) {
        self.server.shutdown().await;
        for engine in self.engines {
            engine.shutdown().await;
        }
    }
}

/// The words of each `curl` command of a script, as a shell has them.
fn curls(script: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words) = (Vec::new(), Vec::new());
    let (mut word, mut begun) = (String::new(), false);
    let mut chars = script.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                word.extend(chars.by_ref().take_while(|&inner| inner != c));
                begun = true;
            }
            '\\' => {
                chars.next();
            }
            '#' if !begun => {
                chars.by_ref().find(|&inner| inner == '\n');
                commands.push(std::mem::take(&mut words));
            }
            c if c.is_whitespace() => {
                if std::mem::take(&mut begun) {
                    words.push(std::mem::take(&mut word));
                }
                if c == '\n' {
                    commands.push(std::mem::take(&mut words));
                }
            }
            c => {
                word.push(c);
                begun = true;
            }
        }
    }
    commands.retain(|command| command.first().is_some_and(|name| name == "curl"));
    commands
}

#[tokio::test]
async fn the_readmes_commands_are_answered_as_they_are_written() -> Result<()> {
    let example = Example::start().await?;
    let readme = read("README.md")?;
    let commands: Vec<_> = blocks(&readme, "sh").into_iter().flat_map(curls).collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for command in commands {
        let answer = example.run(&command).await?;
        assert!(answer.is_good(), "{command:?}: {}", answer.text());
    }
    example.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_pushed_events_of_admin_md_match_where_it_says() -> Result<()> {
    let example = Example::start().await?;
    let admin = read("host/server/ADMIN.md")?;
    let commands: Vec<_> = blocks(&admin, "sh").into_iter().flat_map(curls).collect();
    let [push, overlap] = commands.as_slice() else { anyhow::bail!("{commands:?}") };
    let pushed = example.run(push).await?;
    assert!(pushed.is_good(), "{}", pushed.text());
    assert_eq!((&pushed.json()["applied"], &pushed.json()["stored"]), (&json!(1), &json!(2)));
    let rows = example.run(overlap).await?.json()["rows"].take();
    let row = |nth: usize| {
        let row = &rows[nth];
        (
            row["worker_id"].clone(),
            row["told"].clone(),
            row["device_blocks"].clone(),
            row["cached_tokens"].clone(),
        )
    };
    assert_eq!(row(0), (json!(1), json!(true), json!(2), json!(32)), "{rows:#}");
    assert_eq!(row(1), (json!(2), json!(false), json!(0), json!(0)), "{rows:#}");

    // And back again, by the event that stands in the text behind it.
    let removed = admin.split('`').find(|code| code.starts_with("{\"type\": \"removed\""));
    let removed = removed.context("the event is there")?;
    let mut again = push.clone();
    let body = again.iter_mut().find(|word| word.starts_with('{')).context("it has a body")?;
    *body = format!("{{\"events\": [{removed}]}}");
    let taken_back = example.run(&again).await?;
    assert_eq!(taken_back.json()["removed"], 2, "{}", taken_back.text());
    example.stop().await;
    Ok(())
}

#[test]
fn the_readmes_yaml_is_good_in_a_clean_tree() -> Result<()> {
    let readme = read("README.md")?;
    for yaml in blocks(&readme, "yaml") {
        let (_folder, file) = tree(yaml)?;
        let report = check_with(&file, &BTreeMap::new());
        // A part goes beside what the first block has.
        let whole = match yaml.contains("type: least-busy") && !yaml.contains("policies_dir") {
            true => check_with(
                &tree(&format!("policies_dir: policies-dir\n{yaml}"))?.1,
                &BTreeMap::new(),
            ),
            false => report,
        };
        assert!(whole.is_good(), "{yaml}\n{whole}");
    }
    Ok(())
}
