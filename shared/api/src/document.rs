//! The routes and the OpenAPI document, which is made from them.

use std::sync::LazyLock;

use axum::extract::DefaultBodyLimit;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        self, Components, ContentBuilder, Ref, RefOr, ResponseBuilder,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt},
    routes,
};

use crate::{
    Api,
    problem::{self, KINDS, Rejected},
    routes::{
        account, breakers, decisions, dlq, events, health, jobs, load, me, page, pages, results, stats,
        submit, webhook,
    },
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Everypage",
        description = "Turns PDFs into text with vision AI, and always finishes: every page ends with text.\n\n\
            Errors are RFC 9457 problem documents; `code` is stable. Everything belongs to the tenant of the \
            caller's key: what is another tenant's does not exist.",
        license(name = "AGPL-3.0-or-later", identifier = "AGPL-3.0-or-later"),
    ),
    components(schemas(problem::Document, Rejected)),
    modifiers(&Rest),
    security(("key" = [])),
    tags(
        (name = "jobs", description = "Documents and what becomes of them"),
        (name = "account", description = "The tenant's credits"),
        (name = "operation", description = "Dead letters and breakers; for operators"),
        (name = "service", description = "The service itself; for everybody"),
    ),
)]
struct Base;

/// What holds for every route.
struct Rest;

impl Modify for Rest {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let key = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("ep_…").build();
        document
            .components
            .get_or_insert_with(Components::new)
            .add_security_scheme("key", SecurityScheme::Http(key));
    }
}

/// Any route may answer with a problem; which ones there are is said once.
fn with_problems(mut document: openapi::OpenApi) -> openapi::OpenApi {
    let codes: Vec<String> =
        KINDS.iter().map(|kind| format!("`{}` ({})", kind.code, kind.status.as_u16())).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let problem = ResponseBuilder::new()
        .description(format!("A problem document; its `code` is one of {}", codes.join(", ")))
        .content("application/problem+json", content)
        .build();
    let components = document.components.get_or_insert_with(Components::new);
    components.responses.insert("Problem".to_owned(), problem.into());
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let problem = RefOr::Ref(Ref::from_response_name("Problem"));
            operation.responses.responses.insert("default".to_owned(), problem);
        }
    }
    document
}

/// Every route there is, each with its own description.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(Base::openapi())
        // A document is measured while it is read.
        .routes(routes!(jobs::list, submit::submit).layer(DefaultBodyLimit::disable()))
        .routes(routes!(jobs::show, jobs::delete))
        .routes(routes!(pages::pages))
        .routes(routes!(page::page))
        .routes(routes!(page::image))
        .routes(routes!(results::result))
        .routes(routes!(events::events))
        .routes(routes!(jobs::cancel))
        .routes(routes!(decisions::approve))
        .routes(routes!(decisions::reject))
        .routes(routes!(decisions::modify))
        .routes(routes!(jobs::heal))
        .routes(routes!(account::show))
        .routes(routes!(account::ledger))
        .routes(routes!(account::buy))
        .routes(routes!(account::list))
        .routes(routes!(account::purchase))
        .routes(routes!(dlq::list))
        .routes(routes!(dlq::estimate))
        .routes(routes!(dlq::redrive))
        .routes(routes!(dlq::purge))
        .routes(routes!(breakers::list))
        .routes(routes!(load::load))
        .routes(routes!(events::of_tenant))
        .routes(routes!(stats::stats))
        .routes(routes!(me::me))
        .routes(routes!(webhook::show, webhook::set, webhook::unset))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(health::document))
}

/// The OpenAPI 3.1 document of every route.
pub fn openapi() -> &'static openapi::OpenApi {
    static DOCUMENT: LazyLock<openapi::OpenApi> = LazyLock::new(|| with_problems(routes().into_openapi()));
    &DOCUMENT
}
