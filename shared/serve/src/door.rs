//! Who gets in, before any route is asked.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Router,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue,
        header::{AUTHORIZATION, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS},
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use everypage_api::{Caller, Problem, Role};
use everypage_core::{app::App, domain::ids::TenantId, store::keys};

struct Door {
    app: Arc<App>,
    /// No key was ever made: who is on this machine may do everything.
    open: AtomicBool,
}

pub fn guard(router: Router, app: Arc<App>, open: bool) -> Router {
    let door = Arc::new(Door { app, open: AtomicBool::new(open) });
    router.layer(middleware::from_fn_with_state(door, pass)).layer(middleware::map_response(plain))
}

async fn pass(State(door): State<Arc<Door>>, mut request: Request, next: Next) -> Response {
    if door.is_open().await && !request.headers().contains_key(AUTHORIZATION) {
        // A page of some other site, open in a browser of this machine, could ask us things too.
        if let Some(name) = passed_on(request.headers()) {
            let why = format!(
                "this came through a proxy ({name}), so from anywhere, and no API key was ever made here: \
                 make one with `everypage keys create --role operator` and send it"
            );
            return Problem::forbidden(why).into_response();
        }
        if !from_here(request.headers()) {
            let why = "without API keys only this machine's own pages and programs may ask";
            return Problem::forbidden(why).into_response();
        }
        let tenant = TenantId::new(door.app.settings.tenant.clone());
        let caller = Caller { tenant, user: "this machine".to_owned(), role: Role::Operator };
        request.extensions_mut().insert(caller.clone());
        let mut response = next.run(request).await;
        response.extensions_mut().insert(caller);
        return response;
    }
    next.run(request).await
}

impl Door {
    /// Closed for good as soon as a key is made. When the store can't tell, it stays shut.
    async fn is_open(&self) -> bool {
        if self.open.load(Ordering::Relaxed) && keys::any(&self.app).await.unwrap_or(true) {
            self.open.store(false, Ordering::Relaxed);
        }
        self.open.load(Ordering::Relaxed)
    }
}

/// What a proxy adds to a request that it passes on, if one did. To us all of those come from this
/// machine, whoever asked.
fn passed_on(headers: &HeaderMap) -> Option<&str> {
    let mut names = headers.keys().map(HeaderName::as_str);
    names.find(|name| matches!(*name, "forwarded" | "via" | "x-real-ip") || name.starts_with("x-forwarded-"))
}

/// The address that was asked for is this machine's, whatever a name server says, and the page that
/// asks, if one does, is ours.
fn from_here(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| {
        let mut all = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"));
        // Given twice, it is anybody's guess which one counts.
        all.next().map(|first| if all.next().is_some() { "?" } else { first })
    };
    let Some(host) = text(HOST) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_local = name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    is_local && text(ORIGIN).is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
}

/// What no answer is to be taken for.
async fn plain(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_proxy_passes_on_is_not_from_here() {
        for (name, is_passed_on) in [
            ("forwarded", true),
            ("via", true),
            ("x-forwarded-for", true),
            ("x-forwarded-proto", true),
            ("x-real-ip", true),
            ("accept", false),
            ("x-request-id", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.append("host", HeaderValue::from_static("127.0.0.1:8080"));
            headers.append(name, HeaderValue::from_static("1"));
            assert_eq!(passed_on(&headers).is_some(), is_passed_on, "{name}");
        }
    }

    #[test]
    fn only_requests_to_this_machine_by_its_own_pages_are_from_here() {
        for (headers, here) in [
            (vec![("host", "127.0.0.1:8080")], true),
            (vec![("host", "localhost")], true),
            (vec![("host", "LOCALHOST:1")], true),
            (vec![("host", "[::1]:8080")], true),
            (vec![("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:8080")], true),
            (vec![], false),
            (vec![("host", "evil.example")], false),
            (vec![("host", "localhost.evil.example:8080")], false),
            (vec![("host", "192.168.0.7:8080")], false),
            (vec![("host", "127.0.0.1:8080"), ("host", "evil.example")], false),
            (vec![("host", "127.0.0.1:8080"), ("origin", "http://evil.example")], false),
            (vec![("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:9")], false),
            (vec![("host", "127.0.0.1:8080"), ("origin", "null")], false),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in &headers {
                map.append(*name, HeaderValue::from_static(value));
            }
            assert_eq!(from_here(&map), here, "{headers:?}");
        }
    }
}
