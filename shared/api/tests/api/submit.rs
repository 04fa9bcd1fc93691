use axum::{body::Body, http::Request};
use bytes::Bytes;
use everypage_core::{
    ids::JobId,
    job::{RequestSource, jobs},
};
use everypage_testkit::pdf::FakeDocument;

use crate::support::{Answer, Service, caller, request, user, with_header};

fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, value) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        let head = format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(value);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--XX--\r\n");
    body
}

async fn send_form(service: &Service, parts: &[(&str, Option<&str>, &[u8])]) -> Answer {
    let request = request("POST", "/v1/jobs", "multipart/form-data; boundary=XX", form(parts));
    service.send(Some(user()), request).await
}

#[tokio::test(start_paused = true)]
async fn a_form_takes_a_password_of_any_characters() {
    let service = Service::new(&[]);
    let password = " пароль für 日本 ";
    let document = FakeDocument { password: Some(password.into()), ..FakeDocument::graphics(1) };
    let parts = [("password", None, password.as_bytes()), ("file", Some("a.pdf"), &document.bytes())];
    let id = send_form(&service, &parts).await.text("/id");
    let job = service.process.finish(&JobId::new(&id)).await;
    assert_eq!(job.failure, None);
}

#[tokio::test(start_paused = true)]
async fn a_pdf_in_the_body_becomes_a_job_of_the_caller() {
    let service = Service::new(&[]);
    let query = "?name=in/report%202026.pdf&pages=1-2&ai_pages=all&tier=fast&provider=anthropic&deadline=90s&priority=urgent";
    let answer = service.submit(user(), query, &FakeDocument::mixed(3)).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.header("location"), format!("/v1/jobs/{}", answer.text("/id")));
    assert_eq!(answer.text("/status"), "processing");
    assert_eq!(answer.text("/document/name"), "report 2026.pdf");
    assert_eq!(answer.at("/repeated"), false);
    assert_eq!(
        answer.at("/options"),
        serde_json::json!({"pages": "1-2", "ai_pages": "all", "tier": "fast", "provider": "anthropic",
            "cost": "standard", "deadline": "1m 30s", "patience": "deadline", "priority": "urgent"})
    );
    let job = service.process.job(&JobId::new(answer.text("/id"))).await;
    assert_eq!(job.received.tenant.as_str(), "acme");
    assert_eq!(job.received.user.as_deref(), Some("user of acme"));
    assert_eq!(job.received.source, RequestSource::Api);
}

#[tokio::test(start_paused = true)]
async fn an_image_in_the_body_becomes_a_job_with_a_fitting_name() {
    let service = Service::new(&[]);
    for (media, name) in
        [("image/png", "document.png"), ("image/tiff", "document.tif"), ("IMAGE/JPEG", "document.jpg")]
    {
        let request = request("POST", "/v1/jobs?force=true", media, FakeDocument::graphics(1).bytes());
        let answer = service.send(Some(user()), request).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        assert_eq!(answer.text("/document/name"), name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_form_takes_options_after_the_file_too() {
    let service = Service::new(&[]);
    let document = FakeDocument { password: Some("open sesame".into()), ..FakeDocument::graphics(1) };
    let bytes = document.bytes();
    let parts: [(&str, _, &[u8]); 4] = [
        ("tier", None, b"fast"),
        ("file", Some("C:\\scans\\a.pdf"), &bytes),
        ("password", None, b"open sesame"),
        ("priority", None, b"5"),
    ];
    let answer = send_form(&service, &parts).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.text("/document/name"), "a.pdf");
    assert_eq!(answer.text("/options/tier"), "fast");
    assert_eq!(answer.text("/options/priority"), "urgent");
    let job = service.process.finish(&JobId::new(answer.text("/id"))).await;
    assert!(job.failure.is_none(), "{:?}", job.failure);
    // An explicit name takes precedence over the file's.
    let parts: [(&str, _, &[u8]); 3] =
        [("file", Some("a.pdf"), &bytes), ("name", None, b"Annual report"), ("force", None, b"true")];
    assert_eq!(send_form(&service, &parts).await.text("/document/name"), "Annual report");
}

#[tokio::test(start_paused = true)]
async fn a_password_is_sent_in_a_header_and_stored_nowhere_in_clear() {
    let service = Service::new(&[]);
    let document = FakeDocument { password: Some("sesame ö".into()), ..FakeDocument::graphics(1) };
    let plain = request("POST", "/v1/jobs", "application/pdf", document.bytes());
    let mut with_password = plain;
    with_password
        .headers_mut()
        .insert("everypage-password", axum::http::HeaderValue::from_bytes("sesame ö".as_bytes()).unwrap());
    let answer = service.send(Some(user()), with_password).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert!(!format!("{answer:?}").contains("sesame"));
    for item in service.harness.records.dump() {
        assert!(!item.draft.body.contains("sesame"), "{:?}", item.draft.key);
    }
    let job = service.process.finish(&JobId::new(answer.text("/id"))).await;
    assert!(job.failure.is_none(), "{:?}", job.failure);
    let answer = service.submit(user(), "?password=sesame", &document).await;
    answer.is_problem(422, "bad_options").says("Everypage-Password");
}

#[tokio::test(start_paused = true)]
async fn the_same_request_gives_the_same_job() {
    let service = Service::new(&[]);
    let document = FakeDocument::graphics(2);
    let first = service.submit(user(), "", &document).await;
    let second = service.submit(user(), "", &document).await;
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (202, 200));
    assert_eq!(first.text("/id"), second.text("/id"));
    assert_eq!(second.at("/repeated"), true);
    let renewed = service.submit(user(), "?force=true", &document).await;
    assert_ne!(first.text("/id"), renewed.text("/id"));
    // Requests of other tenants are never identical.
    let other = service.submit(caller("other", everypage_api::Role::User), "", &document).await;
    assert_eq!(other.status, 202);
    assert_ne!(first.text("/id"), other.text("/id"));
}

#[tokio::test(start_paused = true)]
async fn an_idempotency_key_identifies_one_request() {
    let service = Service::new(&[]);
    let send = |document: FakeDocument, query: &'static str, key: String| {
        let request = request("POST", &format!("/v1/jobs{query}"), "application/pdf", document.bytes());
        service.send(Some(user()), with_header(request, "idempotency-key", &key))
    };
    let first = send(FakeDocument::graphics(1), "", "order-7".into()).await;
    let same = send(FakeDocument::graphics(1), "", "order-7".into()).await;
    assert_eq!((same.status.as_u16(), same.text("/id")), (200, first.text("/id")));
    let other_key = send(FakeDocument::graphics(1), "", "order-8".into()).await;
    assert_eq!(other_key.status, 202);
    let reused = send(FakeDocument::graphics(2), "", "order-7".into()).await;
    reused.is_problem(422, "idempotency_key_reused").says("order-7");
    send(FakeDocument::graphics(1), "?tier=fast", "order-7".into())
        .await
        .is_problem(422, "idempotency_key_reused");
    send(FakeDocument::graphics(1), "", "x".repeat(256)).await.is_problem(422, "bad_options").says("255");
    send(FakeDocument::graphics(1), "?force=true", "k".into()).await.is_problem(422, "bad_options");
}

