//! Acts of administration leave events with who did it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use everypage_core::{
    event::{Aggregate, matches_kind, verify},
    events::trail,
    ids::TenantId,
    notify::webhooks,
    tenants::{
        self, administration, api_keys,
        caller::{Caller, Role},
    },
};
use everypage_tests::harness::Harness;

#[tokio::test(start_paused = true)]
async fn every_act_is_an_event_with_who_did_it_and_no_secret() {
    let harness = Harness::new(&[]);
    let app = harness.start("a").app;
    let tenant = TenantId::new("acme");
    let caller = Caller { tenant: tenant.clone(), user: "console".into(), role: Role::Operator };
    let (key, secret) = api_keys::create(&app.store, caller, "console", "ann").await.unwrap();
    let set = [("AI_SYSTEM_PROMPT".to_owned(), Some("a private prompt".to_owned()))];
    tenants::change(&app.tenants, &tenant, &set, "ben").await.unwrap();
    let url = "https://example.com/hook?token=t0p";
    webhooks::set(&app.store, app.vault.as_ref(), &tenant, url, "ben").await.unwrap();
    assert!(webhooks::remove(&app.store, &tenant, webhooks::DEFAULT, "ben").await.unwrap());
    for _ in 0..2 {
        api_keys::revoke(&app.store, &tenant, &key.id, "eve").await.unwrap();
    }
    let events = trail::read(&app.store, &Aggregate::Tenant(tenant.clone())).await.unwrap();
    let acts: Vec<(&str, &str)> = events
        .iter()
        .map(|event| (event.kind.as_str(), event.metadata.user_id.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(
        acts,
        [
            ("tenant.created", "ann"),
            ("key.created", "ann"),
            ("tenant.changed", "ben"),
            ("webhook.changed", "ben"),
            ("webhook.changed", "ben"),
            ("key.revoked", "eve"),
        ]
    );
    verify(&events, &administration::load(&app.store, &tenant).await.unwrap().value.head).unwrap();
    let text = serde_json::to_string(&events).unwrap();
    for hidden in [secret.expose(), "a private prompt", "t0p"] {
        assert!(!text.contains(hidden), "{hidden} is in {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn acts_at_the_same_time_are_all_recorded() {
    let harness = Harness::new(&[]);
    let app = harness.start("a").app;
    let tenant = TenantId::new("acme");
    let create = |number: usize| {
        let caller = Caller { tenant: tenant.clone(), user: format!("u{number}"), role: Role::User };
        let store = app.store.clone();
        async move { api_keys::create(&store, caller, "k", "ann").await.unwrap() }
    };
    futures::future::join_all((0..8).map(create)).await;
    let events = trail::read(&app.store, &Aggregate::Tenant(tenant.clone())).await.unwrap();
    assert_eq!(events.len(), 9);
    verify(&events, &administration::load(&app.store, &tenant).await.unwrap().value.head).unwrap();
    assert_eq!(api_keys::list(&app.store, &tenant).await.unwrap().len(), 8);
}

#[test]
fn types_match_by_name_or_prefix() {
    assert!(matches_kind("job.*,dlq.added", "job.failed") && matches_kind("dlq.added", "dlq.added"));
    assert!(!matches_kind("job.*", "page.settled") && !matches_kind("job", "job.failed"));
}
