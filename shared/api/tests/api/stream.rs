//! Event streams.

use std::time::Duration;
use tokio_util::sync::CancellationToken;

use axum::body::{Body, BodyDataStream};
use everypage_api::Caller;
use everypage_core::{
    event::Event,
    events::trail,
    ids::{EventId, JobId, TenantId},
    ports::records::Batch,
    time::within,
};
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::harness::Harness;
use futures::StreamExt;
use tower::ServiceExt;

use crate::support::{Service, other_tenant, request, user, with_header};

fn streaming() -> (Service, CancellationToken) {
    let stop = CancellationToken::new();
    (Service::of(Harness::new(&[]), |api| api.streaming(stop.clone())), stop)
}

/// What a stream has sent, parsed.
#[derive(Debug, Default)]
struct Received {
    kinds: Vec<String>,
    ids: Vec<String>,
    jobs: Vec<serde_json::Value>,
}

impl Received {
    fn parse(&mut self, text: &str) {
        let mut kind = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("event: ") {
                kind = name.to_owned();
                self.kinds.push(kind.clone());
            } else if let Some(id) = line.strip_prefix("id: ") {
                self.ids.push(id.to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(data).expect("JSON");
                if kind == "job" {
                    self.jobs.push(data);
                }
            }
        }
    }
}

async fn open(service: &Service, path: &str, last: Option<&str>) -> (u16, BodyDataStream) {
    let mut request = with_header(request("GET", path, "", vec![]), "accept", "text/event-stream");
    if let Some(last) = last {
        request = with_header(request, "last-event-id", last);
    }
    request.extensions_mut().insert(user());
    let response = service.router.clone().oneshot(request).await.expect("routers do not fail");
    (response.status().as_u16(), Body::into_data_stream(response.into_body()))
}

