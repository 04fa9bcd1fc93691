//! The stories on one machine.

use everypage_engines::{bench::Bench, local::OneMachine, stories};

#[tokio::test(flavor = "multi_thread")]
async fn stories_on_one_machine() {
    let bench = OneMachine::start().await;
    futures::join!(
        stories::all_well(&bench),
        stories::a_page_fails_over(&bench),
        stories::every_provider_is_down(&bench),
        stories::a_job_is_cancelled(&bench),
        stories::a_dear_plan_is_approved(&bench),
        stories::two_uploads_of_one_file_are_one_job(&bench),
        stories::a_wrong_password_fails_and_the_right_one_mends_it(&bench),
    );
    // Alone, because it looks at the clock.
    stories::a_provider_hangs_until_the_deadline(&bench).await;
    stories::a_worker_is_killed_in_the_middle_of_a_page(&bench).await;
    stories::a_poisonous_page(&bench, "poison", async |job| stories::redrive_letter(&bench, job).await).await;
    assert_eq!(bench.provider().calls_to("poison-one"), 4);
}
