//! A deployed stack, connected.

use std::{sync::Arc, time::Duration};

use everypage_aws::{Clients, Stack, discover};
use everypage_core::{config::Settings, ports::traces::Traces};

use super::{StackAddress, engine};
use crate::problem::Problem;

/// Documents may be large, and lines slow.
const UPLOAD: Duration = Duration::from_secs(3600);

/// Finds the stack by its name. Nothing of it is started or changed.
pub async fn connect(
    settings: &Settings,
    address: &StackAddress,
    traces: Arc<dyn Traces>,
) -> Result<Stack, Problem> {
    let clients = Clients::connect(address.endpoint.clone(), address.region.clone()).await;
    let clients = clients.with_upload_timeout(UPLOAD);
    let resources = discover(&clients, &address.stack).await?;
    // Images that a deadline left unmade are made here, if somebody asks for them (`heal`).
    Ok(Stack::connect(clients, resources, settings.clone(), engine::outside(settings, traces)?)?)
}
