//! A model's tokens, wherever they come from.
//!
//! Owns the order in which sources are tried, and what is said of a prompt whose tokens nobody
//! knows. It is asked once for each request, before routing, and always has an answer: what can't
//! be exact is an estimate that says so.

use std::sync::Arc;

use bytes::Bytes;
use memchr::memmem;
use thiserror::Error;
use tokio::time::timeout;

use super::conversation::{self, ConversationError};
use super::encode::{Begun, EncodeError, PieceStats, Pieces};
use super::model::{ModelError, ModelTokenizer};
use super::pool::{PoolError, Stop, TokenPool};
use super::prompt::{Chat, Cut, Kind, Prompt, PromptError, Side, Texts};
use super::remote::{self, RemoteError, Tokenize};
use super::settings::{Choice, TokenSettings};
use super::template::{TemplateError, WallTime};
use super::text::{self, Text};
use super::{PromptTokens, Source};

/// Bodies longer than this are read and rendered on the pool's threads too. Rendering 64 KiB takes
/// about 0.1 ms.
const INLINE_BODY: usize = 64 << 10;

/// The same where only their text is cut into chunks, which is faster.
const INLINE_TEXT: usize = 128 << 10;

/// Why tokens aren't exact.
#[derive(Debug, Error)]
pub enum Inexact {
    /// There is neither a tokenizer nor an engine that is to be asked.
    #[error("no tokenizer is set for the model; set one to know prompts' tokens")]
    NoTokenizer,
    /// The model has no template for conversations.
    #[error("the model's tokenizer has no chat template; set the engine's as chat_template")]
    NoTemplate,
    /// The request brings its own template, which only an engine may render.
    #[error(
        "the request brings its own chat template, which only the engine renders; leave it out"
    )]
    OwnTemplate,
    /// The engine makes the model's prompts with code of its own.
    #[error(
        "the engine makes prompts of this model with {0}, without a template; set source to engine"
    )]
    OwnFormat(&'static str),
    /// The body has no prompt of a known form.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The conversation isn't one for a template.
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    /// The template failed.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The tokenizer failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The prompt is too long.
    #[error("the prompt has {bytes} bytes, more than {most}; raise the limit of the prompt's text")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The pool is full.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The engine gave none.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

impl Inexact {
    /// A word for it in metrics.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::NoTokenizer => "no_tokenizer",
            Self::NoTemplate => "no_template",
            Self::OwnTemplate => "own_template",
            Self::OwnFormat(_) => "own_format",
            Self::Prompt(PromptError::Unknown) => "unknown_kind",
            Self::Prompt(_) | Self::Conversation(ConversationError::Refused(_)) => "bad_prompt",
            Self::Conversation(ConversationError::Media(_)) => "media",
            Self::Template(TemplateError::Refused(_)) => "bad_prompt",
            Self::Template(TemplateError::TooLong { .. }) | Self::TooLong { .. } => "too_long",
            Self::Template(_) => "template_failed",
            Self::Encode(EncodeError::UnknownLength) => "cut",
            Self::Encode(EncodeError::TooManySpaces { .. }) => "too_many_spaces",
            Self::Encode(EncodeError::TooLongAtOnce { .. }) => "too_long",
            Self::Encode(EncodeError::Stopped) | Self::Pool(PoolError::Late(_)) => "late",
            Self::Encode(EncodeError::Tokenizer(_)) => "tokenizer_failed",
            Self::Pool(_) => "busy",
            Self::Remote(_) => "engine",
        }
    }

    /// Whether an engine could know better.
    fn is_for_the_engine(&self) -> bool {
        !matches!(
            self,
            Self::Prompt(_) | Self::Conversation(_) | Self::TooLong { .. } | Self::Remote(_)
        )
    }
}

/// All that knows one model's tokens.
#[derive(Debug)]
pub struct ModelTokens {
    settings: TokenSettings,
    model: Option<ModelTokenizer>,
    pieces: Pieces,
    pool: Arc<TokenPool>,
}

/// A prompt that is made into tokens: its texts, begun.
struct Work {
    begun: Vec<Begun>,
    special: bool,
    cut: Option<Cut>,
    side: Side,
}

impl ModelTokens {
    /// Reads the model's files, if it has some.
    pub fn load(settings: TokenSettings, pool: Arc<TokenPool>) -> Result<Arc<Self>, ModelError> {
        let used = matches!(settings.source, Choice::Auto | Choice::Tokenizer);
        let files = settings.tokenizer.as_deref().filter(|_| used);
        let model = files.map(|files| ModelTokenizer::load(files, &settings)).transpose()?;
        let pieces = Pieces::new(settings.limits.cache_bytes);
        Ok(Arc::new(Self { settings, model, pieces, pool }))
    }

