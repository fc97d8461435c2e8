//! The prompt in a request's body, before it becomes tokens.
//!
//! Owns which fields make the prompt, and which of them wins: token ids that the client gives
//! (`nvext.token_data`, `prompt: [1, 2, 3]`), texts, a conversation. It knows the engine's defaults
//! for them, and nothing of tokenizers.

use memchr::memmem;
use minijinja::Value;
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

/// What kind of request it is, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completion,
    /// `/v1/embeddings`.
    Embeddings,
    /// Anything else that has a prompt; its tokens are known only if the client gives them.
    Other,
}

/// Why a body has no prompt that can be made into tokens.
#[derive(Debug, Error)]
pub enum PromptError {
    /// It isn't what the engine takes.
    #[error("the body's prompt can't be read: {0}; the engine will say what is wrong with it")]
    Unreadable(#[from] serde_json::Error),
    /// There is none.
    #[error("the body has no prompt; the engine will say what is missing")]
    Missing,
    /// Only the engine knows how such requests become a prompt.
    #[error("only the engine knows the tokens of such a request; give them in nvext.token_data")]
    Unknown,
}

/// Which end of a prompt is cut off when it is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Side {
    /// The beginning.
    Left,
    /// The end.
    Right,
}

/// A wish to have a prompt cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Tokens to keep; below zero, as many as the model takes.
    pub(super) keep: i64,
    /// The side that is cut off. None: the engine's choice.
    pub(super) side: Option<Side>,
}

/// A prompt.
#[derive(Debug)]
pub(super) enum Prompt {
    /// Token ids from the client: one list a prompt.
    Ids(Vec<Vec<u32>>),
    /// Texts: one a prompt.
    Texts(Texts),
    /// A conversation.
    Chat(Box<Chat>),
}

/// Texts to be made into tokens as they are.
#[derive(Debug)]
pub(super) struct Texts {
    /// One a prompt.
    pub(super) texts: Vec<String>,
    /// Whether the tokenizer adds what it puts around texts.
    pub(super) add_special_tokens: bool,
    /// How it shall be cut.
    pub(super) cut: Option<Cut>,
}

/// A conversation, and what the request says on its rendering.
#[derive(Debug)]
pub(super) struct Chat {
    /// The turns.
    pub(super) messages: Vec<Value>,
    /// Tools' descriptions.
    pub(super) tools: Option<Vec<Value>>,
    /// Whether the request says that no tool is to be called.
    pub(super) no_tool: bool,
    /// Documents.
    pub(super) documents: Option<Value>,
    /// Whether the prompt ends with what an answer begins with.
    pub(super) add_generation_prompt: bool,
    /// Whether the model goes on with the last turn.
    pub(super) continue_final_message: bool,
    /// Whether the tokenizer adds what it puts around texts, although the template writes it.
    pub(super) add_special_tokens: bool,
    /// Whether the request has a template of its own.
    pub(super) has_template: bool,
    /// Variables for the template.
    pub(super) variables: Vec<(String, Value)>,
    /// How much the model shall think.
    pub(super) reasoning_effort: Option<Value>,
    /// How it shall be cut.
    pub(super) cut: Option<Cut>,
}

#[derive(Debug, Default, Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    messages: Option<Vec<Value>>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    documents: Option<Value>,
    add_generation_prompt: Option<bool>,
    continue_final_message: Option<bool>,
    add_special_tokens: Option<bool>,
    chat_template: Option<String>,
    chat_template_kwargs: Option<Value>,
    reasoning_effort: Option<Value>,
    truncate_prompt_tokens: Option<i64>,
    truncation_side: Option<Side>,
}

/// The one field that is looked at before the others.
#[derive(Debug, Deserialize)]
struct Given {
    nvext: Option<NvExt>,
}

#[derive(Debug, Deserialize)]
struct NvExt {
    token_data: Option<Vec<u32>>,
}

impl Prompt {
    /// Reads it.
    pub(super) fn read(kind: Kind, body: &[u8]) -> Result<Self, PromptError> {
        // Most bodies don't name it, and aren't read twice.
        if memmem::find(body, b"token_data").is_some() {
            let given: Given = serde_json::from_slice(body)?;
            if let Some(ids) = given.nvext.and_then(|nvext| nvext.token_data) {
                return Ok(Self::Ids(vec![ids]));
            }
        }
        if kind == Kind::Other {
            return Err(PromptError::Unknown);
        }
        let body: Body<'_> = serde_json::from_slice(body)?;
        match kind {
            Kind::Chat => body.chat(),
            Kind::Embeddings if body.input.is_none() => body.chat(),
            Kind::Completion => body.texts(body.prompt),
            Kind::Embeddings | Kind::Other => body.texts(body.input),
        }
    }
}

impl Body<'_> {
    fn cut(&self) -> Option<Cut> {
        self.truncate_prompt_tokens.map(|keep| Cut { keep, side: self.truncation_side })
    }

    fn texts(&self, prompt: Option<&RawValue>) -> Result<Prompt, PromptError> {
        let json = prompt.ok_or(PromptError::Missing)?.get();
        let texts = |texts| {
            let add_special_tokens = self.add_special_tokens.unwrap_or(true);
            Prompt::Texts(Texts { texts, add_special_tokens, cut: self.cut() })
        };
        if json.starts_with('"') {
            return Ok(texts(vec![serde_json::from_str(json)?]));
        }
        let first = json.trim_start_matches('[').trim_start();
        let prompt = match first.chars().next() {
            Some('"') => texts(serde_json::from_str(json)?),
            _ if json.get(1..).is_some_and(|rest| rest.trim_start().starts_with('[')) => {
                Prompt::Ids(serde_json::from_str(json)?)
            }
            _ => Prompt::Ids(vec![serde_json::from_str(json)?]),
        };
        match &prompt {
            Prompt::Texts(Texts { texts, .. }) if texts.is_empty() => Err(PromptError::Missing),
            Prompt::Ids(prompts) if prompts.iter().any(Vec::is_empty) || prompts.is_empty() => {
                Err(PromptError::Missing)
            }
            _ => Ok(prompt),
        }
    }

    fn chat(self) -> Result<Prompt, PromptError> {
        let cut = self.cut();
        let messages = self.messages.filter(|messages| !messages.is_empty());
        let variables = self.chat_template_kwargs.as_ref().and_then(Value::as_object);
        let variables = variables.and_then(|variables| variables.try_iter_pairs());
        let variables = variables.into_iter().flatten();
        Ok(Prompt::Chat(Box::new(Chat {
            messages: messages.ok_or(PromptError::Missing)?,
            tools: self.tools,
            no_tool: self.tool_choice.is_some_and(|choice| choice.as_str() == Some("none")),
            documents: self.documents,
            add_generation_prompt: self.add_generation_prompt.unwrap_or(true),
            continue_final_message: self.continue_final_message.unwrap_or(false),
            add_special_tokens: self.add_special_tokens.unwrap_or(false),
            has_template: self.chat_template.is_some(),
            variables: variables
                .filter_map(|(name, value)| Some((name.as_str()?.to_owned(), value)))
                .collect(),
            reasoning_effort: self.reasoning_effort,
            cut,
        })))
    }
}
