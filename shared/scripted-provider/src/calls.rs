//! The scripted provider's report on its calls.

use std::collections::BTreeMap;

use everypage_core::providers::target::Provider;
use serde::Serialize;

use super::{Behaviour, ImageSize, Tier};

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    InFlight,
    /// The response was sent as the behaviour defines it.
    Sent,
    /// The client disconnected first.
    Disconnected,
}

#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// Counts from 1, in the order of arrival.
    pub seq: u64,
    pub provider: Provider,
    pub model: String,
    pub page: Option<u32>,
    pub has_image: bool,
    /// The size of the first image whose format is known.
    pub image: Option<ImageSize>,
    pub tier: Tier,
    /// The request had the headers that identify a caller of this provider.
    pub with_key: bool,
    pub behaviour: Behaviour,
    /// The script's delay before the response.
    pub delay_ms: u64,
    /// `None` while there is no response.
    pub status: Option<u16>,
    pub outcome: Outcome,
    /// Bytes of the response's body that were handed to the connection.
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
    /// A call counts until its response is handed to the connection or the server notices that the
    /// client disconnected, so a client that disconnects and calls again may count twice briefly.
    pub max_in_flight: u64,
    /// Calls that ended, by the status of the response, `closed` or `disconnected`.
    pub results: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub total: u64,
    pub in_flight: u64,
    /// Of all models together.
    pub max_in_flight: u64,
    pub disconnected: u64,
    pub models: Vec<ModelCount>,
    /// Calls by the text form of their behaviour.
    pub behaviours: BTreeMap<String, u64>,
}

impl ModelCount {
    pub(super) fn new((provider, model): &(Provider, String)) -> Self {
        Self {
            provider: *provider,
            model: model.clone(),
            calls: 0,
            in_flight: 0,
            max_in_flight: 0,
            results: BTreeMap::new(),
        }
    }
}
