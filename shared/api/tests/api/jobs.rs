use std::time::Duration;

use everypage_core::ids::JobId;
use everypage_testkit::{
    pdf::FakeDocument,
    vision::{Reply, read_by},
};

use crate::support::{Service, operator, other_tenant, request, user};

#[tokio::test(start_paused = true)]
async fn a_job_shows_its_status_and_progress_from_start_to_end() {
    let service = Service::new(&[("WORKER_CONCURRENCY", "1"), ("MAX_INFLIGHT_PER_MODEL", "1")]);
    service
        .harness
        .vision
        .set_behaviour(|target, page| Reply::AnswerAfter(Duration::from_secs(10), read_by(target, page)));
    let id = service.job("", &FakeDocument::mixed(8)).await;
    let path = format!("/v1/jobs/{id}");
    let admitted = service.get(user(), &path).await;
    assert_eq!((admitted.text("/status"), admitted.at("/progress")), ("processing".into(), 0.into()));
    assert_eq!(admitted.text("/state"), "ACKED");
    assert_eq!(admitted.text("/deadline"), "2026-11-16T00:05:00Z");
    assert_eq!(admitted.at("/links/result"), serde_json::Value::Null);
    assert_eq!(service.get(user(), &format!("{path}/pages")).await.items().len(), 0);

    service.process.kill_after(&JobId::new(&id), Duration::from_secs(25)).await;
    let working = service.get(user(), &path).await;
    assert_eq!(working.text("/status"), "processing");
    // Two of four pages for AI are settled.
    assert_eq!(working.at("/progress"), 52);
    assert_eq!(working.text("/message"), "reading: 4 pages with AI");
    assert_eq!(working.at("/pages/selected"), 8);
    let pages = service.get(user(), &format!("{path}/pages?limit=8")).await;
    let shown: Vec<(String, String)> = pages
        .items()
        .iter()
        .map(|page| {
            (page["status"].as_str().unwrap().into(), page["classification"].as_str().unwrap().into())
        })
        .collect();
    let status = |index: usize| shown[index].0.as_str();
    assert_eq!(
        (status(0), status(1), status(3), status(7)),
        ("settled", "settled", "settled", "planned"),
        "{shown:?}"
    );
    assert_eq!((shown[0].1.as_str(), shown[1].1.as_str()), ("TEXT_ONLY", "HAS_GRAPHICS"));
    assert_eq!(pages.at("/items/1/source"), "ai");
    assert_eq!(pages.at("/items/0/source"), "mupdf");

    service.harness.start("b").finish(&JobId::new(&id)).await;
    let done = service.get(user(), &path).await;
    assert_eq!((done.text("/status"), done.at("/progress")), ("success".into(), 100.into()));
    assert_eq!(done.text("/message"), "every page has its text");
    assert_eq!(done.at("/result/metadata/final_ai_pages"), 4);
    assert_eq!(done.at("/result/metadata/missing_pages"), 0);
    assert_eq!(done.at("/result/metadata/missing_page_numbers"), serde_json::json!([]));
    assert_eq!(done.text("/links/result"), format!("{path}/result"));
    assert_eq!(done.at("/links/cancel"), serde_json::Value::Null);
}

#[tokio::test(start_paused = true)]
async fn pages_are_paginated_and_show_their_model() {
    let service = Service::new(&[]);
    let id = service.finished(&FakeDocument::mixed(7)).await;
    let mut path = format!("/v1/jobs/{id}/pages?limit=3");
    let mut numbers = Vec::new();
    let mut responses = 0;
    loop {
        let list = service.get(user(), &path).await;
        assert_eq!(list.status, 200, "{list:?}");
        assert!(!format!("{list:?}").contains("layer of page"), "text in {list:?}");
        numbers.extend(list.items().iter().map(|page| page["page"].as_u64().unwrap()));
        responses += 1;
        match list.at("/next").as_str() {
            Some(next) => path = format!("/v1/jobs/{id}/pages?limit=3&cursor={next}"),
            None => break,
        }
    }
    assert_eq!((numbers, responses), ((1..=7).collect(), 3));
    let second = service.get(user(), &format!("/v1/jobs/{id}/pages")).await;
    assert_eq!(second.text("/items/1/model"), "gpt-5.4");
    assert_eq!(second.text("/items/1/calls/0/result"), "answered");
    assert_eq!(second.at("/items/1/has_text"), true);
}

