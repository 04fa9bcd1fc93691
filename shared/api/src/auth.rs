//! Authentication and roles.

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{header::AUTHORIZATION, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use everypage_core::{events::Store, ports::Fault, tenants::api_keys};

pub use everypage_core::tenants::caller::{Caller, Role};

use crate::{
    Api,
    problem::{Code, Problem},
};

/// The caller that an `Authorization` header authenticates; `None` when its key is not valid. For
/// authorizers in front of the router.
pub async fn authenticate(store: &Store, header: Option<&str>) -> Result<Option<Caller>, Fault> {
    let Some((scheme, secret)) = header.and_then(|header| header.trim().split_once(' ')) else {
        return Ok(None);
    };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(None);
    }
    Ok(api_keys::find(store, secret.trim()).await?.map(|key| key.caller))
}

/// Middleware: puts the caller of a valid key into the request. Routes that need one refuse the others.
pub async fn check_key(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    match authenticate(&api.app.store, header).await {
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller.clone());
            let mut response = next.run(request).await;
            // For the access log.
            response.extensions_mut().insert(caller);
            response
        }
        Ok(None) => next.run(request).await,
        Err(fault) => Problem::from(fault).into_response(),
    }
}

/// Extracts a caller of any role; 401 without one.
pub struct Known(pub Caller);

impl<S: Send + Sync> FromRequestParts<S> for Known {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Caller>().cloned().map(Self).ok_or_else(|| {
            let detail = "send a valid API key: Authorization: Bearer ep_…";
            Problem::new(Code::Unauthenticated, detail).with_header("www-authenticate", "Bearer")
        })
    }
}

/// Extracts a caller with the role of an operator; 403 for others.
pub struct Operator(pub Caller);

impl<S: Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Known(caller) = Known::from_request_parts(parts, state).await?;
        match caller.role {
            Role::Operator => Ok(Self(caller)),
            Role::User => Err(Problem::forbidden("this route needs a key with the role operator")),
        }
    }
}
