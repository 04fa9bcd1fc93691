//! `everypage mcp`: documents for assistants, as tools and resources of the Model Context Protocol.
//!
//! It speaks over standard input and output, so that nothing else may be written there. A text is returned in
//! excerpts of a bounded size, each with the place where the next one starts.

mod excerpt;
mod resources;
mod search;
mod tools;

use std::time::Duration;

use everypage_core::{
    finish::{provisional::provisional, result::ResultDocument, results},
    job::Job,
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    handler::server::router::tool::ToolRouter,
    model::{
        ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams, ReadResourceRequestParams,
        ReadResourceResponse, ServerCapabilities, ServerConfig,
    },
    service::{RequestContext, ServerInitializeError},
    tool_handler,
    transport::stdio,
};
use tokio_util::sync::CancellationToken;

use crate::{backend::Backend, problem::Problem};

/// The time that pages in progress have after the client has closed the connection.
const GRACE: Duration = Duration::from_secs(5);

const INSTRUCTIONS: &str = "\
Reads PDFs: every page ends with text, from a vision model or from the document itself. \
`read_document` takes the path of a file and returns the start of its text; `read_pages` continues at `next`. \
A document that takes longer than `wait_seconds` continues in the background: call `job_status`, then \
`read_pages`. `search` finds words in documents that were read.";

/// Serves one client until it closes the connection. Jobs that are open then continue in the stack, or at the
/// next start of any command on this machine.
pub async fn serve(backend: Backend) -> Result<(), Problem> {
    let stop = CancellationToken::new();
    let talk = async {
        let talked = talk(&backend).await;
        stop.cancel();
        talked
    };
    let grace = async {
        stop.cancelled().await;
        backend.app().store.clock.sleep(GRACE).await;
    };
    let work = async {
        tokio::select! {
            biased;
            worked = backend.work_until(&stop) => worked,
            () = grace => Ok(()),
        }
    };
    let (talked, worked) = tokio::join!(talk, work);
    worked?;
    backend.flush().await?;
    talked
}

async fn talk(backend: &Backend) -> Result<(), Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::Failed(format!("the connection failed: {error}"));
    match McpServer::new(backend.clone()).serve(stdio()).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| failed(&error)),
        // The client left before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(failed(&error)),
    }
}

/// The tools and resources over one backend.
struct McpServer {
    backend: Backend,
    tool_router: ToolRouter<Self>,
}

impl McpServer {
    fn new(backend: Backend) -> Self {
        Self { backend, tool_router: Self::tool_router() }
    }

    /// The latest result or, while the job runs, the document as it stands; `None` before its text is read.
    async fn document(&self, job: &Job) -> Result<Option<ResultDocument>, Problem> {
        let app = self.backend.app();
        Ok(match job.result {
            Some(_) => results::read_document(app.blobs.as_ref(), job, None).await?,
            None => provisional(&app.store, app.blobs.as_ref(), job).await?,
        })
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let mut config = ServerConfig::new(capabilities).with_instructions(INSTRUCTIONS);
        config.server_info.name = env!("CARGO_PKG_NAME").to_owned();
        config.server_info.version = env!("CARGO_PKG_VERSION").to_owned();
        config
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.list_results(request.and_then(|request| request.cursor)).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.read_result(&request.uri).await.map(Into::into)
    }
}
