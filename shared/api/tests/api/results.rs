use std::time::Duration;

use everypage_core::{document::Reason, ids::JobId};
use everypage_testkit::{
    pdf::{FakeDocument, FakePage},
    vision::{Reply, read_by},
};

use crate::support::{Answer, Service, request, user, with_header};

async fn get(service: &Service, path: &str, name: &'static str, value: &str) -> Answer {
    service.send(Some(user()), with_header(request("GET", path, "", vec![]), name, value)).await
}

#[tokio::test(start_paused = true)]
async fn a_result_has_the_requested_format() {
    let service = Service::new(&[]);
    let id = service.finished(&FakeDocument::mixed(2)).await;
    let path = format!("/v1/jobs/{id}/result");
    let text = service.get(user(), &path).await;
    assert_eq!(text.header("content-type"), "text/plain; charset=utf-8");
    assert!(String::from_utf8_lossy(&text.body).starts_with("=== Page 1 ===\nlayer of page 1\n"));
    let markdown = service.get(user(), &format!("{path}?format=markdown")).await;
    assert_eq!(markdown.header("content-type"), "text/markdown; charset=utf-8");
    let json = get(&service, &path, "accept", "text/html, application/json;q=0.9, text/plain;q=0.1").await;
    assert_eq!(json.header("content-type"), "application/json");
    assert_eq!(json.at("/pages/1/source"), "ai");
    assert_eq!(json.header("everypage-result-version"), "1");
    // `?format=` takes precedence over `Accept`.
    let requested = get(&service, &format!("{path}?format=json"), "accept", "text/plain").await;
    assert_eq!(requested.header("content-type"), "application/json");
    get(&service, &path, "accept", "image/png").await.is_problem(406, "not_acceptable");
    service.get(user(), &format!("{path}?format=docx")).await.is_problem(422, "bad_options").says("markdown");
    service
        .get(user(), &format!("{path}?version=2"))
        .await
        .is_problem(404, "no_result")
        .says("the latest is 1");
    service.get(user(), &format!("{path}?version=0")).await.is_problem(404, "no_result");
    service.get(user(), &format!("{path}?version=-1")).await.is_problem(400, "bad_request");
    let head = service.send(Some(user()), request("HEAD", &path, "", vec![])).await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
}

