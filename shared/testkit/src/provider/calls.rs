//! What the scripted provider tells of the calls it got.

use std::collections::BTreeMap;

use everypage_core::domain::target::Provider;
use serde::Serialize;

use super::{Behaviour, ImageSize};

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    InFlight,
    /// The response went out as the behaviour has it.
    Sent,
    /// The client left first.
    Disconnected,
}

#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// From 1, in the order in which the calls came.
    pub seq: u64,
    pub provider: Provider,
    pub model: String,
    pub page: Option<u32>,
    pub has_image: bool,
    /// Of the first image whose format is known.
    pub image: Option<ImageSize>,
    /// The headers by which this vendor knows its callers were there.
    pub with_key: bool,
    pub behaviour: Behaviour,
    pub outcome: Outcome,
    /// Of the response's body, as handed to the connection.
    pub bytes_sent: u64,
    /// Milliseconds since the provider started.
    pub started_ms: u64,
    pub finished_ms: Option<u64>,
}

/// The calls of one provider:model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelCount {
    pub provider: Provider,
    pub model: String,
    pub calls: u64,
    pub in_flight: u64,
    /// A call counts until its response is handed over, or until it is noticed that the client
    /// left: so a client that hangs up and calls again at once may be seen twice for a moment.
    pub max_in_flight: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub total: u64,
    pub in_flight: u64,
    pub disconnected: u64,
    pub models: Vec<ModelCount>,
    /// By the text form of the behaviour.
    pub behaviours: BTreeMap<String, u64>,
}

impl ModelCount {
    pub(super) fn new((provider, model): &(Provider, String)) -> Self {
        Self { provider: *provider, model: model.clone(), calls: 0, in_flight: 0, max_in_flight: 0 }
    }
}
