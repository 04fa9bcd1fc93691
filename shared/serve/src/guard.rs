//! Access without API keys: while none exists, programs and pages of this machine may use the API.

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
use everypage_core::{app::App, ids::TenantId, tenants::api_keys};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

struct Guard {
    app: Arc<App>,
    /// No key exists: callers on this machine may do everything.
    open: AtomicBool,
}

pub fn layer(router: Router, app: Arc<App>, open: bool) -> Router {
    let guard = Arc::new(Guard { app, open: AtomicBool::new(open) });
    router
        .layer(middleware::from_fn_with_state(guard, admit))
        .layer(middleware::map_response(add_security_headers))
}

async fn admit(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    if guard.is_open().await && !request.headers().contains_key(AUTHORIZATION) {
        // A page of another site, open in a browser of this machine, could send requests too.
        if let Some(name) = proxy_header(request.headers()) {
            let detail = format!(
                "the request came through a proxy ({name}) and no API key exists: create one with \
                 `everypage keys create --role operator` and send it"
            );
            return Problem::forbidden(detail).into_response();
        }
        if !is_local(request.headers()) {
            let detail = "no API key exists, so only programs and pages of this machine have access";
            return Problem::forbidden(detail).into_response();
        }
        let tenant = TenantId::new(guard.app.settings.tenant.clone());
        let caller = Caller { tenant, user: "this machine".to_owned(), role: Role::Operator };
        request.extensions_mut().insert(caller.clone());
        let mut response = next.run(request).await;
        response.extensions_mut().insert(caller);
        return response;
    }
    next.run(request).await
}

impl Guard {
    /// Whether no key exists. Closes for good with the first key, and when the store fails.
    async fn is_open(&self) -> bool {
        if self.open.load(Ordering::Relaxed) && api_keys::any_exist(&self.app.store).await.unwrap_or(true) {
            self.open.store(false, Ordering::Relaxed);
        }
        self.open.load(Ordering::Relaxed)
    }
}

/// The header that a proxy added, if any: behind a proxy every request seems to come from this machine.
fn proxy_header(headers: &HeaderMap) -> Option<&str> {
    let mut names = headers.keys().map(HeaderName::as_str);
    names.find(|name| matches!(*name, "forwarded" | "via" | "x-real-ip") || name.starts_with("x-forwarded-"))
}

/// Whether the request names this machine as its host, whatever DNS says, and comes from a program or from
/// a page of this server.
fn is_local(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| {
        let mut all = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"));
        // A header that is given twice is ambiguous, and matches nothing.
        all.next().map(|first| if all.next().is_some() { "?" } else { first })
    };
    let Some(host) = text(HOST) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_loopback = name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    // Browsers say where a request comes from, and pages can't change it.
    let is_own = text(SEC_FETCH_SITE).is_none_or(|site| matches!(site, "same-origin" | "none"));
    is_loopback && is_own && text(ORIGIN).is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
}

/// Keeps browsers from guessing media types and from showing responses in pages of other sites.
async fn add_security_headers(mut response: Response) -> Response {
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
    fn headers_of_proxies_are_recognized() {
        for (name, is_proxy) in [
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
            assert_eq!(proxy_header(&headers).is_some(), is_proxy, "{name}");
        }
    }

    #[test]
    fn only_requests_to_this_machine_from_its_own_pages_are_local() {
        for (headers, expected) in [
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
            (vec![("host", "127.0.0.1:8080"), ("sec-fetch-site", "same-origin")], true),
            // Typed into the address bar.
            (vec![("host", "127.0.0.1:8080"), ("sec-fetch-site", "none")], true),
            // An image or a link in a page of another site or port has no origin.
            (vec![("host", "127.0.0.1:8080"), ("sec-fetch-site", "cross-site")], false),
            (vec![("host", "127.0.0.1:8080"), ("sec-fetch-site", "same-site")], false),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in &headers {
                map.append(*name, HeaderValue::from_static(value));
            }
            assert_eq!(is_local(&map), expected, "{headers:?}");
        }
    }
}