    /// What its cache has done.
    #[must_use]
    pub fn cache(&self) -> PieceStats {
        self.pieces.stats()
    }

    /// The tokens of a request's prompt, and why they aren't exact if they aren't.
    ///
    /// The time is for templates that write the date. The engine is asked if the settings say so,
    /// and, under [`Choice::Auto`], for what a tokenizer that is there can't do.
    pub async fn tokens(
        self: &Arc<Self>,
        kind: Kind,
        body: &Bytes,
        unix_seconds: i64,
        engine: Option<&dyn Tokenize>,
    ) -> (PromptTokens, Option<Inexact>) {
        let now = WallTime { unix_seconds, utc_offset: self.settings.utc_offset };
        let problem = match self.local(kind, body, now).await {
            Ok(tokens) => return (tokens, None),
            Err(problem) => problem,
        };
        let asks = match self.settings.source {
            Choice::Engine => true,
            Choice::Auto => self.model.is_some() && problem.is_for_the_engine(),
            Choice::Tokenizer | Choice::Text => false,
        };
        let problem = match engine.filter(|_| asks) {
            None => problem,
            Some(engine) => match self.remote(kind, body, engine).await {
                Ok(tokens) => return (tokens, None),
                Err(problem) => problem,
            },
        };
        // Where threads have too much to do, they get no more of it.
        let estimate = match problem {
            Inexact::Pool(_) => self.of_length(body.len()),
            _ => self.estimate(body).await,
        };
        (estimate, Some(problem))
    }

    /// What a tokenizer or the client says.
    async fn local(
        self: &Arc<Self>,
        kind: Kind,
        body: &Bytes,
        now: WallTime,
    ) -> Result<PromptTokens, Inexact> {
        self.check_length(kind, body)?;
        // Nobody here can make tokens of it: it needn't be read for that.
        let is_hopeless = self.model.is_none() && self.settings.source != Choice::Engine;
        if is_hopeless && kind == Kind::Chat && memmem::find(body, b"token_data").is_none() {
            return Err(Inexact::NoTokenizer);
        }
        let begin = {
            let (this, body) = (Arc::clone(self), body.clone());
            move |_: &Stop| this.begin(kind, &body, now)
        };
        let begun = match body.len() > INLINE_BODY {
            true => self.pool.run(body.len(), begin).await?,
            false => begin(&Stop::default()),
        };
        let work = match begun? {
            Ok(tokens) => return Ok(tokens),
            Err(work) => work,
        };
        let missing: usize = work.begun.iter().map(Begun::missing_bytes).sum();
        if missing <= self.settings.limits.inline_bytes {
            return self.finish(work, &Stop::default());
        }
        let this = Arc::clone(self);
        self.pool.run(missing, move |stop| this.finish(work, stop)).await?
    }

    /// A conversation far longer than what is made into tokens isn't even read: its JSON may take
    /// two bytes for each of its text, and some have fields besides.
    fn check_length(&self, kind: Kind, body: &[u8]) -> Result<(), Inexact> {
        let most = self.settings.limits.text_bytes;
        let far = most.saturating_mul(2).saturating_add(INLINE_BODY);
        if kind == Kind::Chat && body.len() > far && memmem::find(body, b"token_data").is_none() {
            return Err(Inexact::TooLong { bytes: body.len(), most });
        }
        Ok(())
    }

    /// Reads and renders: tokens if they are there, else what is to be made into some.
    fn begin(
        &self,
        kind: Kind,
        body: &[u8],
        now: WallTime,
    ) -> Result<Result<PromptTokens, Work>, Inexact> {
        let prompt = match Prompt::read(kind, body)? {
            Prompt::Ids(prompts) => return Ok(Ok(PromptTokens::exact(prompts, Source::Client))),
            prompt => prompt,
        };
        let model = self.model.as_ref().ok_or(Inexact::NoTokenizer)?;
        let (texts, special, cut) = match prompt {
            Prompt::Texts(Texts { texts, add_special_tokens, cut }) => {
                (texts, add_special_tokens, cut)
            }
            Prompt::Chat(chat) => {
                let (special, cut) = (chat.add_special_tokens, chat.cut);
                (vec![self.render(model, *chat, now)?], special, cut)
            }
            Prompt::Ids(_) => (Vec::new(), false, None),
        };
        let (bytes, most) = (texts.iter().map(String::len).sum(), self.settings.limits.text_bytes);
        if bytes > most {
            return Err(Inexact::TooLong { bytes, most });
        }
        // vLLM's own choice for models that generate, whatever the tokenizer's file says.
        let side = if kind == Kind::Embeddings { Side::Right } else { Side::Left };
        let encoder = model.encoder();
        let begin = |text| encoder.begin(text, special, &self.pieces);
        Ok(Err(Work { begun: texts.into_iter().map(begin).collect(), special, cut, side }))
    }

