use std::{sync::Arc, time::Duration};

use everypage_api::Caller;
use everypage_core::{document::Reason, ids::JobId, ports::vision::VisionError};
use everypage_testkit::{
    pdf::{FakeDocument, FakePdf},
    vision::{Reply, read_by},
};
use everypage_tests::harness::Harness;

use crate::support::{Service, request, user, with_header};

#[tokio::test(start_paused = true)]
async fn a_page_has_its_text_and_every_settlement() {
    let service = Service::new(&[("PATIENCE", "0")]);
    service.harness.vision.set_behaviour(|target, page| match page {
        2 => Reply::Fail(VisionError::Unknown { detail: "HTTP 418".into() }),
        _ => Reply::Answer(read_by(target, page)),
    });
    let id = service.finished(&FakeDocument::graphics(3)).await;
    let read = service.get(user(), &format!("/v1/jobs/{id}/pages/1")).await;
    assert_eq!((read.at("/page"), read.text("/source")), (1.into(), "ai".into()));
    assert!(read.text("/text").contains("page 1 read by"), "{read:?}");
    assert!(read.text("/mupdf_text").contains("layer of page"), "{read:?}");
    let fallen = service.get(user(), &format!("/v1/jobs/{id}/pages/2")).await;
    assert_eq!(fallen.text("/text"), fallen.text("/mupdf_text"));
    assert_eq!(fallen.at("/settlements").as_array().unwrap().len(), 1);
    assert_eq!(fallen.at("/settlements/0/calls").as_array().unwrap().len(), 4, "{fallen:?}");
    // Healing adds a second one.
    service.harness.vision.set_behaviour(|target, page| Reply::Answer(read_by(target, page)));
    service.harness.advance(Duration::from_secs(700)).await;
    service.post(user(), &format!("/v1/jobs/{id}/heal"), "").await;
    service.process.work_for(Duration::from_secs(10)).await;
    let healed = service.get(user(), &format!("/v1/jobs/{id}/pages/2")).await;
    assert_eq!(healed.text("/source"), "ai", "{healed:?}");
    assert_eq!(healed.at("/settlements/1/source"), "ai", "{healed:?}");
    for none in ["0", "4", "x", "-1", "99999999999"] {
        service.get(user(), &format!("/v1/jobs/{id}/pages/{none}")).await.is_problem(404, "unknown_page");
        service
            .get(user(), &format!("/v1/jobs/{id}/pages/{none}/image"))
            .await
            .is_problem(404, "unknown_page");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_can_be_read_while_the_job_runs() {
    let service = Service::new(&[]);
    service.harness.vision.set_behaviour(|target, page| match page {
        1 => Reply::Answer(read_by(target, page)),
        _ => Reply::AnswerAfter(Duration::from_secs(100), read_by(target, page)),
    });
    let id = service.job("", &FakeDocument::graphics(2)).await;
    service
        .get(user(), &format!("/v1/jobs/{id}/pages/1"))
        .await
        .is_problem(404, "unknown_page")
        .says("not opened");
    service.process.kill_after(&JobId::new(&id), Duration::from_secs(10)).await;
    let read = service.get(user(), &format!("/v1/jobs/{id}/pages/1")).await;
    assert!(read.text("/text").contains("page 1 read by"), "{read:?}");
    let waiting = service.get(user(), &format!("/v1/jobs/{id}/pages/2")).await;
    assert_eq!(
        (waiting.text("/status"), waiting.text("/text")),
        ("working".into(), waiting.text("/mupdf_text"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_has_a_few_images_rendered_at_once_and_the_next_one_is_refused() {
    let mut harness = Harness::new(&[]);
    harness.pdf = Arc::new(FakePdf::slow(harness.clock.clone(), Duration::from_secs(3)));
    let service = Service::of(harness, |api| api.rendering());
    let mut document = FakeDocument::graphics(1);
    document.pages[0].reason = Reason::Text;
    let id = service.finished(&document).await;
    let path = format!("/v1/jobs/{id}/pages/1/image");
    let ann = || Caller { user: "ann".into(), ..user() };
    let [first, second, third, fourth, fifth, other] =
        [user(), user(), user(), user(), user(), ann()].map(|caller| service.get(caller, &path));
    let (first, second, third, fourth, fifth, other) =
        tokio::join!(first, second, third, fourth, fifth, other);
    for rendered in [first, second, third, fourth, other] {
        assert_eq!(rendered.status, 200, "{rendered:?}");
    }
    fifth.is_problem(429, "too_many_requests");
    assert_eq!(fifth.header("retry-after"), "1");
    assert_eq!(service.get(user(), &path).await.status, 200, "there is room again");
}

#[tokio::test(start_paused = true)]
async fn the_image_of_a_page_is_the_one_that_was_sent_or_a_rendered_one() {
    let mut document = FakeDocument::graphics(2);
    document.pages[1].reason = Reason::Text;
    for renders in [false, true] {
        let service = Service::of(Harness::new(&[]), |api| if renders { api.rendering() } else { api });
        let id = service.finished(&document).await;
        let path = |page: u32| format!("/v1/jobs/{id}/pages/{page}/image");
        let sent = service.get(user(), &path(1)).await;
        assert_eq!((sent.status.as_u16(), sent.header("content-type")), (200, "image/jpeg"), "{sent:?}");
        assert_eq!(
            (sent.header("cache-control"), sent.header("vary")),
            ("private, no-cache", "authorization")
        );
        let again = with_header(request("GET", &path(1), "", vec![]), "if-none-match", sent.header("etag"));
        assert_eq!(service.send(Some(user()), again).await.status, 304);
        let kept = service.get(user(), &path(2)).await;
        let detail = service.get(user(), &format!("/v1/jobs/{id}/pages/2")).await;
        match renders {
            true => assert_eq!((kept.status.as_u16(), detail.at("/image/sent")), (200, false.into())),
            false => {
                kept.is_problem(404, "no_image");
                assert_eq!(detail.at("/image"), serde_json::Value::Null);
            }
        }
    }
}
