//! The emulator, and resources created in it for each test.

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};
use everypage_aws::{Clients, SqsQueue};
use everypage_core::{ids::Priority, ports::clock::Clock};
use everypage_testkit::conformance::queue::Subject;
use jiff::Timestamp;

/// The suite's minute. Half of it must suffice for a few calls on a busy machine.
const MINUTE: Duration = Duration::from_secs(3);

pub async fn connect() -> Clients {
    Clients::connect(Some(endpoint()), Some("eu-west-1".into())).await
}

/// The address of the run's emulator, which the first call starts.
fn endpoint() -> String {
    static ENDPOINT: OnceLock<String> = OnceLock::new();
    ENDPOINT.get_or_init(|| variable("TEST_AWS_ENDPOINT").unwrap_or_else(start)).clone()
}

fn start() -> String {
    // Nextest runs every test in a separate process: the emulator is shared, and ends with nextest.
    let parent = match variable("NEXTEST") {
        Some(_) => std::os::unix::process::parent_id(),
        None => std::process::id(),
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/emulator");
    let started = Command::new(script).arg(parent.to_string()).output().unwrap();
    assert!(started.status.success(), "no emulator: {}", String::from_utf8_lossy(&started.stderr));
    String::from_utf8(started.stdout).unwrap().trim().to_owned()
}

#[expect(clippy::disallowed_methods, reason = "where a test is run is not a setting of the program")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A name that no other test of any run has.
#[expect(clippy::disallowed_methods, reason = "a running emulator must not see a name twice")]
pub fn unique_name(kind: &str) -> String {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("{kind}-{}-{}-{count}", Timestamp::now().as_millisecond(), std::process::id())
}

fn key(name: &str, kind: KeyType) -> KeySchemaElement {
    KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap()
}

fn index(name: &str, attribute: &str, projection: ProjectionType) -> GlobalSecondaryIndex {
    GlobalSecondaryIndex::builder()
        .index_name(name)
        .key_schema(key(&format!("{attribute}_pk"), KeyType::Hash))
        .key_schema(key(&format!("{attribute}_sk"), KeyType::Range))
        .projection(Projection::builder().projection_type(projection).build())
        .build()
        .unwrap()
}

/// Creates a table with the template's schema.
pub async fn table(clients: &Clients) -> String {
    let name = unique_name("records");
    let mut call = clients
        .dynamodb
        .create_table()
        .table_name(&name)
        .billing_mode(BillingMode::PayPerRequest)
        .key_schema(key("pk", KeyType::Hash))
        .key_schema(key("sk", KeyType::Range))
        .global_secondary_indexes(index("tenant", "tenant", ProjectionType::All))
        .global_secondary_indexes(index("work", "state", ProjectionType::KeysOnly));
    for attribute in ["pk", "sk", "tenant_pk", "tenant_sk", "state_pk", "state_sk"] {
        let defined = AttributeDefinition::builder().attribute_name(attribute);
        call = call.attribute_definitions(defined.attribute_type(ScalarAttributeType::S).build().unwrap());
    }
    call.send().await.unwrap();
    name
}

pub async fn bucket(clients: &Clients) -> String {
    let name = unique_name("blobs");
    let configuration = aws_sdk_s3::types::CreateBucketConfiguration::builder()
        .location_constraint(aws_sdk_s3::types::BucketLocationConstraint::EuWest1)
        .build();
    clients.s3.create_bucket().bucket(&name).create_bucket_configuration(configuration).send().await.unwrap();
    name
}

/// Creates a queue for each priority, with a dead-letter queue; one of those holds the message `poison`.
pub async fn queue(clients: &Clients) -> SqsQueue {
    let (mut urls, mut dead) = (BTreeMap::new(), BTreeMap::new());
    for priority in Priority::ALL {
        let made = clients.sqs.create_queue().queue_name(unique_name("lane")).send().await.unwrap();
        urls.insert(priority, made.queue_url.unwrap());
        let made = clients.sqs.create_queue().queue_name(unique_name("dead")).send().await.unwrap();
        dead.insert(priority, made.queue_url.unwrap());
    }
    let poison = clients.sqs.send_message().queue_url(&dead[&Priority::High]).message_body("poison");
    poison.send().await.unwrap();
    SqsQueue::new(clients.sqs.clone(), urls).unwrap().with_dead_letter_queues(&dead)
}

pub async fn queue_in_real_time() -> Subject {
    let queue = queue(&connect().await).await;
    // SQS publishes the depths to CloudWatch itself.
    Subject::in_real_time(Arc::new(queue), Arc::new(RealClock), MINUTE)
        .with_dead_letter_queue()
        .without_depths()
}

struct RealClock;

#[async_trait]
#[expect(clippy::disallowed_methods, reason = "an emulator's time can't be set")]
impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// Sleeps a little longer, so that messages hidden until then are certainly visible again.
    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time + Duration::from_millis(100)).await;
    }
}
