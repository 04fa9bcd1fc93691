use everypage_api::{Role, authenticate};
use everypage_core::{ids::TenantId, tenants::api_keys};
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::harness::Harness;

use crate::support::{Service, caller, operator, other_tenant, request, user, with_header};

#[tokio::test(start_paused = true)]
async fn requests_without_a_valid_key_are_refused() {
    let service = Service::new(&[]);
    for path in ["/v1/jobs", "/v1/jobs/x", "/v1/jobs/x/result", "/v1/dlq", "/v1/notices", "/v1/breakers"] {
        let answer = service.send(None, request("GET", path, "", vec![])).await;
        answer.is_problem(401, "unauthenticated");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    for path in ["/healthz", "/readyz", "/v1/openapi.json"] {
        assert_eq!(service.send(None, request("GET", path, "", vec![])).await.status, 200);
    }
    // Before the body is read.
    service
        .send(None, request("POST", "/v1/jobs", "application/pdf", vec![1]))
        .await
        .is_problem(401, "unauthenticated");
}

#[tokio::test(start_paused = true)]
async fn a_key_gives_access_to_its_tenant_until_it_is_revoked() {
    let service = Service::of(Harness::new(&[]), |api| api.checking_keys());
    let app = &service.process.app;
    let (key, secret) = api_keys::create(&app.store, user(), "laptop", "test").await.unwrap();
    let (second, _) = api_keys::create(&app.store, operator(), "console", "test").await.unwrap();
    assert!(secret.expose().starts_with("ep_") && secret.expose().len() == 51);
    for item in service.harness.records.dump() {
        assert!(!item.draft.body.contains(secret.expose()), "a key in clear");
    }
    let send = |header: String| {
        service.send(None, with_header(request("GET", "/v1/jobs", "", vec![]), "authorization", &header))
    };
    let bearer = format!("Bearer {}", secret.expose());
    assert_eq!(send(bearer.clone()).await.status, 200);
    assert_eq!(send(bearer.replace("Bearer ", "bearer   ")).await.status, 200);
    for wrong in
        [format!("{bearer}0"), bearer.replace("Bearer", "Basic"), "Bearer".into(), "Bearer ep_".into()]
    {
        send(wrong).await.is_problem(401, "unauthenticated");
    }
    assert_eq!(authenticate(&app.store, Some(&bearer)).await.unwrap(), Some(user()));
    assert_eq!(authenticate(&app.store, None).await.unwrap(), None);
    let tenant = TenantId::new("acme");
    assert_eq!(api_keys::list(&app.store, &tenant).await.unwrap(), [key.clone(), second]);
    // Another tenant can't revoke it.
    assert_eq!(api_keys::revoke(&app.store, &TenantId::new("other"), &key.id, "test").await.unwrap(), None);
    let revoked = api_keys::revoke(&app.store, &tenant, &key.id, "test").await.unwrap().unwrap();
    assert!(revoked.revoked_at.is_some());
    assert_eq!(api_keys::revoke(&app.store, &tenant, &key.id, "test").await.unwrap(), Some(revoked));
    send(bearer).await.is_problem(401, "unauthenticated");
}

#[tokio::test(start_paused = true)]
async fn a_job_of_another_tenant_is_unknown() {
    let service = Service::new(&[]);
    let id = service.finished(&FakeDocument::graphics(1)).await;
    let ways = [
        ("GET", ""),
        ("GET", "/pages"),
        ("GET", "/pages/1"),
        ("GET", "/pages/1/image"),
        ("GET", "/result"),
        ("GET", "/events"),
        ("POST", "/cancel"),
        ("POST", "/approve"),
        ("POST", "/reject"),
        ("POST", "/heal"),
        ("DELETE", ""),
    ];
    for (method, rest) in ways {
        let send = |id: &str| {
            let path = format!("/v1/jobs/{id}{rest}");
            service.send(Some(other_tenant()), request(method, &path, "", vec![]))
        };
        let (theirs, none) = (send(&id).await, send("99999999").await);
        theirs.is_problem(404, "unknown_job");
        assert_eq!(theirs.text("/detail").replace(&id, "99999999"), none.text("/detail"), "{method} {rest}");
    }
    let modify = service.post(other_tenant(), &format!("/v1/jobs/{id}/modify"), "{\"tier\":\"fast\"}").await;
    modify.is_problem(404, "unknown_job");
    assert_eq!(service.get(other_tenant(), "/v1/jobs").await.items().len(), 0);
    assert_eq!(service.get(user(), &format!("/v1/jobs/{id}")).await.status, 200);
    // Ids are case-insensitive, and malformed ones are unknown.
    assert_eq!(service.get(user(), &format!("/v1/jobs/{}", id.to_uppercase())).await.status, 200);
    for odd in ["%00", "%2e%2e%2fx", "job%23x", &"9".repeat(3000)] {
        service.get(user(), &format!("/v1/jobs/{odd}")).await.is_problem(404, "unknown_job");
    }
    service.get(user(), "/v1/jobs/%ff").await.is_problem(400, "bad_request");
}

#[tokio::test(start_paused = true)]
async fn routes_for_operators_are_forbidden_to_users() {
    let service = Service::new(&[]);
    for path in ["/v1/dlq", "/v1/notices", "/v1/breakers", "/v1/load"] {
        service.get(user(), path).await.is_problem(403, "forbidden").says("operator");
        assert_eq!(service.get(operator(), path).await.status, 200);
    }
    service.get(user(), "/metrics").await.is_problem(403, "forbidden");
    for path in [
        "/v1/dlq/redrive",
        "/v1/dlq/estimate",
        "/v1/dlq/purge",
        "/v1/jobs/x/approve",
        "/v1/jobs/x/reject",
        "/v1/jobs/x/modify",
    ] {
        service.post(user(), path, "{}").await.is_problem(403, "forbidden");
    }
    assert_eq!("operator".parse(), Ok(Role::Operator));
    assert!("boss".parse::<Role>().unwrap_err().contains("user, operator"));
    assert_eq!(caller("x", Role::User).role.to_string(), "user");
}

#[tokio::test(start_paused = true)]
async fn a_caller_over_the_rate_limit_gets_a_retry_after() {
    let limited = |api: everypage_api::Api| api.limiting(2.try_into().unwrap());
    let service = Service::of(Harness::new(&[]), limited);
    for _ in 0..4 {
        assert_eq!(service.get(user(), "/v1/jobs").await.status, 200);
    }
    let refused = service.get(user(), "/v1/jobs").await;
    refused.is_problem(429, "too_many_requests").says("RATE_LIMIT");
    assert_eq!(refused.header("retry-after"), "1");
    for path in ["/healthz", "/readyz"] {
        assert_eq!(service.get(user(), path).await.status, 200, "a busy service is not dead");
    }
    assert_eq!(service.get(other_tenant(), "/v1/jobs").await.status, 200, "another caller");
    service.harness.advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(service.get(user(), "/v1/jobs").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn files_of_the_console_do_not_count_for_the_rate_limit() {
    let harness = Harness::new(&[]);
    let api = everypage_api::Api::new(harness.start("a").app).limiting(1.try_into().unwrap());
    let files = axum::Router::new().route("/main.js", axum::routing::get(|| async { "" }));
    let router = everypage_api::router_with(api, files);
    let process = harness.start("a");
    let service = Service { harness, process, router };
    for _ in 0..20 {
        assert_eq!(service.get(user(), "/main.js").await.status, 200);
    }
    service.get(user(), "/nowhere.js").await.is_problem(404, "not_found");
    service.get(user(), "/nowhere.js").await.is_problem(404, "not_found");
    service.get(user(), "/nowhere.js").await.is_problem(429, "too_many_requests");
}