    fn render(&self, model: &ModelTokenizer, chat: Chat, now: WallTime) -> Result<String, Inexact> {
        if chat.has_template {
            return Err(Inexact::OwnTemplate);
        }
        let has_tools =
            chat.tools.is_some() && !(chat.no_tool && self.settings.exclude_tools_when_none);
        if let Some(format) = model.own_format() {
            return Err(Inexact::OwnFormat(format));
        }
        let template = model.template_for(has_tools).ok_or(Inexact::NoTemplate)?;
        let rendering = conversation::rendering(chat, template, &self.settings, now)?;
        Ok(template.render(rendering)?)
    }

    /// The text of a conversation.
    #[cfg(test)]
    pub(super) fn text(&self, body: &[u8], unix_seconds: i64) -> Result<String, Inexact> {
        let now = WallTime { unix_seconds, utc_offset: self.settings.utc_offset };
        let model = self.model.as_ref().ok_or(Inexact::NoTokenizer)?;
        match Prompt::read(Kind::Chat, body)? {
            Prompt::Chat(chat) => self.render(model, *chat, now),
            _ => Err(PromptError::Missing.into()),
        }
    }

    fn finish(&self, work: Work, stop: &Stop) -> Result<PromptTokens, Inexact> {
        let model = self.model.as_ref().ok_or(Inexact::NoTokenizer)?;
        let encoder = model.encoder();
        let mut prompts = Vec::with_capacity(work.begun.len());
        for begun in work.begun {
            let tokens = encoder.finish(begun, &self.pieces, stop)?;
            prompts.push(encoder.cut(tokens, work.cut, work.special, work.side)?);
        }
        Ok(PromptTokens::exact(prompts, Source::Tokenizer))
    }

    /// What an engine says.
    async fn remote(
        &self,
        kind: Kind,
        body: &[u8],
        engine: &dyn Tokenize,
    ) -> Result<PromptTokens, Inexact> {
        let (question, prompts) = remote::question(kind, body, &self.settings)?;
        let time = self.settings.limits.engine_timeout;
        let answer = timeout(time, engine.tokenize(question)).await;
        let answer = answer.map_err(|_| RemoteError::TimedOut)??;
        let first = remote::answer(&answer)?;
        let mut tokens = PromptTokens::of_first(first, prompts, Source::Engine);
        if prompts > 1 {
            // One question is enough for the cache; the others' length is an estimate.
            tokens.count = tokens.count.max(self.estimated_count(body));
            tokens.exact = false;
        }
        Ok(tokens)
    }

    /// What the text shows: of a long one on the pool's threads, or of its length alone if these
    /// have too much to do.
    async fn estimate(self: &Arc<Self>, body: &Bytes) -> PromptTokens {
        if body.len() <= INLINE_TEXT {
            return self.estimated(body);
        }
        let (this, copy) = (Arc::clone(self), body.clone());
        let estimated = self.pool.run(body.len(), move |_| this.estimated(&copy)).await;
        estimated.unwrap_or_else(|_| self.of_length(body.len()))
    }

    fn of_length(&self, bytes: usize) -> PromptTokens {
        let (tokens, count) = (Arc::default(), self.tokens_in(bytes));
        PromptTokens { tokens, count, prompts: 1, exact: false, source: Source::Text }
    }

    fn estimated(&self, body: &[u8]) -> PromptTokens {
        let (most, size) = (self.settings.limits.text_bytes, self.settings.bytes_per_token);
        let Text { tokens, bytes } = text::read(body, most, size);
        let count = self.tokens_in(bytes);
        PromptTokens {
            tokens: tokens.into(),
            count,
            prompts: 1,
            exact: false,
            source: Source::Text,
        }
    }

    fn estimated_count(&self, body: &[u8]) -> u64 {
        let (most, size) = (self.settings.limits.text_bytes, self.settings.bytes_per_token);
        self.tokens_in(text::read(body, most, size).bytes)
    }

    fn tokens_in(&self, bytes: usize) -> u64 {
        (bytes as u64).div_ceil(u64::from(self.settings.bytes_per_token.max(1)))
    }
}

#[cfg(test)]
mod tests;
