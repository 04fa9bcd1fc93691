//! The stories on the stack as it is deployed, and what only it can show.

use std::time::Duration;

use everypage_core::domain::job::State;
use everypage_engines::{
    bench::{Bench, Document, ended, tenant},
    cloud::Deployed,
    stories,
};
use everypage_testkit::paper;
use futures::future::join_all;

#[tokio::test(flavor = "multi_thread")]
async fn stories_on_the_deployed_stack() {
    let bench = Deployed::start().await;
    futures::join!(
        stories::all_well(&bench),
        stories::a_page_fails_over(&bench),
        stories::every_provider_is_down(&bench),
        stories::a_provider_hangs_until_the_deadline(&bench),
        stories::a_job_is_cancelled(&bench),
        stories::a_dear_plan_is_approved(&bench),
        stories::two_uploads_of_one_file_are_one_job(&bench),
        stories::a_wrong_password_fails_and_the_right_one_mends_it(&bench),
    );
    stories::a_worker_is_killed_in_the_middle_of_a_page(&bench).await;
    stories::a_poisonous_page(&bench, "poison", async |job| stories::redrive_letter(&bench, job).await).await;
    twenty_documents_at_once(&bench).await;
}

async fn twenty_documents_at_once(bench: &Deployed) {
    tenant(&bench.app(), "crowd", &[("JOB_TIMEOUT", "3m")]).await;
    let jobs = join_all((1..=20).map(async |number: u32| {
        let name = format!("{number}.pdf");
        let bytes = paper::saying(&[&format!("document {number}"), "second page"]);
        let id = bench.submit(Document { tenant: "crowd", name: &name, bytes, password: None }).await;
        ended(bench, &id, Duration::from_secs(200)).await
    }));
    for job in jobs.await {
        assert_eq!(job.state, State::Audited);
        let metadata = &job.result.as_ref().unwrap().metadata;
        assert_eq!((metadata.ai_pages_succeeded, metadata.timeout_occurred), (2, false));
    }
    assert_eq!(bench.provider().calls_to("crowd-one"), 40, "each page is paid for once");
}
