//! The adapter: a call goes to the provider that its target names.

use std::{collections::BTreeMap, fmt};

use async_trait::async_trait;
use everypage_core::{
    ports::vision::{Allowance, Answer, Finish, PageRequest, Price, Usage, Vision, VisionError},
    providers::target::{Provider, Target},
    settings::Settings,
};
use reqwest::{
    StatusCode,
    header::{HeaderName, HeaderValue},
};

use crate::{
    dialect::{Call, Completion, dialect},
    failure,
    prices::Prices,
    rate_limit,
    settings::{BaseUrl, ProviderAccess, SettingsError, VisionSettings},
    transport::{Reply, Transport},
};

/// All providers behind one HTTP client, which shares its connections. Cheap to share, expensive to
/// create.
pub struct HttpVision {
    endpoints: BTreeMap<Provider, Endpoint>,
    prices: Prices,
    transport: Transport,
}

struct Endpoint {
    base: BaseUrl,
    access: ProviderAccess,
}

impl Endpoint {
    fn may_be_called(&self, provider: Provider) -> bool {
        let rule = provider.profile().api_key;
        rule.allows_calls(self.access.key().is_some(), self.base.custom)
    }
}

impl HttpVision {
    /// Checks the settings; nothing is sent yet.
    pub fn new(mut settings: VisionSettings) -> Result<Self, SettingsError> {
        let mut endpoints = BTreeMap::new();
        for provider in Provider::ALL.iter().copied() {
            let access = settings.access.remove(&provider);
            let access = access.unwrap_or_else(|| ProviderAccess::official(provider, None));
            let base = BaseUrl::check(provider, &access.base_url)?;
            endpoints.insert(provider, Endpoint { base, access });
        }
        let https = endpoints.values().any(|endpoint| endpoint.base.https);
        let transport = Transport::new(&settings, https)?;
        Ok(Self { endpoints, prices: settings.prices, transport })
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
        let key = self.endpoint(target.provider).access.key();
        self.parse(Call { target, page, key }, &reply)
    }

    fn parse(&self, call: Call<'_>, reply: &Reply) -> Result<Answer, VisionError> {
        if failure::is_refusal(reply) {
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
            Some(completion) => {
                let allowance = rate_limit::allowance(call.target.provider, &reply.headers);
                Ok(self.answer(&call.target.model, completion, allowance))
            }
            None => Err(call.not_an_answer(reply)),
        }
    }

    fn answer(&self, model: &str, completion: Completion, allowance: Allowance) -> Answer {
        let Completion { text, finish, input_tokens, output_tokens } = completion;
        let cost_usd = self.prices.cost_usd(model, input_tokens, output_tokens);
        Answer { text, finish, usage: Usage { input_tokens, output_tokens, cost_usd }, allowance }
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
        let call = Call { target, page, key: endpoint.access.key() };
        if !endpoint.may_be_called(target.provider) {
            return Err(call.misconfigured("no API key is set"));
        }
        let request = dialect(target.provider).request(call, &endpoint.base).await?;
        let reply = self.transport.post(request).await.map_err(|error| call.transient(&error.0))?;
        self.parse(call, &reply)
    }

    fn price(&self, target: &Target) -> Price {
        self.prices.of(&target.model).unwrap_or_default()
    }
}

impl fmt::Debug for HttpVision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bases: BTreeMap<_, _> =
            self.endpoints.iter().map(|(provider, endpoint)| (provider, &endpoint.base)).collect();
        f.debug_struct("HttpVision")
            .field("base_urls", &bases)
            .field("prices", &self.prices)
            .finish_non_exhaustive()
    }
}