#[tokio::test(start_paused = true)]
async fn tables_have_the_requested_style() {
    let service = Service::new(&[]);
    let text = "| Port | Tonnes |\n| --- | --- |\n| North | 12 |".to_owned();
    let pages = vec![FakePage { text, reason: Reason::Text }];
    let id = service.finished(&FakeDocument { password: None, pages }).await;
    let path = format!("/v1/jobs/{id}/result?format=markdown");
    let plain = service.get(user(), &path).await;
    let html = service.get(user(), &format!("{path}&tables=html")).await;
    let body = |answer: &Answer| String::from_utf8(answer.body.clone()).unwrap();
    assert!(body(&plain).contains("| North | 12 |") && !body(&plain).contains("<table>"));
    assert!(body(&html).contains("<tr><td>North</td><td>12</td></tr>"), "{}", body(&html));
    assert_eq!(html.header("content-type"), "text/markdown; charset=utf-8");
    // What a client has in one style is not the other.
    assert_ne!(plain.header("etag"), html.header("etag"));
    let known = plain.header("etag").to_owned();
    assert_eq!(get(&service, &format!("{path}&tables=html"), "if-none-match", &known).await.status, 200);
    assert_eq!(get(&service, &format!("{path}&tables=markdown"), "if-none-match", &known).await.status, 304);
    let chunks = service.get(user(), &format!("/v1/jobs/{id}/result?format=chunks&tables=html")).await;
    assert!(body(&chunks).contains("<table>"));
    for (query, says) in
        [("format=json&tables=html", "markdown and chunks"), ("format=markdown&tables=x", "auto")]
    {
        let refused = service.get(user(), &format!("/v1/jobs/{id}/result?{query}")).await;
        refused.is_problem(422, "bad_options").says(says);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_with_the_current_version_gets_304() {
    let service = Service::new(&[]);
    let id = service.finished(&FakeDocument::graphics(1)).await;
    let path = format!("/v1/jobs/{id}/result?format=json");
    let tag = service.get(user(), &path).await.header("etag").to_owned();
    let sha256 = service.get(user(), &format!("/v1/jobs/{id}")).await.text("/result/sha256");
    assert_eq!(tag, format!("\"{sha256}.json\""));
    for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".into()] {
        let answer = get(&service, &path, "if-none-match", &known).await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (304, 0), "{known}");
        assert_eq!(answer.header("etag"), tag);
    }
    assert_eq!(get(&service, &path, "if-none-match", "\"x\"").await.status, 200);
    // Each format has its own ETag.
    assert_eq!(get(&service, &format!("/v1/jobs/{id}/result"), "if-none-match", &tag).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_heal_publishes_a_new_version_and_keeps_the_old_one() {
    let service = Service::new(&[("PATIENCE", "0")]);
    service.harness.vision.set_behaviour(|_, _| Reply::down());
    let id = service.finished(&FakeDocument::graphics(2)).await;
    let path = format!("/v1/jobs/{id}");
    let seen = service.get(user(), &path).await;
    assert_eq!(seen.text("/message"), "2 pages fell back to their own text");
    let first = service.get(user(), &format!("{path}/result?format=json")).await;

    service.harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    service.harness.advance(Duration::from_secs(700)).await;
    let healing = service.post(user(), &format!("{path}/heal"), "{\"deadline\":\"1m\"}").await;
    assert_eq!(healing.status, 202, "{healing:?}");
    assert_eq!((healing.at("/sent"), healing.at("/version")), (serde_json::json!([1, 2]), 1.into()));
    service.process.work_for(Duration::from_secs(5)).await;

    let second = service.get(user(), &format!("{path}/result?format=json")).await;
    // Each healed page published a version.
    assert_eq!(second.header("everypage-result-version"), "3");
    assert_eq!(second.at("/metadata/final_ai_pages"), 2);
    let old = service.get(user(), &format!("{path}/result?format=json&version=1")).await;
    assert_eq!((old.header("etag"), &old.body), (first.header("etag"), &first.body));
    assert_ne!(old.header("etag"), second.header("etag"));
    // No fallback pages remain.
    assert_eq!(service.post(user(), &format!("{path}/heal"), "").await.at("/sent"), serde_json::json!([]));
    service
        .post(user(), &format!("{path}/heal"), "{\"deadline\":\"soon\"}")
        .await
        .is_problem(422, "bad_options");
    service
        .post(user(), &format!("{path}/heal"), "{\"dead\":1}")
        .await
        .is_problem(422, "bad_options")
        .says("deadline");
}

#[tokio::test(start_paused = true)]
async fn a_missing_result_has_a_reason() {
    let service = Service::new(&[]);
    let id = service.job("", &FakeDocument::graphics(1)).await;
    let early = service.get(user(), &format!("/v1/jobs/{id}/result")).await;
    early.is_problem(409, "result_not_ready").says("processing");
    assert_eq!(early.header("retry-after"), "2");
    service.post(user(), &format!("/v1/jobs/{id}/heal"), "").await.is_problem(409, "nothing_to_heal");
    let id = service.job("", &FakeDocument::default()).await;
    service.process.finish(&JobId::new(&id)).await;
    service.get(user(), &format!("/v1/jobs/{id}/result")).await.is_problem(404, "no_result").says("no pages");
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_result_or_an_image_can_be_requested() {
    let service = Service::new(&[]);
    let id = service.finished(&FakeDocument::graphics(1)).await;
    for path in [format!("/v1/jobs/{id}/result?format=json"), format!("/v1/jobs/{id}/pages/1/image")] {
        let whole = service.get(user(), &path).await;
        assert_eq!(whole.header("accept-ranges"), "bytes", "{path}");
        let (length, tag) = (whole.body.len(), whole.header("etag").to_owned());
        let part = get(&service, &path, "range", "bytes=1-2").await;
        assert_eq!((part.status.as_u16(), part.body.as_slice()), (206, &whole.body[1..=2]), "{path}");
        assert_eq!(part.header("content-range"), format!("bytes 1-2/{length}"));
        assert_eq!(part.header("etag"), tag);
        assert_eq!(part.header("content-type"), whole.header("content-type"));
        let beyond = get(&service, &path, "range", &format!("bytes={length}-")).await;
        beyond.is_problem(416, "range_not_satisfiable");
        assert_eq!(beyond.header("content-range"), format!("bytes */{length}"));
        // A part of another version would be put together with the wrong bytes.
        for (version, status) in [(tag.as_str(), 206), ("\"other\"", 200), (&format!("W/{tag}"), 200)] {
            let asked = with_header(request("GET", &path, "", vec![]), "range", "bytes=0-0");
            let answer = service.send(Some(user()), with_header(asked, "if-range", version)).await;
            assert_eq!(answer.status, status, "{version}");
        }
        let head = with_header(request("HEAD", &path, "", vec![]), "range", "bytes=0-0");
        assert_eq!(service.send(Some(user()), head).await.status, 200);
    }
    // No route without the header answers with a part.
    assert_eq!(get(&service, "/v1/me", "range", "bytes=0-0").await.status, 200);
}
