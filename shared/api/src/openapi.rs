//! The routes and the OpenAPI document, which is generated from them.

use std::sync::LazyLock;

use axum::extract::DefaultBodyLimit;
use everypage_core::finish::result::ResultDocument;
use strum::IntoEnumIterator;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        self, Components, ContentBuilder, ObjectBuilder, Ref, RefOr, Response, ResponseBuilder, Schema,
        schema::Type,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt},
    routes,
};

use crate::{
    Api, format,
    problem::{self, Code, FieldError},
    routes::{
        account, breakers, decisions, dlq, events, health, jobs, load, me, notices, page, pages, results,
        stats, submit, webhook,
    },
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Everypage",
        description = "Turns PDFs into text with vision AI and always finishes: every page ends with text.\n\n\
            Errors are RFC 9457 problem documents with a stable `code`. A key belongs to a tenant: jobs and \
            other objects of other tenants do not exist for it (404).",
        license(name = "AGPL-3.0-or-later", identifier = "AGPL-3.0-or-later"),
    ),
    components(schemas(problem::Document, FieldError, ResultDocument)),
    modifiers(&ApiKeys),
    security(("key" = [])),
    tags(
        (name = "jobs", description = "Documents, their pages and results"),
        (name = "account", description = "The tenant's credits"),
        (name = "operation", description = "Approvals, dead letters, circuit breakers and webhooks; for operators"),
        (name = "service", description = "The service itself"),
    ),
)]
struct Base;

/// Declares the authentication of every route.
struct ApiKeys;

impl Modify for ApiKeys {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let key = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("ep_…").build();
        document
            .components
            .get_or_insert_with(Components::new)
            .add_security_scheme("key", SecurityScheme::Http(key));
    }
}

/// Declares once that any route may respond with a problem.
fn add_problems(document: &mut openapi::OpenApi) {
    let codes: Vec<String> =
        Code::iter().map(|code| format!("`{}` ({})", code.name(), code.status().as_u16())).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let problem = ResponseBuilder::new()
        .description(format!("A problem document; its `code` is one of {}", codes.join(", ")))
        .content(problem::MEDIA_TYPE, content)
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
}

/// Declares a body for every format of a result.
fn add_formats(document: &mut openapi::OpenApi) {
    let mut operations = document.paths.paths.values_mut().filter_map(|item| item.get.as_mut());
    let route = operations.find(|operation| operation.operation_id.as_deref() == Some(results::OPERATION));
    let response = route.and_then(|operation| operation.responses.responses.get_mut("200"));
    if let Some(RefOr::T(Response { content, .. })) = response {
        content.extend(format::contents().map(|(media_type, body)| (media_type.to_owned(), body.into())));
    }
}

/// The schema of a text that is one of `names`. It has its own description: a field with `schema_with` has
/// none.
pub fn one_of<'a>(names: impl IntoIterator<Item = &'a str>, description: &str) -> Schema {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(names))
        .description(Some(description))
        .build()
        .into()
}

/// Every route with its description.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(Base::openapi())
        // The size of a document is checked while it is received.
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
        .routes(routes!(notices::list))
        .routes(routes!(breakers::list))
        .routes(routes!(load::load))
        .routes(routes!(events::of_tenant))
        .routes(routes!(stats::stats))
        .routes(routes!(me::me))
        .routes(routes!(webhook::list, webhook::add))
        .routes(routes!(webhook::get, webhook::change, webhook::remove))
        .routes(routes!(webhook::deliveries))
        .routes(routes!(webhook::show, webhook::set, webhook::unset))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(health::document))
}

/// The OpenAPI 3.1 document of every route.
pub fn openapi() -> &'static openapi::OpenApi {
    static DOCUMENT: LazyLock<openapi::OpenApi> = LazyLock::new(|| {
        let mut document = routes().into_openapi();
        add_problems(&mut document);
        add_formats(&mut document);
        document
    });
    &DOCUMENT
}
