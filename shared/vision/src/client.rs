//! The adapter: a call goes to the provider that its target names.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use everypage_core::{
    ports::{
        signer::RequestSigner,
        vision::{Allowance, Answer, Finish, PageRequest, Price, Usage, Vision, VisionError},
    },
    providers::target::{Provider, Target},
    settings::Settings,
};
use reqwest::{
    StatusCode,
    header::{HeaderName, HeaderValue},
};

use crate::{
    dialect::{Call, Completion, dialect},
    models::Models,
    rate_limit,
    settings::{Endpoint, SettingsError, VisionSettings},
    transport::{Reply, Transport},
};

/// All providers behind one HTTP client, which shares its connections. Cheap to share, expensive to
/// create.
pub struct HttpVision {
    endpoints: BTreeMap<Provider, Endpoint>,
    models: Models,
    transport: Transport,
}

impl HttpVision {
    /// Checks the settings; nothing is sent yet.
    pub fn new(mut settings: VisionSettings) -> Result<Self, SettingsError> {
        let mut endpoints = BTreeMap::new();
        for provider in Provider::ALL.iter().copied() {
            let access = settings.access.remove(&provider).unwrap_or_default();
            endpoints.insert(provider, Endpoint::new(provider, access)?);
        }
        let https = endpoints.values().any(Endpoint::is_https);
        let transport = Transport::new(&settings, https)?;
        Ok(Self { endpoints, models: settings.models, transport })
    }

    /// Lets providers that are called with AWS credentials sign their requests.
    pub fn with_signer(mut self, signer: Arc<dyn RequestSigner>) -> Self {
        for endpoint in self.endpoints.values_mut() {
            endpoint.signer = Some(signer.clone());
        }
        self
    }

    /// The adapter as the program's settings configure it.
    pub fn from_settings(settings: &Settings) -> Result<Self, SettingsError> {
        Self::new(VisionSettings::from_settings(settings)?)
    }

    /// What a reply from the API of `target` means; nothing is sent. Ignores headers that HTTP does
    /// not allow.
    pub fn interpret<'a>(
        &self,
        target: &Target,
        page: &PageRequest,
        status: u16,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        body: Vec<u8>,
    ) -> Result<Answer, VisionError> {
        let headers = headers.into_iter().filter_map(|(name, value)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        });
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let reply = Reply { status, headers: headers.collect(), body };
        self.parse(self.call(target, page), &reply)
    }

    fn call<'a>(&'a self, target: &'a Target, page: &'a PageRequest) -> Call<'a> {
        let limit = self.models.max_output(&target.model).unwrap_or(u32::MAX);
        let key = self.endpoint(target.provider).key();
        Call { target, page, key, max_output_tokens: page.max_output_tokens.min(limit) }
    }

    fn parse(&self, call: Call<'_>, reply: &Reply) -> Result<Answer, VisionError> {
        if call.is_refusal(reply) {
            return Ok(Answer {
                text: String::new(),
                finish: Finish::Refusal,
                usage: Usage::default(),
                allowance: rate_limit::allowance(call.target.provider, &reply.headers),
            });
        }
        if !reply.status.is_success() {
            return Err(call.failure(reply));
        }
        match dialect(call.target.provider).parse(&reply.body) {
            Some(mut completion) => {
                completion.used.is_flex &= call.is_flex();
                let allowance = rate_limit::allowance(call.target.provider, &reply.headers);
                Ok(self.answer(&call.target.model, completion, allowance))
            }
            None => Err(call.not_an_answer(reply)),
        }
    }

    fn answer(&self, model: &str, completion: Completion, allowance: Allowance) -> Answer {
        let Completion { text, finish, used } = completion;
        let cost_usd = self.models.cost_usd(model, &used);
        let usage = Usage { input_tokens: used.input, output_tokens: used.output, cost_usd };
        Answer { text, finish, usage, allowance }
    }

    fn endpoint(&self, provider: Provider) -> &Endpoint {
        // `new` inserts every provider.
        &self.endpoints[&provider]
    }
}

#[async_trait]
impl Vision for HttpVision {
    async fn read_page(&self, target: &Target, page: &PageRequest) -> Result<Answer, VisionError> {
        let endpoint = self.endpoint(target.provider);
        let call = self.call(target, page);
        match endpoint.missing(target.provider).as_slice() {
            [] => {}
            [name] => return Err(call.misconfigured(&format!("{name} is not set"))),
            names => return Err(call.misconfigured(&format!("{} are not set", names.join(" and ")))),
        }
        let request = dialect(target.provider).request(call, endpoint).await?;
        let reply = self.transport.post(request).await.map_err(|error| call.transient(&error.0))?;
        self.parse(call, &reply)
    }

    fn has_flex(&self, target: &Target) -> bool {
        // Another server has tiers of its own, if any.
        let is_custom = self.endpoint(target.provider).is_custom() && target.provider == Provider::OpenAi;
        let has_tiers = match target.provider {
            Provider::OpenAi | Provider::Gemini | Provider::Azure | Provider::Bedrock => true,
            Provider::Anthropic | Provider::Mistral => false,
        };
        has_tiers && !is_custom && self.models.has_flex(&target.model)
    }

    fn price(&self, target: &Target) -> Option<Price> {
        self.models.price(&target.model)
    }
}

impl fmt::Debug for HttpVision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpVision")
            .field("base_urls", &self.endpoints)
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}
