//! The users' page tells the truth: its examples, sent one after another, are answered as it says.

use anyhow::{Context, Result, ensure};
use http::Method;
use pointsman_tests::rig::Plan;
use serde_json::Value;

use super::start;
use crate::docs::read;

/// An example: a request, the status, and what the answer has at least.
struct Example<'a> {
    method: Method,
    path: &'a str,
    body: Option<Value>,
    status: u16,
    answer: Value,
}

fn examples(page: &str) -> Result<Vec<Example<'_>>> {
    let example = |text| -> Result<Example<'_>> {
        let text: &str = text;
        let (request, rest) = text.split_once("```\n").context("a block ends")?;
        let (line, body) = request.split_once('\n').context("a request's line")?;
        let (method, path) = line.split_once(' ').context("a method and a path")?;
        let (words, rest) = rest.split_once("```json\n").context("an answer")?;
        let status = words.split("It answers ").nth(1).context("a status")?;
        let status = status.split(|c: char| !c.is_ascii_digit()).next().context("a status")?;
        let answer = rest.split("```").next().context("a block ends")?;
        let body = (!body.trim().is_empty()).then(|| serde_json::from_str(body)).transpose()?;
        let (status, answer) = (status.parse()?, serde_json::from_str(answer)?);
        Ok(Example { method: method.parse()?, path, body, status, answer })
    };
    page.split("```http\n").skip(1).map(example).collect()
}

/// Whether an answer has all that is wanted of it.
fn has(answer: &Value, wanted: &Value) -> bool {
    match (answer, wanted) {
        (Value::Object(answer), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| answer.get(key).is_some_and(|its| has(its, value)))
        }
        (Value::Array(answer), Value::Array(wanted)) => {
            answer.len() == wanted.len()
                && answer.iter().zip(wanted).all(|(its, one)| has(its, one))
        }
        _ => answer == wanted,
    }
}

#[tokio::test]
async fn each_example_of_the_users_page_is_answered_as_it_says() -> Result<()> {
    let mut plan = Plan::new(0);
    // Nobody is at the page's endpoint, and isn't to be missed.
    plan.more = "health: { probes: false }\n".to_owned();
    let (rig, client) = start(plan, "").await?;
    let page = read("host/server/SELECTION.md")?;
    let examples = examples(&page)?;
    ensure!(examples.len() >= 8, "{} examples", examples.len());
    for Example { method, path, body, status, answer } in examples {
        let got = client.send(method.clone(), path, &[], body.as_ref()).await?;
        ensure!(got.status.as_u16() == status, "{method} {path}: {} {}", got.status, got.text());
        ensure!(has(&got.json(), &answer), "{method} {path}: {}", got.text());
    }
    rig.stop().await;
    Ok(())
}
