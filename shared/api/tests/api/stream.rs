//! Events as they happen.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use everypage_core::{
    app::Stop,
    domain::{
        event::Event,
        ids::{EventId, JobId, TenantId},
    },
    ports::{clock::within, records::Batch},
    store::trail,
};
use everypage_testkit::pdf::FakeDocument;
use everypage_tests::harness::Harness;
use futures::StreamExt;
use tower::ServiceExt;

use crate::support::{Service, request, stranger, user, with_header};

fn streaming() -> (Service, Stop) {
    let stop = Stop::default();
    (Service::of(Harness::new(&[]), |api| api.streaming(stop.clone())), stop)
}

/// What a stream has sent, taken apart.
#[derive(Debug, Default)]
struct Heard {
    kinds: Vec<String>,
    ids: Vec<String>,
    jobs: Vec<serde_json::Value>,
}

impl Heard {
    fn take(&mut self, text: &str) {
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

/// Listens until the stream ends, for a minute at most.
async fn hear(service: &Service, mut stream: BodyDataStream) -> (Heard, bool) {
    let mut heard = Heard::default();
    let all = async {
        while let Some(Ok(bytes)) = stream.next().await {
            heard.take(&String::from_utf8_lossy(&bytes));
        }
    };
    let ended = within(service.process.app.clock.as_ref(), Duration::from_secs(60), all).await.is_some();
    (heard, ended)
}

#[tokio::test(start_paused = true)]
async fn a_job_is_followed_to_its_end_and_from_where_one_was() {
    let (service, _) = streaming();
    let id = service.job("", &FakeDocument::graphics(3)).await;
    let path = format!("/v1/jobs/{id}/events");
    let (status, stream) = open(&service, &path, None).await;
    assert_eq!(status, 200);
    let job = JobId::new(&id);
    let ((heard, ended), _) = tokio::join!(hear(&service, stream), service.process.finish(&job));
    assert!(ended, "{heard:?}");
    let count = |kind: &str| heard.kinds.iter().filter(|other| *other == kind).count();
    assert_eq!((count("page.settled"), count("job.executed"), count("job.received")), (3, 1, 0), "{heard:?}");
    assert_eq!(heard.jobs.first().unwrap()["status"], "queued");
    assert_eq!(heard.jobs.last().unwrap()["status"], "success");
    assert_eq!(heard.jobs.last().unwrap()["progress"], 100);
    // Who was cut off in the middle hears the rest, and no event is missed in between.
    let (_, stream) = open(&service, &path, Some(&heard.ids[1])).await;
    let (rest, ended) = hear(&service, stream).await;
    assert!(ended && heard.ids[2..].iter().all(|id| rest.ids.contains(id)), "{heard:?} {rest:?}");
    // Who has heard all need not come again.
    assert_eq!(open(&service, &path, heard.ids.last().map(String::as_str)).await.0, 204);
    for bad in ["x", "", "2026_x"] {
        assert_eq!(open(&service, &path, Some(bad)).await.0, 422, "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tenants_stream_tells_of_its_own_jobs_until_the_service_stops() {
    let (service, stop) = streaming();
    let (_, stream) = open(&service, "/v1/events", None).await;
    let work = async {
        let id = service.finished(&FakeDocument::graphics(1)).await;
        let document = FakeDocument::graphics(2);
        let foreign = service.put_in(stranger(), "", &document).await;
        service.harness.advance(Duration::from_secs(20)).await;
        stop.ask();
        (id, foreign.text("/id"))
    };
    let ((heard, ended), _) = tokio::join!(hear(&service, stream), work);
    assert!(ended, "{heard:?}");
    let received = heard.kinds.iter().filter(|kind| *kind == "job.received").count();
    let audited = heard.kinds.iter().filter(|kind| *kind == "job.audited").count();
    assert_eq!((received, audited), (1, 1), "{heard:?}");
    let listed = service.get(user(), "/v1/events?type=job.audited").await;
    assert_eq!(listed.items().len(), 1, "{listed:?}");
}

#[tokio::test(start_paused = true)]
async fn where_nothing_streams_that_is_said() {
    let service = Service::new(&[]);
    let ask = with_header(request("GET", "/v1/events", "", vec![]), "accept", "text/event-stream");
    service.send(Some(user()), ask).await.is_problem(406, "not_acceptable");
}

/// What a stream sends until it is silent for a second or ends, piece by piece.
async fn pieces(service: &Service, stream: &mut BodyDataStream) -> Vec<String> {
    let mut all = Vec::new();
    let clock = service.process.app.clock.clone();
    while let Some(Some(Ok(bytes))) = within(clock.as_ref(), Duration::from_secs(1), stream.next()).await {
        all.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    all
}

fn events_in(text: &str) -> usize {
    text.matches("\nid: ").count() + usize::from(text.starts_with("id: "))
}

#[tokio::test(start_paused = true)]
async fn a_long_past_comes_in_pieces() {
    let (service, _) = streaming();
    service.finished(&FakeDocument::graphics(500)).await;
    let (_, mut stream) = open(&service, "/v1/events", Some("2026-11-16T00:00:00.000Z_x")).await;
    let pieces = pieces(&service, &mut stream).await;
    let counts: Vec<usize> = pieces.iter().map(|piece| events_in(piece)).collect();
    assert!(counts.iter().all(|count| *count <= 200), "{counts:?}");
    assert!(counts.iter().sum::<usize>() > 500, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_hears_of_more_than_a_day_ago() {
    let (service, _) = streaming();
    service.finished(&FakeDocument::graphics(1)).await;
    service.harness.advance(Duration::from_secs(25 * 3600)).await;
    service.job("", &FakeDocument::graphics(2)).await;
    let (_, mut stream) = open(&service, "/v1/events", Some("2001-01-01T00:00:00.000Z_x")).await;
    let heard = pieces(&service, &mut stream).await.concat();
    assert_eq!(heard.matches("event: job.received").count(), 1, "{heard}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_after_a_while_and_who_heard_nothing_knows_where_to_go_on() {
    let (service, _) = streaming();
    let (_, mut stream) = open(&service, "/v1/events", None).await;
    let mut heard = Heard::default();
    let all = async {
        while let Some(Ok(bytes)) = stream.next().await {
            heard.take(&String::from_utf8_lossy(&bytes));
        }
    };
    let app = &service.process.app;
    assert!(within(app.clock.as_ref(), Duration::from_secs(320), all).await.is_some(), "it goes on");
    assert_eq!(heard.kinds, Vec::<String>::new());
    // In between something happens.
    service.job("", &FakeDocument::graphics(1)).await;
    service.harness.advance(Duration::from_secs(60)).await;
    let (_, mut stream) = open(&service, "/v1/events", heard.ids.last().map(String::as_str)).await;
    let missed = pieces(&service, &mut stream).await.concat();
    assert!(missed.contains("event: job.acked"), "{missed}");
}

/// Its write was refused three times, and tried again after 1 s, 4 s and 16 s.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_stored_late_is_heard_once() {
    let (service, _) = streaming();
    service.job("", &FakeDocument::graphics(1)).await;
    let app = &service.process.app;
    let tenant = TenantId::new("acme");
    let event = trail::since(app, &tenant, None, Some("job.acked"), 1).await.unwrap().remove(0);
    let (_, mut stream) = open(&service, "/v1/events", None).await;
    service.harness.advance(Duration::from_secs(100)).await;
    service.job("", &FakeDocument::graphics(2)).await;
    let before = pieces(&service, &mut stream).await.concat();
    assert!(before.contains("event: job.acked"), "{before}");
    let timestamp = app.clock.now() - Duration::from_secs(22);
    let late = Event { id: EventId::new("late"), sequence: 900, timestamp, ..event };
    let change = trail::append(app, &late).unwrap();
    app.records.write(&Batch { stamp: "late".into(), changes: vec![change] }).await.unwrap();
    let mut after = String::new();
    for _ in 0..20 {
        after.push_str(&pieces(&service, &mut stream).await.concat());
    }
    assert_eq!(after.matches("_late\n").count(), 1, "{after}");
}