/// Reads until the stream ends, for a minute at most.
async fn receive(service: &Service, mut stream: BodyDataStream) -> (Received, bool) {
    let mut received = Received::default();
    let all = async {
        while let Some(Ok(bytes)) = stream.next().await {
            received.parse(&String::from_utf8_lossy(&bytes));
        }
    };
    let ended =
        within(service.process.app.store.clock.as_ref(), Duration::from_secs(60), all).await.is_some();
    (received, ended)
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_a_job_runs_to_its_end_and_can_be_resumed() {
    let (service, _) = streaming();
    let id = service.job("", &FakeDocument::graphics(3)).await;
    let path = format!("/v1/jobs/{id}/events");
    let (status, stream) = open(&service, &path, None).await;
    assert_eq!(status, 200);
    let job = JobId::new(&id);
    let ((received, ended), _) = tokio::join!(receive(&service, stream), service.process.finish(&job));
    assert!(ended, "{received:?}");
    let count = |kind: &str| received.kinds.iter().filter(|other| *other == kind).count();
    assert_eq!(
        (count("page.settled"), count("job.executed"), count("job.received")),
        (3, 1, 0),
        "{received:?}"
    );
    assert_eq!(received.jobs.first().unwrap()["status"], "processing");
    assert_eq!(received.jobs.last().unwrap()["status"], "success");
    assert_eq!(received.jobs.last().unwrap()["progress"], 100);
    // A client that was disconnected receives the remaining events.
    let (_, stream) = open(&service, &path, Some(&received.ids[1])).await;
    let (rest, ended) = receive(&service, stream).await;
    assert!(ended && received.ids[2..].iter().all(|id| rest.ids.contains(id)), "{received:?} {rest:?}");
    // A client with the last event need not reconnect.
    assert_eq!(open(&service, &path, received.ids.last().map(String::as_str)).await.0, 204);
    for bad in ["x", "", "2026_x"] {
        assert_eq!(open(&service, &path, Some(bad)).await.0, 422, "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_a_tenant_has_its_own_jobs_until_the_service_stops() {
    let (service, stop) = streaming();
    let (_, stream) = open(&service, "/v1/events", None).await;
    let work = async {
        let id = service.finished(&FakeDocument::graphics(1)).await;
        let document = FakeDocument::graphics(2);
        let foreign = service.submit(other_tenant(), "", &document).await;
        service.harness.advance(Duration::from_secs(20)).await;
        stop.cancel();
        (id, foreign.text("/id"))
    };
    let ((received, ended), _) = tokio::join!(receive(&service, stream), work);
    assert!(ended, "{received:?}");
    let submitted = received.kinds.iter().filter(|kind| *kind == "job.received").count();
    let audited = received.kinds.iter().filter(|kind| *kind == "job.audited").count();
    assert_eq!((submitted, audited), (1, 1), "{received:?}");
    let listed = service.get(user(), "/v1/events?type=job.audited").await;
    assert_eq!(listed.items().len(), 1, "{listed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_service_without_streams_responds_406() {
    let service = Service::new(&[]);
    let stream = with_header(request("GET", "/v1/events", "", vec![]), "accept", "text/event-stream");
    service.send(Some(user()), stream).await.is_problem(406, "not_acceptable");
}

/// What a stream sends until it is silent for a second or ends, chunk by chunk.
async fn chunks(service: &Service, stream: &mut BodyDataStream) -> Vec<String> {
    let mut all = Vec::new();
    let clock = service.process.app.store.clock.clone();
    while let Some(Some(Ok(bytes))) = within(clock.as_ref(), Duration::from_secs(1), stream.next()).await {
        all.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    all
}

fn events_in(text: &str) -> usize {
    text.matches("\nid: ").count() + usize::from(text.starts_with("id: "))
}

#[tokio::test(start_paused = true)]
async fn a_long_past_is_sent_in_small_chunks() {
    let (service, _) = streaming();
    service.finished(&FakeDocument::graphics(500)).await;
    let (_, mut stream) = open(&service, "/v1/events", Some("2026-11-16T00:00:00.000Z_x")).await;
    let chunks = chunks(&service, &mut stream).await;
    let counts: Vec<usize> = chunks.iter().map(|chunk| events_in(chunk)).collect();
    assert!(counts.iter().all(|count| *count <= 200), "{counts:?}");
    assert!(counts.iter().sum::<usize>() > 500, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn no_stream_goes_back_more_than_a_day() {
    let (service, _) = streaming();
    service.finished(&FakeDocument::graphics(1)).await;
    service.harness.advance(Duration::from_secs(25 * 3600)).await;
    service.job("", &FakeDocument::graphics(2)).await;
    let (_, mut stream) = open(&service, "/v1/events", Some("2001-01-01T00:00:00.000Z_x")).await;
    let received = chunks(&service, &mut stream).await.concat();
    assert_eq!(received.matches("event: job.received").count(), 1, "{received}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_events_ends_and_can_be_resumed() {
    let (service, _) = streaming();
    let (_, mut stream) = open(&service, "/v1/events", None).await;
    let mut received = Received::default();
    let all = async {
        while let Some(Ok(bytes)) = stream.next().await {
            received.parse(&String::from_utf8_lossy(&bytes));
        }
    };
    let app = &service.process.app;
    assert!(
        within(app.store.clock.as_ref(), Duration::from_secs(320), all).await.is_some(),
        "the stream did not end"
    );
    assert_eq!(received.kinds, Vec::<String>::new());
    // An event that the client misses.
    service.job("", &FakeDocument::graphics(1)).await;
    service.harness.advance(Duration::from_secs(60)).await;
    let (_, mut stream) = open(&service, "/v1/events", received.ids.last().map(String::as_str)).await;
    let missed = chunks(&service, &mut stream).await.concat();
    assert!(missed.contains("event: job.acked"), "{missed}");
}

/// Its write failed three times and was retried after 1 s, 4 s and 16 s.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_stored_late_is_sent_once() {
    let (service, _) = streaming();
    service.job("", &FakeDocument::graphics(1)).await;
    let app = &service.process.app;
    let tenant = TenantId::new("acme");
    let event = trail::since(&app.store, &tenant, None, Some("job.acked"), 1).await.unwrap().remove(0);
    let (_, mut stream) = open(&service, "/v1/events", None).await;
    service.harness.advance(Duration::from_secs(100)).await;
    service.job("", &FakeDocument::graphics(2)).await;
    let before = chunks(&service, &mut stream).await.concat();
    assert!(before.contains("event: job.acked"), "{before}");
    let timestamp = app.store.clock.now() - Duration::from_secs(22);
    let late = Event { id: EventId::new("late"), sequence: 900, timestamp, ..event };
    let change = trail::append(&app.store, &late).unwrap();
    app.store.records.write(&Batch { stamp: "late".into(), changes: vec![change] }).await.unwrap();
    let mut after = String::new();
    for _ in 0..20 {
        after.push_str(&chunks(&service, &mut stream).await.concat());
    }
    assert_eq!(after.matches("_late\n").count(), 1, "{after}");
}

#[tokio::test(start_paused = true)]
async fn one_tenant_leaves_streams_to_the_others() {
    let (service, _) = streaming();
    let open = |caller: Caller| {
        let mut request =
            with_header(request("GET", "/v1/events", "", vec![]), "accept", "text/event-stream");
        request.extensions_mut().insert(caller);
        service.router.clone().oneshot(request)
    };
    let mut streams = Vec::new();
    for _ in 0..64 {
        streams.push(open(user()).await.unwrap());
    }
    assert!(streams.iter().all(|stream| stream.status() == 200));
    assert_eq!(open(user()).await.unwrap().status(), 429);
    assert_eq!(open(other_tenant()).await.unwrap().status(), 200);
    streams.pop();
    assert_eq!(open(user()).await.unwrap().status(), 200, "a closed stream leaves its place");
}

#[tokio::test(start_paused = true)]
async fn the_trail_of_one_aggregate_is_listed_to_its_tenant_only() {
    let service = Service::new(&[]);
    let id = service.finished(&FakeDocument::graphics(2)).await;
    let kinds = |answer: &crate::support::Answer| -> Vec<String> {
        answer.items().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    };
    let job = service.get(user(), &format!("/v1/events?aggregate=job/{id}&limit=2")).await;
    assert_eq!(kinds(&job), ["job.received", "job.acked"]);
    let next = job.text("/next");
    let rest =
        service.get(user(), &format!("/v1/events?aggregate=job/{id}&type=job.audited&cursor={next}")).await;
    assert_eq!(kinds(&rest), ["job.audited"]);
    let page = service.get(user(), &format!("/v1/events?aggregate=job/{id}/page/2")).await;
    assert_eq!(kinds(&page), ["page.settled"]);
    // Another tenant's are not there, like those that never were.
    for aggregate in [format!("job/{id}"), format!("job/{id}/page/2"), "account/unknown".into()] {
        let foreign = service.get(other_tenant(), &format!("/v1/events?aggregate={aggregate}")).await;
        assert_eq!((foreign.status.as_u16(), foreign.items().len()), (200, 0), "{aggregate}");
    }
    service.get(user(), "/v1/events?aggregate=jobs").await.is_problem(422, "bad_options");
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_chosen_types_ends_with_its_job_and_is_not_opened_again() {
    let (service, _) = streaming();
    let id = service.job("", &FakeDocument::graphics(2)).await;
    let path = format!("/v1/jobs/{id}/events?type=page.settled");
    let (status, stream) = open(&service, &path, None).await;
    assert_eq!(status, 200);
    let job = JobId::new(&id);
    let ((received, ended), _) = tokio::join!(receive(&service, stream), service.process.finish(&job));
    assert!(ended, "{received:?}");
    let others: Vec<_> =
        received.kinds.iter().filter(|kind| *kind != "job" && *kind != "page.settled").collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(received.jobs.last().unwrap()["status"], "success");
    // The last events are of other types: the client has seen the end all the same.
    assert_eq!(open(&service, &path, received.ids.last().map(String::as_str)).await.0, 204);
}
