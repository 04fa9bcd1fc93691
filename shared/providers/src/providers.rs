//! The adapter: one call goes to the provider that its target names.

use std::fmt;

use async_trait::async_trait;
use everypage_core::{
    domain::target::{Provider, Target},
    ports::vision::{Answer, Finish, PageRequest, Price, Usage, Vision, VisionError},
};
use reqwest::{
    StatusCode,
    header::{HeaderName, HeaderValue},
};

use crate::{
    anthropic,
    failure::{self, Subject},
    openai,
    prices::Prices,
    reading::Reading,
    settings::{Base, ProviderSettings, Settings, SettingsError},
    transport::{Reply, Transport},
};

/// Both providers behind one HTTP client with shared connections. Cheap to share, not to make.
pub struct Providers {
    openai: Endpoint,
    anthropic: Endpoint,
    prices: Prices,
    transport: Transport,
}

struct Endpoint {
    base: Base,
    settings: ProviderSettings,
}

impl Endpoint {
    fn new(provider: Provider, settings: ProviderSettings) -> Result<Self, SettingsError> {
        Ok(Self { base: Base::check(provider, &settings.base_url)?, settings })
    }
}

impl Providers {
    /// Checks the settings; nothing is sent yet.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        let openai = Endpoint::new(Provider::OpenAi, settings.openai.clone())?;
        let anthropic = Endpoint::new(Provider::Anthropic, settings.anthropic.clone())?;
        let transport = Transport::new(&settings, openai.base.https || anthropic.base.https)?;
        Ok(Self { openai, anthropic, prices: settings.prices, transport })
    }

    async fn ask_openai(&self, subject: Subject<'_>) -> Result<Reply, VisionError> {
        let Endpoint { base, .. } = &self.openai;
        if subject.key.is_none() && !base.custom {
            return Err(subject.no_provider("no API key is set"));
        }
        let headers = openai::headers(subject.key).map_err(|_| subject.no_provider(UNSENDABLE_KEY))?;
        let body = openai::body(&subject.target.model, subject.request, base.custom);
        self.post(subject, &base.join(openai::PATH), headers, body).await
    }

    async fn ask_anthropic(&self, subject: Subject<'_>) -> Result<Reply, VisionError> {
        let key = subject.key.ok_or_else(|| subject.no_provider("no API key is set"))?;
        let headers = anthropic::headers(key).map_err(|_| subject.no_provider(UNSENDABLE_KEY))?;
        let body = anthropic::body(&subject.target.model, subject.request);
        self.post(subject, &self.anthropic.base.join(anthropic::PATH), headers, body).await
    }

    async fn post(
        &self,
        subject: Subject<'_>,
        url: &str,
        headers: Headers,
        body: serde_json::Result<Vec<u8>>,
    ) -> Result<Reply, VisionError> {
        let body =
            body.map_err(|error| VisionError::Unknown { detail: format!("{}: {error}", subject.target) })?;
        self.transport.post(url, headers, body).await.map_err(|broken| subject.transient(&broken.0))
    }

    /// What a reply from the API of `target` means; nothing is sent. Headers that HTTP does not
    /// allow are left out.
    pub fn interpret<'a>(
        &self,
        target: &Target,
        request: &PageRequest,
        status: u16,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        body: Vec<u8>,
    ) -> Result<Answer, VisionError> {
        let headers = headers.into_iter().filter_map(|(name, value)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        });
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let reply = Reply { status, headers: headers.collect(), body };
        let endpoint = self.endpoint(target.provider);
        self.understand(Subject { target, request, key: endpoint.settings.key() }, &reply)
    }

    fn understand(&self, subject: Subject<'_>, reply: &Reply) -> Result<Answer, VisionError> {
        if failure::is_refusal(reply) {
            return Ok(Answer { text: String::new(), finish: Finish::Refusal, usage: Usage::default() });
        }
        if !reply.status.is_success() {
            return Err(subject.failure(reply));
        }
        let reading = match subject.target.provider {
            Provider::OpenAi => openai::read(&reply.body),
            Provider::Anthropic => anthropic::read(&reply.body),
        };
        match reading {
            Some(reading) => Ok(self.answer(&subject.target.model, reading)),
            None => Err(subject.not_an_answer(reply)),
        }
    }

    fn endpoint(&self, provider: Provider) -> &Endpoint {
        match provider {
            Provider::OpenAi => &self.openai,
            Provider::Anthropic => &self.anthropic,
        }
    }

    fn answer(&self, model: &str, reading: Reading) -> Answer {
        let (input_tokens, output_tokens) = (reading.tokens.input(), reading.tokens.output());
        let cost_usd = self.prices.cost_usd(model, input_tokens, output_tokens);
        Answer {
            text: reading.text,
            finish: reading.finish,
            usage: Usage { input_tokens, output_tokens, cost_usd },
        }
    }
}

type Headers = Vec<(HeaderName, HeaderValue)>;

const UNSENDABLE_KEY: &str = "the API key has characters that cannot be sent";

#[async_trait]
impl Vision for Providers {
    async fn read_page(&self, target: &Target, request: &PageRequest) -> Result<Answer, VisionError> {
        let key = self.endpoint(target.provider).settings.key();
        let subject = Subject { target, request, key };
        let reply = match target.provider {
            Provider::OpenAi => self.ask_openai(subject).await?,
            Provider::Anthropic => self.ask_anthropic(subject).await?,
        };
        self.understand(subject, &reply)
    }

    fn price(&self, target: &Target) -> Price {
        self.prices.of(&target.model).unwrap_or_default()
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Providers")
            .field("openai", &self.openai.base)
            .field("anthropic", &self.anthropic.base)
            .field("prices", &self.prices)
            .finish_non_exhaustive()
    }
}
