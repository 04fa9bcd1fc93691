//! Who is calling.

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{header::AUTHORIZATION, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use everypage_core::{app::App, ports::Fault, store::keys};

pub use everypage_core::domain::caller::{Caller, Role};

use crate::{
    Api,
    problem::{self, Problem},
};

/// Who shows this `Authorization` header; `None` when nobody we know does. For authorizers that
/// stand before the router.
pub async fn authenticate(app: &App, header: Option<&str>) -> Result<Option<Caller>, Fault> {
    let Some((scheme, secret)) = header.and_then(|header| header.trim().split_once(' ')) else {
        return Ok(None);
    };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(None);
    }
    Ok(keys::find(app, secret.trim()).await?.map(|key| key.caller))
}

/// Lets the routes know who calls; those that must know refuse whom this did not recognize.
pub async fn check_key(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    match authenticate(&api.app, header).await {
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller.clone());
            let mut response = next.run(request).await;
            // For whoever writes down who was answered.
            response.extensions_mut().insert(caller);
            response
        }
        Ok(None) => next.run(request).await,
        Err(fault) => Problem::from(fault).into_response(),
    }
}

/// A caller of any role.
pub struct Known(pub Caller);

impl<S: Send + Sync> FromRequestParts<S> for Known {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Caller>().cloned().map(Self).ok_or_else(|| {
            let detail = "send an API key that is in force: Authorization: Bearer ep_…";
            Problem::new(&problem::UNAUTHENTICATED, detail).with_header("www-authenticate", "Bearer")
        })
    }
}

/// A caller who may look after the system.
pub struct Operator(pub Caller);

impl<S: Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Known(caller) = Known::from_request_parts(parts, state).await?;
        match caller.role {
            Role::Operator => Ok(Self(caller)),
            Role::User => {
                Err(Problem::new(&problem::FORBIDDEN, "this takes a key with the role of an operator"))
            }
        }
    }
}
