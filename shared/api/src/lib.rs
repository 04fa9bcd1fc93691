//! The HTTP API: one router for both backends, over [`everypage_core::app::App`].
//!
//! ```text
//! let api = Api::new(app).checking_keys();          // `Authorization: Bearer ep_…`
//! let router = everypage_api::router(api);          // an axum::Router
//! ```
//!
//! Where something in front of the router authenticates (a Lambda authorizer, a test), leave
//! [`Api::checking_keys`] out and put a [`Caller`] into the request's extensions. A request without one
//! gets `401`, so that no route is open by accident.

mod auth;
mod cursor;
mod format;
mod limit;
mod lookup;
mod openapi;
mod problem;
mod range;
mod request;
mod result_cache;
mod routes;
mod schema;
pub mod shape;
mod shares;
mod stream;

use std::{num::NonZeroU32, path::PathBuf, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

use axum::{Router, extract::DefaultBodyLimit, http::HeaderValue, middleware};
use everypage_core::{
    app::App,
    ids::JobId,
    ports::{downloads::DownloadLinks, uploads::UploadLinks},
};
use tower_http::{
    catch_panic::CatchPanicLayer,
    request_id::{MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer},
};

pub use auth::{Caller, Role, authenticate};
pub use limit::Peer;
pub use openapi::openapi;
pub use problem::{Code as ProblemCode, FieldError, MEDIA_TYPE as PROBLEM_MEDIA_TYPE, Problem};
pub use schema::result_schema;
pub use shares::{Share, Shares};

/// Largest body that is no document.
const MAX_JSON: usize = 64 * 1024;

/// An estimate or a redrive responds after this time and reports what remains; API Gateway waits 30 s.
const BATCH_TIME: Duration = Duration::from_secs(20);

/// How long an upload link is valid.
const UPLOAD_LINK_TTL: Duration = Duration::from_secs(3600);

/// Largest response of a Lambda function: its 6 MB less the overhead of base64 and JSON.
pub const MAX_RESPONSE: usize = 4 << 20;

/// Images that are rendered for one caller at the same time; a person looks at one page.
const MAX_RENDERINGS: usize = 4;

/// How long a link to a large result is valid.
const DOWNLOAD_LINK_TTL: Duration = Duration::from_secs(300);

/// Makes a worker take new messages of a job that has ended. Needed where sending them is not enough: the
/// local backend delivers a job's messages only to the process that drives the job.
pub trait Workers: Send + Sync {
    /// Called after messages of the job were sent. If a crash comes first, the next start finds them.
    fn resume(&self, job: &JobId);
}

/// Renders the metrics of this process as Prometheus text.
pub type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// The state of the routes.
#[derive(Clone)]
pub struct Api {
    app: Arc<App>,
    results: Arc<result_cache::ResultCache>,
    upload_links: Option<Arc<dyn UploadLinks>>,
    download_links: Option<Arc<dyn DownloadLinks>>,
    workers: Option<Arc<dyn Workers>>,
    metrics: Option<Metrics>,
    streams: Option<stream::Streams>,
    /// Renders images on request, if at all: a few for each caller.
    renderings: Option<Arc<Shares<String>>>,
    limits: Option<Arc<limit::Limits>>,
    spool: Option<PathBuf>,
    batch_time: Duration,
    upload_link_ttl: Duration,
    checks_keys: bool,
}

impl Api {
    pub fn new(app: Arc<App>) -> Self {
        Self {
            app,
            results: Default::default(),
            upload_links: None,
            download_links: None,
            workers: None,
            metrics: None,
            streams: None,
            renderings: None,
            limits: None,
            spool: None,
            batch_time: BATCH_TIME,
            upload_link_ttl: UPLOAD_LINK_TTL,
            checks_keys: false,
        }
    }

    /// Offers links for uploading documents directly to the storage.
    pub fn with_upload_links(self, links: Arc<dyn UploadLinks>) -> Self {
        Self { upload_links: Some(links), ..self }
    }

    /// Redirects responses over [`MAX_RESPONSE`] to the storage.
    pub fn with_download_links(self, links: Arc<dyn DownloadLinks>) -> Self {
        Self { download_links: Some(links), ..self }
    }

    pub fn with_workers(self, workers: Arc<dyn Workers>) -> Self {
        Self { workers: Some(workers), ..self }
    }

    /// Serves the metrics of the process at `/metrics`.
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Offers event streams, which end when `stop` is requested.
    pub fn streaming(self, stop: CancellationToken) -> Self {
        Self { streams: Some(stream::Streams::new(stop)), ..self }
    }

    /// Renders images of pages that were not sent to a model, on request.
    pub fn rendering(self) -> Self {
        Self { renderings: Some(Arc::new(Shares::new(MAX_RENDERINGS))), ..self }
    }

    /// Limits each caller to a rate, with a burst of two seconds of it.
    pub fn limiting(self, per_second: NonZeroU32) -> Self {
        Self { limits: Some(Arc::new(limit::Limits::new(per_second, self.app.store.clock.clone()))), ..self }
    }

    /// Stores documents in this folder while they are received, instead of the system's temporary one.
    pub fn spooling_in(self, folder: PathBuf) -> Self {
        Self { spool: Some(folder), ..self }
    }

    /// Sets the time after which a request that handles many dead letters responds.
    pub fn with_batch_time(self, batch_time: Duration) -> Self {
        Self { batch_time, ..self }
    }

    /// Authenticates callers by API key: `Authorization: Bearer ep_…`.
    pub fn checking_keys(self) -> Self {
        Self { checks_keys: true, ..self }
    }
}

/// Every route, ready to be served.
pub fn router(api: Api) -> Router {
    router_with(api, Router::new())
}

/// Every route, and `others` next to them: errors of those are problems too, but no rate limit applies.
pub fn router_with(api: Api, others: Router<Api>) -> Router {
    let (router, _) = openapi::routes().split_for_parts();
    let ids = RequestIds(api.app.clone());
    let router = match &api.limits {
        Some(_) => router.layer(middleware::from_fn_with_state(api.clone(), limit::limit)),
        None => router,
    };
    // In this order the rate limit applies to unknown paths too: the fallback of the second router stays.
    let router = others.merge(router).layer(DefaultBodyLimit::max(MAX_JSON));
    let router = match api.checks_keys {
        true => router.layer(middleware::from_fn_with_state(api.clone(), auth::check_key)),
        false => router,
    };
    router
        .layer(middleware::from_fn(range::ranges))
        .layer(CatchPanicLayer::custom(problem::panicked))
        .layer(middleware::from_fn(problem::for_every_error))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(SetRequestIdLayer::x_request_id(ids))
        .with_state(api)
}

/// Gives an id to requests without `x-request-id`.
#[derive(Clone)]
struct RequestIds(Arc<App>);

impl MakeRequestId for RequestIds {
    fn make_request_id<B>(&mut self, _: &axum::http::Request<B>) -> Option<RequestId> {
        HeaderValue::from_str(&self.0.store.ids.fresh()).ok().map(RequestId::new)
    }
}