#[tokio::test(start_paused = true)]
async fn jobs_are_listed_newest_first_paginated_and_by_status() {
    let service = Service::new(&[]);
    let mut ids = Vec::new();
    for count in 1..=7 {
        ids.push(service.job("", &FakeDocument::graphics(count)).await);
        service.harness.advance(Duration::from_secs(1)).await;
    }
    for index in [1, 3] {
        service.process.finish(&JobId::new(&ids[index])).await;
    }
    ids.reverse();
    for limit in [1, 2, 3, 7, 100] {
        assert_eq!(all(&service, &format!("limit={limit}")).await, ids, "{limit} at a time");
    }
    let done = [ids[3].clone(), ids[5].clone()];
    for limit in [1, 2, 3] {
        assert_eq!(all(&service, &format!("limit={limit}&status=success")).await, done);
    }
    assert_eq!(all(&service, "status=rejected").await, Vec::<String>::new());
    let listed = service.get(user(), "/v1/jobs?limit=1").await;
    assert_eq!(listed.text("/items/0/status"), "processing");
}

/// The ids of a whole list.
async fn all(service: &Service, query: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut cursor = String::new();
    loop {
        let list = service.get(user(), &format!("/v1/jobs?{query}{cursor}")).await;
        assert_eq!(list.status, 200, "{list:?}");
        ids.extend(list.items().iter().map(|job| job["id"].as_str().unwrap_or_default().to_owned()));
        match list.at("/next").as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_refuses_invalid_parameters() {
    let service = Service::new(&[]);
    service.get(user(), "/v1/jobs?limit=0").await.is_problem(422, "bad_options").says("1 to 100");
    service.get(user(), "/v1/jobs?limit=101").await.is_problem(422, "bad_options");
    service.get(user(), "/v1/jobs?limit=many").await.is_problem(400, "bad_request").says("limit");
    service
        .get(user(), "/v1/jobs?status=sleeping")
        .await
        .is_problem(400, "bad_request")
        .says("awaiting_approval");
    for cursor in ["x", "", "%00", "am9iczo", "ZGxxOng"] {
        service
            .get(user(), &format!("/v1/jobs?cursor={cursor}"))
            .await
            .is_problem(422, "bad_options")
            .says("next");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_stops_and_may_be_deleted() {
    let service = Service::new(&[]);
    let id = service.job("", &FakeDocument::graphics(2)).await;
    let path = format!("/v1/jobs/{id}");
    let delete = || service.send(Some(user()), request("DELETE", &path, "", vec![]));
    delete().await.is_problem(409, "job_is_open").says("cancel it first");
    let cancel = format!("{path}/cancel");
    assert_eq!(service.post(user(), &cancel, "").await.status, 202);
    assert_eq!(service.post(user(), &cancel, "").await.status, 202);
    service.process.finish(&JobId::new(&id)).await;
    let over = service.post(user(), &cancel, "").await;
    assert_eq!((over.status.as_u16(), over.text("/status")), (200, "cancelled".into()));
    assert_eq!(delete().await.status, 204);
    service.get(user(), &path).await.is_problem(404, "unknown_job");
    delete().await.is_problem(404, "unknown_job");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_says_what_is_ahead_of_it() {
    let service = Service::new(&[("MAX_OPEN_JOBS", "1")]);
    let first = service.job("", &FakeDocument::graphics(1)).await;
    service.job("", &FakeDocument::graphics(2)).await;
    let last = service.job("", &FakeDocument::graphics(3)).await;
    let path = format!("/v1/jobs/{last}");
    let waiting = service.get(user(), &path).await;
    assert_eq!((waiting.text("/status"), waiting.text("/state")), ("queued".into(), "ACKED".into()));
    assert_eq!(waiting.at("/queue"), serde_json::json!({"ahead": 1, "or_more": false}));
    assert_eq!(waiting.text("/message"), "queued; 1 document is ahead");
    // Its time has not started.
    assert_eq!((waiting.at("/deadline"), waiting.at("/started_at")), Default::default());
    let timed = service.job("?deadline=10m", &FakeDocument::graphics(4)).await;
    let timed = service.get(user(), &format!("/v1/jobs/{timed}")).await;
    assert_eq!(timed.text("/deadline"), "2026-11-16T00:10:00Z");

    service.process.finish(&JobId::new(&first)).await;
    service.harness.advance(Duration::from_secs(5)).await;
    let next = service.get(user(), &path).await;
    assert_eq!(next.text("/message"), "queued; no document is ahead");
    service.post(user(), &format!("{path}/cancel"), "").await;
    let cancelled = service.get(user(), &path).await;
    assert_eq!((cancelled.text("/status"), cancelled.at("/queue")), ("cancelled".into(), Default::default()));
}

#[tokio::test(start_paused = true)]
async fn events_are_paginated_job_first_then_pages() {
    let service = Service::new(&[]);
    let id = service.finished(&FakeDocument::graphics(4)).await;
    let whole = service.get(user(), &format!("/v1/jobs/{id}/events")).await;
    let types: Vec<String> =
        whole.items().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        types,
        [
            "job.received",
            "job.acked",
            "job.admitted",
            "job.understood",
            "job.proposed",
            "job.approved",
            "job.executed",
            "job.audited",
            "page.settled",
            "page.settled",
            "page.settled",
            "page.settled"
        ]
    );
    for limit in [1, 2, 7, 10, 11] {
        let mut events = Vec::new();
        let mut cursor = String::new();
        loop {
            let list = service.get(user(), &format!("/v1/jobs/{id}/events?limit={limit}{cursor}")).await;
            assert_eq!(list.status, 200, "{list:?}");
            events.extend(list.items());
            match list.at("/next").as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(events, whole.items(), "{limit} at a time");
    }
    // A cursor of one job's events is invalid for another's.
    let other = service.job("", &FakeDocument::graphics(5)).await;
    let next = service.get(user(), &format!("/v1/jobs/{id}/events?limit=1")).await.text("/next");
    service
        .get(user(), &format!("/v1/jobs/{other}/events?cursor={next}"))
        .await
        .is_problem(422, "bad_options");
}

#[tokio::test(start_paused = true)]
async fn jobs_are_found_by_name_or_id() {
    let service = Service::new(&[]);
    let mut ids = Vec::new();
    for (number, name) in ["Harbour%20Report.pdf", "invoice.pdf", "harbour-map.pdf"].into_iter().enumerate() {
        let document = FakeDocument::graphics(number as u32 + 1);
        ids.push(service.job(&format!("?name={name}"), &document).await);
        service.harness.advance(Duration::from_secs(1)).await;
    }
    for (search, found) in
        [("harbour", vec![2, 0]), ("INVOICE", vec![1]), ("nothing", vec![]), ("&status=success", vec![])]
    {
        let listed = service.get(user(), &format!("/v1/jobs?search={search}")).await;
        let listed: Vec<_> =
            listed.items().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(listed, found.iter().map(|at: &usize| ids[*at].clone()).collect::<Vec<_>>(), "{search}");
    }
    let by_id = service.get(user(), &format!("/v1/jobs?search={}", ids[1].to_uppercase())).await;
    assert_eq!((by_id.items().len(), by_id.text("/items/0/id")), (1, ids[1].clone()));
}

#[tokio::test(start_paused = true)]
async fn stats_count_each_job_in_its_bucket() {
    let service = Service::new(&[]);
    service.finished(&FakeDocument::graphics(2)).await;
    service.harness.advance(Duration::from_secs(3600)).await;
    service.finished(&FakeDocument::graphics(3)).await;
    service.job("", &FakeDocument::graphics(4)).await;
    let stats = service.get(user(), "/v1/stats?window=2h&buckets=4").await;
    assert_eq!((stats.at("/bucket_ms"), stats.at("/complete")), (1_800_000.into(), true.into()));
    let jobs: Vec<_> =
        stats.at("/buckets").as_array().unwrap().iter().map(|bucket| bucket["jobs"].clone()).collect();
    assert_eq!(jobs, [0, 1, 0, 2], "{stats:?}");
    let total = |name: &str| stats.at(&format!("/total/{name}"));
    assert_eq!((total("jobs"), total("succeeded"), total("ai_pages")), (3.into(), 2.into(), 5.into()));
    assert!(total("p95_ms").as_u64().unwrap() >= total("p50_ms").as_u64().unwrap());
    assert_eq!(service.get(other_tenant(), "/v1/stats").await.at("/total/jobs"), 0);
    for bad in ["window=soon", "window=0s", "window=1000h", "buckets=0", "buckets=101", "buckets=x"] {
        let answer = service.get(user(), &format!("/v1/stats?{bad}")).await;
        assert!([400, 422].contains(&answer.status.as_u16()), "{bad}: {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn callers_see_who_they_are() {
    let service = Service::new(&[("MAX_PAGES", "77")]);
    let me = service.get(operator(), "/v1/me").await;
    assert_eq!((me.text("/tenant"), me.text("/role")), ("acme".into(), "operator".into()));
    assert_eq!(
        (me.at("/max_pages"), me.at("/streams"), me.at("/uploads")),
        (77.into(), false.into(), false.into())
    );
}
