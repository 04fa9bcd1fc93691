//! The scenarios on the local backend.

use everypage_backends::{local::LocalTestBackend, scenarios, test_backend::TestBackend};

#[tokio::test(flavor = "multi_thread")]
async fn scenarios_on_the_local_backend() {
    let backend = LocalTestBackend::start().await;
    scenarios::common(&backend).await;
    scenarios::a_poison_page(&backend, "poison", async |job| {
        scenarios::redrive_dead_letter(&backend, job).await
    })
    .await;
    assert_eq!(backend.provider().calls_to("poison-one"), 4);
}
