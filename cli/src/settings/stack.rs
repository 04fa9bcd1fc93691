//! Connects to a deployed stack.

use std::{sync::Arc, time::Duration};

use everypage_aws::{Clients, Stack, discover};
use everypage_core::{ports::traces::Traces, settings::Settings};

use super::{StackAddress, adapters};
use crate::problem::Problem;

/// Enough for a large document over a slow connection.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(3600);

/// Finds the stack by its name; starts and changes nothing.
pub async fn connect(
    settings: &Settings,
    address: &StackAddress,
    traces: Arc<dyn Traces>,
) -> Result<Stack, Problem> {
    let clients = Clients::connect(address.endpoint.clone(), address.region.clone()).await;
    let clients = clients.with_upload_timeout(UPLOAD_TIMEOUT);
    let resources = discover(&clients, &address.stack).await?;
    // `heal` renders images here that a deadline left unrendered.
    Ok(Stack::connect(clients, resources, settings.clone(), adapters::outside(settings, traces).await?)?)
}
