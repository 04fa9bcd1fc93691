//! The HTTP API: one router for every engine, over [`everypage_core::app::App`].
//!
//! ```text
//! let api = Api::new(app).checking_keys();          // `Authorization: Bearer ep_…`
//! let router = everypage_api::router(api);          // an axum::Router
//! ```
//!
//! Where somebody else has checked who is calling (a Lambda authorizer, a test), leave
//! [`Api::checking_keys`] out and put a [`Caller`] into the request's extensions. A request without
//! one gets `401`, so that nothing is open by mistake.

mod accept;
mod answer;
mod auth;
mod cursor;
mod document;
mod documents;
mod limit;
mod problem;
mod routes;
pub mod shape;
mod spool;
mod stream;

use std::{num::NonZeroU32, path::PathBuf, sync::Arc, time::Duration};

use axum::{Router, extract::DefaultBodyLimit, http::HeaderValue, middleware};
use everypage_core::{
    app::{App, Stop},
    domain::ids::JobId,
    ports::{downloads::DownloadLinks, uploads::UploadLinks},
};
use tower_http::{
    catch_panic::CatchPanicLayer,
    request_id::{MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer},
};

pub use auth::{Caller, Role, authenticate};
pub use document::openapi;
pub use limit::Peer;
pub use problem::{Problem, Rejected};

/// Bodies other than documents are small.
const MOST_JSON: usize = 64 * 1024;

/// How long an estimate or a redrive may take before it answers with what is left; API Gateway waits 30 s.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a link for an upload is good.
const LINK_TIME: Duration = Duration::from_secs(3600);

/// What a function on AWS can answer with: Lambda has 6 MB, of which base64 and JSON take their share.
pub const MOST_CARRIED: usize = 4 << 20;

/// How long a link for a large result is good.
const DOWNLOAD_TIME: Duration = Duration::from_secs(300);

/// Makes the messages of a job that has ended come to a worker, where that takes more than sending
/// them: a local engine delivers them only to the process that has taken the job on.
pub trait Workers: Send + Sync {
    /// Messages of the job were sent. Should this be forgotten by a crash, they are found later.
    fn attend(&self, job: &JobId);
}

/// Writes what this process has recorded, as Prometheus has it.
pub type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// What the routes work with.
#[derive(Clone)]
pub struct Api {
    app: Arc<App>,
    documents: Arc<documents::Documents>,
    links: Option<Arc<dyn UploadLinks>>,
    downloads: Option<Arc<dyn DownloadLinks>>,
    workers: Option<Arc<dyn Workers>>,
    metrics: Option<Metrics>,
    streams: Option<stream::Streams>,
    draws: bool,
    limits: Option<Arc<limit::Limits>>,
    spool: Option<PathBuf>,
    patience: Duration,
    link_time: Duration,
    checks_keys: bool,
}

impl Api {
    pub fn new(app: Arc<App>) -> Self {
        Self {
            app,
            documents: Default::default(),
            links: None,
            downloads: None,
            workers: None,
            metrics: None,
            streams: None,
            draws: false,
            limits: None,
            spool: None,
            patience: PATIENCE,
            link_time: LINK_TIME,
            checks_keys: false,
        }
    }

    /// Large documents may be uploaded past the API.
    pub fn with_links(self, links: Arc<dyn UploadLinks>) -> Self {
        Self { links: Some(links), ..self }
    }

    /// Results over [`MOST_CARRIED`] are read past the API.
    pub fn with_downloads(self, downloads: Arc<dyn DownloadLinks>) -> Self {
        Self { downloads: Some(downloads), ..self }
    }

    pub fn with_workers(self, workers: Arc<dyn Workers>) -> Self {
        Self { workers: Some(workers), ..self }
    }

    /// What the process has recorded is told at `/metrics`.
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Events may be listened to as they happen, until `stop` is asked for.
    pub fn streaming(self, stop: Stop) -> Self {
        Self { streams: Some(stream::Streams::new(stop)), ..self }
    }

    /// Pages that went to no model are drawn for whoever looks at them.
    pub fn drawing(self) -> Self {
        Self { draws: true, ..self }
    }

    /// Each caller may ask so often a second over a while, and twice as often for a moment.
    pub fn limiting(self, per_second: NonZeroU32) -> Self {
        Self { limits: Some(Arc::new(limit::Limits::new(per_second))), ..self }
    }

    /// Documents wait in this folder while they are read from the network, instead of in the
    /// system's temporary one.
    pub fn spooling_in(self, folder: PathBuf) -> Self {
        Self { spool: Some(folder), ..self }
    }

    /// How long a request may take that does many things one after the other.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Callers show an API key: `Authorization: Bearer ep_…`.
    pub fn checking_keys(self) -> Self {
        Self { checks_keys: true, ..self }
    }
}

/// Every route, ready to be served.
pub fn router(api: Api) -> Router {
    router_beside(api, Router::new())
}

/// The same with files beside them: the same errors hold for those, but nobody is counted for reading
/// them.
pub fn router_beside(api: Api, others: Router<Api>) -> Router {
    let (router, _) = document::routes().split_for_parts();
    let ids = RequestIds(api.app.clone());
    let router = match &api.limits {
        Some(_) => router.layer(middleware::from_fn_with_state(api.clone(), limit::count)),
        None => router,
    };
    // In this order what is nowhere is counted too: of two routers' answers to it the second's stays.
    let router = others.merge(router).layer(DefaultBodyLimit::max(MOST_JSON));
    let router = match api.checks_keys {
        true => router.layer(middleware::from_fn_with_state(api.clone(), auth::check_key)),
        false => router,
    };
    router
        .layer(CatchPanicLayer::custom(problem::panicked))
        .layer(middleware::from_fn(problem::for_every_error))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(SetRequestIdLayer::x_request_id(ids))
        .with_state(api)
}

/// Names requests that come without a name.
#[derive(Clone)]
struct RequestIds(Arc<App>);

impl MakeRequestId for RequestIds {
    fn make_request_id<B>(&mut self, _: &axum::http::Request<B>) -> Option<RequestId> {
        HeaderValue::from_str(&self.0.ids.fresh()).ok().map(RequestId::new)
    }
}