#[tokio::test(start_paused = true)]
async fn all_invalid_options_are_reported_together_and_nothing_is_stored() {
    let service = Service::new(&[]);
    let query = "?pages=0&tier=best&deadline=soon&colour=blue&ai_pages=all&ai_pages=graphics";
    let answer = service.submit(user(), query, &FakeDocument::graphics(1)).await;
    answer.is_problem(422, "bad_options").says("primary, fast, secondary");
    let errors = answer.at("/errors");
    let names: Vec<&str> =
        errors.as_array().unwrap().iter().map(|error| error["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["pages", "tier", "deadline", "colour", "ai_pages"]);
    service.submit(user(), "?name=%20", &FakeDocument::graphics(1)).await.is_problem(422, "bad_options");
    assert_eq!(service.harness.blobs.keys(), Vec::<String>::new());
    assert_eq!(jobs::open(&service.process.app.store).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_form_is_refused_with_the_reason() {
    let service = Service::new(&[]);
    let document = FakeDocument::graphics(1).bytes();
    send_form(&service, &[("tier", None, b"fast")]).await.is_problem(422, "bad_options").says("no document");
    let twice: [(&str, _, &[u8]); 2] = [("file", None, &document), ("file", None, &document)];
    send_form(&service, &twice).await.is_problem(422, "bad_options").says("twice");
    let long = vec![b'x'; 5000];
    send_form(&service, &[("tier", None, &long)]).await.is_problem(422, "bad_options").says("4096");
    send_form(&service, &[("tier", None, b"\xff")]).await.is_problem(422, "bad_options").says("UTF-8");
    let many: Vec<(&str, Option<&str>, &[u8])> = vec![("tier", None, b"fast"); 40];
    send_form(&service, &many).await.is_problem(422, "bad_options");
    let torn = request("POST", "/v1/jobs", "multipart/form-data; boundary=XX", b"--XX\r\nContent-".to_vec());
    service.send(Some(user()), torn).await.is_problem(400, "bad_request");
    let unbounded = request("POST", "/v1/jobs", "multipart/form-data", vec![]);
    service.send(Some(user()), unbounded).await.is_problem(400, "bad_request");
}

#[tokio::test(start_paused = true)]
async fn a_document_over_the_limit_is_refused_while_it_is_received() {
    let service = Service::new(&[("MAX_FILE_BYTES", "1000")]);
    let stream = |chunks: usize, fail: bool| {
        let chunks = (0..chunks).map(move |index| match index {
            // The limit was reached long before.
            50 => panic!("read on past the limit"),
            5 if fail => Err(std::io::Error::other("the client is gone")),
            _ => Ok(Bytes::from(vec![b'x'; 100])),
        });
        Body::from_stream(futures::stream::iter(chunks))
    };
    let send = |body, media: &str| {
        let request = Request::builder().method("POST").uri("/v1/jobs").header("content-type", media);
        service.send(Some(user()), request.body(body).unwrap())
    };
    send(stream(100, false), "application/pdf").await.is_problem(413, "file_too_large").says("1000");
    // A document that announces itself as too large is not read at all.
    let announced =
        with_header(request("POST", "/v1/jobs", "application/pdf", vec![]), "content-length", "1001");
    service.send(Some(user()), announced).await.is_problem(413, "file_too_large");
    assert_eq!(send(stream(10, false), "application/pdf").await.status, 202);
    send(stream(9, true), "application/pdf").await.is_problem(400, "bad_request").says("the client is gone");
    let parts: [(&str, _, &[u8]); 1] = [("file", None, &[b'x'; 1001])];
    send_form(&service, &parts).await.is_problem(413, "file_too_large");
    let parts: [(&str, _, &[u8]); 1] = [("file", None, &[b'x'; 999])];
    assert_eq!(send_form(&service, &parts).await.status, 202);
}

#[tokio::test(start_paused = true)]
async fn a_form_may_be_large_but_not_outside_of_its_fields() {
    let service = Service::new(&[]);
    let send = |body: Vec<u8>| {
        let chunks: Vec<_> =
            body.chunks(100_000).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect();
        let request = Request::builder().method("POST").uri("/v1/jobs");
        let request = request.header("content-type", "multipart/form-data; boundary=XX");
        service.send(Some(user()), request.body(Body::from_stream(futures::stream::iter(chunks))).unwrap())
    };
    let large = vec![b'x'; 8_000_000];
    let answer =
        send(form(&[("tier", None, b"fast"), ("file", None, &large), ("priority", None, b"low")])).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(
        (answer.at("/document/bytes"), answer.text("/options/priority")),
        (8_000_000.into(), "low".into())
    );
    // Before the first field, and as the head of one.
    send([large.clone(), form(&[("tier", None, b"fast")])].concat())
        .await
        .is_problem(400, "bad_request")
        .says("no field");
    let head = [b"--XX\r\nX: ".to_vec(), large].concat();
    send(head).await.is_problem(400, "bad_request").says("no field");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_no_document_is_refused_or_fails_with_its_reason() {
    let service = Service::new(&[]);
    let send = |media: &'static str, body: &'static [u8]| {
        service.send(Some(user()), request("POST", "/v1/jobs", media, body.to_vec()))
    };
    send("application/pdf", b"").await.is_problem(422, "empty_file");
    send("", b"x").await.is_problem(415, "unsupported_media_type").says("application/pdf");
    send("text/html", b"x").await.is_problem(415, "unsupported_media_type");
    send("application/json", b"{}").await.is_problem(422, "bad_options").says("application/pdf");
    send("application/json", b"[1]").await.is_problem(422, "bad_options");
    send("application/json", b"{").await.is_problem(400, "bad_request");
    let answer = send("application/pdf; charset=binary", b"no PDF").await;
    assert_eq!(answer.status, 202);
    let id = answer.text("/id");
    service.process.finish(&JobId::new(&id)).await;
    let seen = service.get(user(), &format!("/v1/jobs/{id}")).await;
    assert_eq!(seen.text("/status"), "failed");
    assert_eq!(seen.text("/error/code"), "not_a_pdf");
    assert!(seen.text("/message").contains("not a PDF"));
}

#[tokio::test(start_paused = true)]
async fn a_job_is_part_of_its_callers_trace() {
    let service = Service::new(&[]);
    let posted = |traceparent: &str| {
        let body = FakeDocument::graphics(1).bytes();
        with_header(
            request("POST", "/v1/jobs?force=true", "application/pdf", body),
            "traceparent",
            traceparent,
        )
    };
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let answer = service.send(Some(user()), posted(&format!("00-{trace}-00f067aa0ba902b7-01"))).await;
    assert_eq!((answer.status.as_u16(), answer.text("/trace_id")), (202, trace.to_owned()));
    // The W3C recommendation: a malformed traceparent is ignored.
    let answer = service.send(Some(user()), posted("00-not-a-trace")).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert!(answer.text("/trace_id") != trace && answer.text("/trace_id").len() == 32, "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_has_a_longest_time() {
    let service = Service::new(&[]);
    let document = FakeDocument::graphics(1);
    let answer = service.submit(user(), "?deadline=25h", &document).await;
    answer.is_problem(422, "bad_options").says("MAX_DEADLINE");
    assert_eq!(service.submit(user(), "?deadline=24h", &document).await.status, 202);
}
