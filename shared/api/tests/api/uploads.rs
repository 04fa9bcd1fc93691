use std::{collections::BTreeMap, time::Duration};

use axum::http::StatusCode;
use everypage_core::{
    ids::JobId,
    intake::{
        accept::{ArrivalError, Object, accept},
        submit::{Chosen, MeasuredFile, Submitted, submit_as},
        uploads,
    },
    job::{JobOptions, RequestSource, jobs},
    ports::blobs::Blobs,
};
use everypage_testkit::{faulty::Faults, pdf::FakeDocument};
use everypage_tests::harness::{Harness, temp_file};

use crate::support::{Answer, Service, operator, other_tenant, request, user, with_header};

async fn start_upload(service: &Service, json: &str) -> Answer {
    let answer = service.post(user(), "/v1/jobs", json).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
    answer
}

async fn arrive(service: &Service, key: &str, document: &FakeDocument) -> Result<Submitted, ArrivalError> {
    arrive_with(service, key, "1", document, &[]).await
}

async fn arrive_with(
    service: &Service,
    key: &str,
    version: &str,
    document: &FakeDocument,
    metadata: &[(&str, &str)],
) -> Result<Submitted, ArrivalError> {
    let file = temp_file(document.bytes());
    let metadata: BTreeMap<String, String> =
        metadata.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    accept(
        &service.process.app.intake,
        Object { key, version, file: file.path(), metadata: &metadata, password: None },
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn a_large_document_is_uploaded_directly_to_the_storage() {
    let (service, links) = Service::with_upload_links(&[]);
    let options = "{\"upload\":true,\"name\":\"Bericht für 2026.pdf\",\"tier\":\"fast\",\"priority\":4,\"password\":\"sesame\"}";
    let started = start_upload(&service, options).await;
    let id = started.text("/id");
    assert_eq!(started.header("location"), format!("/v1/jobs/{id}"));
    assert_eq!(started.text("/status"), "awaiting_upload");
    assert_eq!(started.text("/upload/method"), "PUT");
    assert_eq!(started.text("/upload/expires_at"), "2026-11-16T01:00:00Z");
    assert_eq!(started.text("/upload/headers/content-type"), "application/pdf");
    let key = links.take();
    assert_eq!(key, format!("incoming/acme/{id}/Bericht_f_r_2026.pdf"));
    for item in service.harness.records.dump() {
        assert!(!item.draft.body.contains("sesame"), "a password in clear");
    }

    let path = format!("/v1/jobs/{id}");
    assert_eq!(service.get(user(), &path).await.text("/status"), "awaiting_upload");
    service.get(other_tenant(), &path).await.is_problem(404, "unknown_job");
    let waiting = service.get(user(), "/v1/jobs?status=awaiting_upload").await;
    assert_eq!((waiting.items().len(), waiting.at("/items/0/id")), (1, started.at("/id")));
    assert_eq!(service.get(other_tenant(), "/v1/jobs?status=awaiting_upload").await.items().len(), 0);
    service.get(user(), &format!("{path}/result")).await.is_problem(409, "awaiting_upload");
    service.post(user(), &format!("{path}/cancel"), "").await.is_problem(409, "awaiting_upload");

    let document = FakeDocument { password: Some("sesame".into()), ..FakeDocument::graphics(1) };
    let submitted = arrive(&service, &key, &document).await.unwrap();
    assert!(!submitted.existed);
    let job = submitted.job.id;
    let seen = service.get(user(), &path).await;
    assert_eq!((seen.text("/id"), seen.text("/status")), (job.to_string(), "processing".into()));
    assert_eq!(seen.text("/document/name"), "Bericht für 2026.pdf");
    assert_eq!(seen.text("/options/tier"), "fast");
    assert_eq!(seen.text("/user"), "user of acme");
    let done = service.process.finish(&job).await;
    assert!(done.failure.is_none(), "{:?}", done.failure);
    assert_eq!(service.get(user(), &format!("{path}/result")).await.status, 200);
    // The password is deleted.
    let kept = uploads::find(&service.process.app.store, &id).await.unwrap().unwrap().value;
    assert_eq!((kept.sealed_password, kept.job.as_ref()), (None, Some(&job)));
    // A repeated notification finds the same job.
    let again = arrive(&service, &key, &document).await.unwrap();
    assert_eq!((again.job.id, again.existed), (job.clone(), true));
    // The same document by another link, and an object with a similar key that belongs to no upload.
    start_upload(&service, "{\"upload\":true,\"tier\":\"fast\",\"priority\":4,\"name\":\"Bericht 2.pdf\"}")
        .await;
    let other = links.take();
    assert!(arrive(&service, &other, &document).await.unwrap().existed);
    let stays = format!("{key}2");
    for object in [key.as_str(), &format!("{key}.json"), &other, &stays] {
        service.harness.blobs.put_new(object, vec![1]).await.unwrap();
    }
    // Once the job is deleted its upload is unknown too, and no notification restores it.
    let sha256 = seen.text("/document/sha256");
    let deleted = service.send(Some(user()), request("DELETE", &path, "", vec![])).await;
    assert_eq!(deleted.status, 204);
    service.get(user(), &path).await.is_problem(404, "unknown_job");
    assert!(
        matches!(arrive(&service, &key, &document).await, Err(ArrivalError::Refused(f)) if f.code == "job_deleted")
    );
    // No record contains the document's name or hash any more.
    assert_eq!(service.harness.blobs.keys(), [stays]);
    for item in service.harness.records.dump() {
        let found = ["Bericht", &sha256].iter().any(|word| item.draft.body.contains(word));
        assert!(!found, "{:?}: {}", item.draft.key, item.draft.body);
        let upload = item.draft.key.partition.starts_with("upload#");
        assert!(!upload || item.draft.expires.is_some(), "for ever: {:?}", item.draft.key);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_of_a_known_document_gives_its_existing_job() {
    let (service, links) = Service::with_upload_links(&[]);
    let document = FakeDocument::graphics(2);
    let known = service.job("", &document).await;
    let started = start_upload(&service, "{\"upload\":true}").await;
    let key = links.take();
    let submitted = arrive(&service, &key, &document).await.unwrap();
    assert!(submitted.existed);
    let seen = service.get(user(), &format!("/v1/jobs/{}", started.text("/id"))).await;
    assert_eq!(seen.text("/id"), known);
    // Unless a new job is forced.
    start_upload(&service, "{\"upload\":true,\"force\":true}").await;
    let key = links.take();
    let renewed = arrive(&service, &key, &document).await.unwrap();
    assert!(!renewed.existed && renewed.job.id.as_str() != known);
    assert_eq!(arrive(&service, &key, &document).await.unwrap().job.id, renewed.job.id);
}

/// Crashes at every call in turn; whatever was done by then, the next try makes one job of it.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_call_makes_one_job() {
    let document = FakeDocument::graphics(1);
    let mut crashed = 0;
    for at in 0.. {
        let harness = Harness::new(&[]);
        let links = std::sync::Arc::new(crate::support::FakeLinks::default());
        let mut service = Service::of(harness, |api| api.with_upload_links(links.clone()));
        let id = start_upload(&service, "{\"upload\":true,\"name\":\"a.pdf\"}").await.text("/id");
        let key = links.take();

        let faults = Faults::stop_at(at);
        service.harness.faults = faults.clone();
        service.process = service.harness.start("dying");
        let survived = tokio::select! {
            done = arrive(&service, &key, &document) => { done.unwrap(); true }
            () = faults.stopped() => false,
        };
        crashed += usize::from(!survived);
        service.harness.faults = Faults::none();
        service.process = service.harness.start("next");
        let app = service.process.app.clone();
        // After a crash the id is that of a job or of an upload, never unknown.
        let left = service.get(user(), &format!("/v1/jobs/{id}")).await;
        assert!(
            ["awaiting_upload", "queued", "processing"].contains(&left.text("/status").as_str()),
            "{left:?}"
        );
        // The job may even have failed before the notification is repeated.
        if left.text("/status") != "awaiting_upload" {
            let job = JobId::new(left.text("/id"));
            everypage_core::job::cancel::cancel(&app.store, app.flow.as_ref(), &app.interrupts, &job, "x")
                .await
                .unwrap();
            service.process.finish(&job).await;
        }
        let first = arrive(&service, &key, &document).await.unwrap().job.id;
        let second = arrive(&service, &key, &document).await.unwrap().job.id;
        assert_eq!(first, second);
        let tenant = everypage_core::ids::TenantId::new("acme");
        assert_eq!(jobs::list(&app.store, &tenant, 10).await.unwrap().len(), 1, "stopped at call {at}");
        assert_eq!(service.get(user(), &format!("/v1/jobs/{id}")).await.text("/id"), first.as_str());
        if survived {
            break;
        }
    }
    assert!(crashed >= 6, "only {crashed} calls");
}

#[tokio::test(start_paused = true)]
async fn a_refused_upload_shows_its_error_under_its_id() {
    let (service, links) = Service::with_upload_links(&[("MAX_FILE_BYTES", "1000")]);
    let id = start_upload(&service, "{\"upload\":true}").await.text("/id");
    let key = links.take();
    let refused = arrive(&service, &key, &FakeDocument::graphics(100)).await.unwrap_err();
    assert!(
        matches!(&refused, ArrivalError::Refused(failure) if failure.code == "file_too_large"),
        "{refused}"
    );
    let seen = service.get(user(), &format!("/v1/jobs/{id}")).await;
    assert_eq!((seen.text("/status"), seen.text("/error/code")), ("failed".into(), "file_too_large".into()));
    service
        .get(user(), &format!("/v1/jobs/{id}/result"))
        .await
        .is_problem(409, "awaiting_upload")
        .says("1000");

    let named = async |media_type: &str, body: Vec<u8>| {
        let request = with_header(request("POST", "/v1/jobs", media_type, body), "idempotency-key", "k");
        service.send(Some(user()), request).await
    };
    named("application/pdf", FakeDocument::graphics(1).bytes()).await;
    named("application/json", b"{\"upload\":true}".to_vec()).await;
    let key = links.take();
    let reused = arrive(&service, &key, &FakeDocument::graphics(2)).await.unwrap_err();
    assert!(matches!(reused, ArrivalError::Refused(failure) if failure.code == "idempotency_key_reused"));
}

#[tokio::test(start_paused = true)]
async fn an_expired_link_is_reported() {
    let (service, _) = Service::with_upload_links(&[]);
    let id = start_upload(&service, "{\"upload\":true}").await.text("/id");
    service.harness.advance(Duration::from_secs(3601)).await;
    let seen = service.get(user(), &format!("/v1/jobs/{id}")).await;
    assert_eq!(seen.text("/status"), "awaiting_upload");
    assert!(seen.text("/message").contains("expired"));
}

#[tokio::test(start_paused = true)]
async fn uploads_need_a_backend_with_upload_links() {
    let service = Service::new(&[]);
    let answer = service.post(user(), "/v1/jobs", "{\"upload\":true}").await;
    answer.is_problem(422, "uploads_not_available").says("application/pdf");
    let (service, _) = Service::with_upload_links(&[]);
    let bad =
        service.post(user(), "/v1/jobs", "{\"upload\":true,\"tier\":\"best\",\"x\":1,\"pages\":{}}").await;
    assert_eq!(bad.is_problem(422, "bad_options").at("/errors").as_array().unwrap().len(), 3);
    let huge = format!("{{\"upload\":true,\"name\":\"{}\"}}", "x".repeat(70_000));
    service.post(user(), "/v1/jobs", &huge).await.is_problem(413, "file_too_large");
}

#[tokio::test(start_paused = true)]
async fn an_object_without_an_upload_request_is_a_plain_submission() {
    let (service, _) = Service::with_upload_links(&[]);
    let document = FakeDocument::graphics(1);
    let metadata = [("Tier", "fast"), ("ai-pages", "all"), ("user", "ann"), ("camera", "x")];
    let key = "incoming/acme/2026/scan.pdf";
    let job = arrive_with(&service, key, "v1", &document, &metadata).await.unwrap().job;
    assert_eq!(job.received.tenant.as_str(), "acme");
    assert_eq!((job.received.document.name.as_str(), job.received.source), ("scan.pdf", RequestSource::S3));
    assert_eq!(job.received.user.as_deref(), Some("ann"));
    assert_eq!(job.received.options.tier.to_string(), "fast");
    let seen = service.get(operator(), &format!("/v1/jobs/{}", job.id)).await;
    assert_eq!(seen.status, 200);
    // A repeated notification finds the job, even one that was cancelled.
    everypage_core::job::cancel::cancel(
        &service.process.app.store,
        service.process.app.flow.as_ref(),
        &service.process.app.interrupts,
        &job.id,
        "x",
    )
    .await
    .unwrap();
    service.process.finish(&job.id).await;
    let again = arrive_with(&service, key, "v1", &document, &metadata).await.unwrap();
    assert_eq!((again.job.id, again.existed), (job.id.clone(), true));
    // A new version of the object is a new request.
    let renewed = arrive_with(&service, key, "v2", &document, &metadata).await.unwrap();
    assert_ne!(renewed.job.id, job.id);
    // The same content under another key is not.
    let copy = arrive_with(&service, "incoming/acme/copy.pdf", "v1", &document, &metadata).await.unwrap();
    assert_eq!(copy.job.id, renewed.job.id);

    let bad = [("tier", "best")];
    let refused = arrive_with(&service, "incoming/acme/b.pdf", "1", &document, &bad).await.unwrap_err();
    assert!(matches!(&refused, ArrivalError::Refused(failure) if failure.code == "bad_options"), "{refused}");
    assert!(refused.to_string().contains("primary, fast, secondary"));
    let long = "x".repeat(300);
    let bad = [("idempotency-key", long.as_str())];
    let refused = arrive_with(&service, "incoming/acme/c.pdf", "1", &document, &bad).await.unwrap_err();
    assert!(refused.to_string().contains("255"), "{refused}");
    for key in
        ["results/acme/a.pdf", "incoming/acme", "incoming//a.pdf", "incoming/acme/", "incoming/acme/x/"]
    {
        let elsewhere = arrive(&service, key, &document).await;
        assert!(matches!(elsewhere, Err(ArrivalError::Elsewhere(_))), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_of_another_tenant_is_never_used() {
    let (service, links) = Service::with_upload_links(&[]);
    let id = start_upload(&service, "{\"upload\":true,\"name\":\"a.pdf\"}").await.text("/id");
    let key = links.take();
    let forged = key.replace("acme", "other");
    let job = arrive(&service, &forged, &FakeDocument::graphics(1)).await.unwrap().job;
    assert_eq!(job.received.tenant.as_str(), "other");
    assert_eq!(service.get(user(), &format!("/v1/jobs/{id}")).await.text("/status"), "awaiting_upload");
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_submissions_with_one_id_make_one_job() {
    let service = Service::new(&[]);
    let file = temp_file(FakeDocument::graphics(1).bytes());
    let app = &service.process.app;
    let submission = || everypage_core::intake::submit::Submission {
        tenant: user().tenant,
        user: None,
        source: RequestSource::S3,
        name: "a.pdf".into(),
        file: file.path().to_owned(),
        password: None,
        options: JobOptions::from_settings(&app.settings),
        traceparent: None,
        idempotency_key: None,
    };
    // What was measured is used: the file is not hashed again.
    let measured = MeasuredFile { bytes: 7, sha256: "as measured".into() };
    let chosen = || Some(Chosen { id: JobId::new("chosen"), file: measured.clone() });
    let (a, b) = futures::join!(
        submit_as(&app.intake, chosen(), submission()),
        submit_as(&app.intake, chosen(), submission())
    );
    assert_eq!((a.unwrap().job.id, b.unwrap().job.id), (JobId::new("chosen"), JobId::new("chosen")));
    assert_eq!(service.harness.blobs.keys(), ["jobs/chosen/source.pdf"]);
    let done = service.process.finish(&JobId::new("chosen")).await;
    assert!(done.failure.is_none());
    assert_eq!((done.received.document.bytes, done.received.document.sha256.as_str()), (7, "as measured"));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_upload_request_gives_the_same_upload_and_then_its_job() {
    let (service, links) = Service::with_upload_links(&[("MAX_FILE_BYTES", "1000")]);
    let upload = async |name: &str, key: &str| {
        let body = format!("{{\"upload\":true,\"name\":\"{name}\"}}").into_bytes();
        let request = request("POST", "/v1/jobs", "application/json", body);
        service.send(Some(user()), with_header(request, "idempotency-key", key)).await
    };
    let first = upload("a.pdf", "order 7").await;
    service.harness.advance(Duration::from_secs(1800)).await;
    let again = upload("a.pdf", "order 7").await;
    assert_eq!((again.status, again.text("/id")), (StatusCode::CREATED, first.text("/id")));
    assert_eq!(again.text("/upload/expires_at"), "2026-11-16T01:30:00Z", "a new link");
    assert_eq!(service.get(user(), "/v1/jobs?status=awaiting_upload").await.items().len(), 1);
    upload("b.pdf", "order 7").await.is_problem(422, "idempotency_key_reused");
    assert_ne!(upload("a.pdf", "order 8").await.text("/id"), first.text("/id"));

    let key = format!("incoming/acme/{}/a.pdf", first.text("/id"));
    let job = arrive(&service, &key, &FakeDocument::graphics(1)).await.unwrap().job.id;
    let late = upload("a.pdf", "order 7").await;
    assert_eq!((late.status, late.text("/id")), (StatusCode::OK, job.to_string()));
    assert_eq!(late.at("/repeated"), true);

    service.process.finish(&job).await;
    let path = format!("/v1/jobs/{job}");
    service.send(Some(user()), request("DELETE", &path, "", vec![])).await;
    let renewed = upload("a.pdf", "order 7").await;
    assert_eq!((renewed.status, renewed.text("/status")), (StatusCode::CREATED, "awaiting_upload".into()));

    let refused = upload("large.pdf", "order 9").await;
    let key = format!("incoming/acme/{}/large.pdf", refused.text("/id"));
    arrive(&service, &key, &FakeDocument::graphics(500)).await.unwrap_err();
    let failed = upload("large.pdf", "order 9").await;
    assert_eq!((failed.status, failed.text("/status")), (StatusCode::OK, "failed".into()));
    assert_eq!(failed.text("/error/code"), "file_too_large");
    assert!(failed.at("/upload").is_null(), "there is nothing more to upload");
    drop(links);
}
