//! The stories on one machine.

use everypage_engines::{bench::Bench, local::OneMachine, stories};

#[tokio::test(flavor = "multi_thread")]
async fn stories_on_one_machine() {
    let bench = OneMachine::start().await;
    stories::common(&bench).await;
    stories::a_poisonous_page(&bench, "poison", async |job| stories::redrive_letter(&bench, job).await).await;
    assert_eq!(bench.provider().calls_to("poison-one"), 4);
}
