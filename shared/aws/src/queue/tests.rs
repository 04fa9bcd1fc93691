use aws_smithy_http_client::test_util::StaticReplayClient;
use everypage_core::ids::JobId;
use serde_json::{Value, json};

use super::*;
use crate::test_clients::{bodies, clients, response};

fn message(body: impl Into<String>, lane: Priority) -> Outgoing {
    let body = body.into();
    Outgoing { name: "m".into(), job: JobId::new("j"), lane, body, delay: Duration::ZERO }
}

fn queue(responses: &[(u16, Value)]) -> (SqsQueue, StaticReplayClient) {
    let (clients, sent) =
        clients(responses.iter().map(|(status, body)| response(*status, &body.to_string())).collect());
    let urls = [
        (Priority::Low, "http://q/0/low"),
        (Priority::Normal, "http://q/0/normal"),
        (Priority::High, "http://q/0/high"),
    ];
    let urls = urls.into_iter().map(|(priority, url)| (priority, url.to_owned())).collect();
    (SqsQueue::new(clients.sqs, urls).unwrap(), sent)
}

#[test]
fn a_batch_has_at_most_ten_messages_and_one_mebibyte() {
    let sizes = |bodies: Vec<usize>| {
        let messages: Vec<_> = bodies.iter().map(|size| message("x".repeat(*size), Priority::Low)).collect();
        batches(&messages.iter().collect::<Vec<_>>()).iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(sizes(vec![1; 25]), [10, 10, 5]);
    assert_eq!(sizes(vec![BYTES_PER_CALL, 1, BYTES_PER_CALL - 1, 1]), [1, 2, 1]);
    assert_eq!(sizes(vec![]), Vec::<usize>::new());
}

#[test]
fn a_priority_without_a_queue_uses_its_neighbours() {
    let (queue, _) = queue(&[]);
    let names: Vec<_> = queue.lanes.iter().map(|lane| (lane.name.as_str(), lane.priority)).collect();
    assert_eq!(names, [("high", Priority::Urgent), ("normal", Priority::Normal), ("low", Priority::Low)]);
    let (clients, _) = clients(vec![]);
    assert!(SqsQueue::new(clients.sqs, BTreeMap::new()).is_err());
}

#[test]
fn every_fifth_receive_starts_with_another_of_the_lower_lanes() {
    let (queue, _) = queue(&[]);
    let firsts: Vec<_> = (0..20).map(|_| queue.order()[0].name.clone()).collect();
    assert_eq!(firsts.iter().filter(|name| *name == "high").count(), 16);
    assert_eq!([&firsts[4], &firsts[9], &firsts[14], &firsts[19]], ["low", "normal", "low", "normal"]);
    assert_eq!(queue.order().len(), 3);
}

#[tokio::test]
async fn only_rejected_entries_are_sent_again() {
    let failed =
        json!({"Successful": [], "Failed": [{"Id": "1", "SenderFault": false, "Code": "InternalError"}]});
    let (queue, sent) = queue(&[(200, failed), (200, json!({"Successful": [], "Failed": []}))]);
    queue.send(&[message("a", Priority::Low), message("b", Priority::Low)]).await.unwrap();
    let sent = bodies(&sent);
    let texts = |call: &Value| -> Vec<String> {
        call["Entries"].as_array().unwrap().iter().map(|entry| entry["MessageBody"].to_string()).collect()
    };
    assert_eq!(
        (texts(&sent[0]), texts(&sent[1])),
        (vec!["\"a\"".into(), "\"b\"".into()], vec!["\"b\"".into()])
    );
}

#[tokio::test]
async fn an_entry_that_keeps_failing_is_unreachable_and_an_invalid_one_is_broken() {
    let failed = |sender_fault: bool| {
        (200, json!({"Successful": [], "Failed": [{"Id": "0", "SenderFault": sender_fault, "Code": "Code"}]}))
    };
    let (failing, _) = queue(&[failed(false), failed(false), failed(false)]);
    let fault = failing.send(&[message("a", Priority::Low)]).await.unwrap_err();
    assert!(matches!(fault, Fault::Unreachable { .. }), "{fault}");
    let (invalid, _) = queue(&[failed(true)]);
    let fault = invalid.send(&[message("a", Priority::Low)]).await.unwrap_err();
    assert!(matches!(fault, Fault::Broken { .. }), "{fault}");
    let (too_big, sent) = queue(&[]);
    assert!(too_big.send(&[message("x".repeat(BYTES_PER_CALL + 1), Priority::Low)]).await.is_err());
    assert_eq!(bodies(&sent).len(), 0);
}

#[tokio::test]
async fn received_messages_are_returned_when_the_next_lane_fails() {
    let one = json!({"Messages": [{"MessageId": "id", "ReceiptHandle": "h/1", "Body": "b",
        "Attributes": {"ApproximateReceiveCount": "3"}}]});
    let (queue, sent) = queue(&[(200, one), (500, json!({})), (200, json!({}))]);
    let received = queue.receive(10, Duration::from_millis(1500)).await.unwrap();
    assert_eq!(received.len(), 1);
    assert_eq!((received[0].receive_count, received[0].lane), (3, Priority::Urgent));
    assert_eq!(bodies(&sent)[0]["VisibilityTimeout"], 2);
    queue.delete(&received[0].receipt).await.unwrap();
    let last = bodies(&sent).pop().unwrap();
    assert_eq!((&last["QueueUrl"], &last["ReceiptHandle"]), (&json!("http://q/0/high"), &json!("h/1")));
}

#[tokio::test]
async fn a_receipt_made_from_a_lambda_event_names_its_queue() {
    let (queue, sent) = queue(&[(200, json!({}))]);
    let receipt = SqsQueue::receipt("arn:aws:sqs:eu-west-1:0:normal", "h");
    queue.extend(&receipt, Duration::from_secs(60)).await.unwrap();
    assert_eq!(bodies(&sent)[0]["QueueUrl"], "http://q/0/normal");
    assert!(queue.extend(&Receipt("elsewhere/h".into()), Duration::ZERO).await.is_err());
}

#[tokio::test]
async fn an_expired_receipt_is_no_error() {
    let expired = "Value h for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not \
                   available for visibility timeout change.";
    let too_long = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]";
    for (code, message, void) in [
        ("com.amazonaws.sqs#MessageNotInflight", "", true),
        ("com.amazonaws.sqs#ReceiptHandleIsInvalid", "", true),
        ("InvalidParameterValue", expired, true),
        ("InvalidParameterValue", too_long, false),
        ("com.amazonaws.sqs#QueueDoesNotExist", "", false),
    ] {
        let (queue, _) = queue(&[(400, json!({"__type": code, "message": message}))]);
        let extended = queue.extend(&Receipt("low/h".into()), Duration::ZERO).await;
        assert_eq!(extended.is_ok(), void, "{code} {message}");
    }
}

#[test]
fn characters_that_sqs_rejects_are_escaped() {
    let text = "a\u{FFFE}b\u{FFFF}";
    let sent = printable(&serde_json::to_string(text).unwrap());
    assert!(!sent.contains(['\u{FFFE}', '\u{FFFF}']));
    assert_eq!(serde_json::from_str::<String>(&sent).unwrap(), text);
}

#[tokio::test]
async fn messages_are_grouped_by_tenant() {
    let sent = r#"{"Successful":[],"Failed":[]}"#;
    let (clients, calls) = clients(vec![response(200, sent)]);
    let queue = SqsQueue::new(clients.sqs, [(Priority::Normal, "https://q/n".to_owned())].into()).unwrap();
    let bodies = [r#"{"tenant":"acme"}"#, r#"{"tenant":"ä b"}"#, "{}"];
    queue.send(&bodies.map(|body| message(body, Priority::Normal))).await.unwrap();
    let entries = crate::test_clients::bodies(&calls)[0]["Entries"].clone();
    let groups: Vec<_> = (0..3).map(|entry| entries[entry]["MessageGroupId"].clone()).collect();
    assert_eq!((groups[0].as_str(), groups[2].as_str()), (Some("acme"), None));
    assert_eq!(groups[1].as_str().unwrap().len(), 64, "a name that SQS would refuse is hashed");
}

#[tokio::test]
async fn messages_are_counted_about_in_every_lane_whatever_they_wait_for() {
    let counts = |visible: &str, received: &str, delayed: &str| {
        json!({"Attributes": {
            "ApproximateNumberOfMessages": visible,
            "ApproximateNumberOfMessagesNotVisible": received,
            "ApproximateNumberOfMessagesDelayed": delayed,
        }})
    };
    let (queue, sent) =
        queue(&[(200, counts("1", "2", "3")), (200, counts("40", "0", "0")), (200, json!({}))]);
    let depths = queue.about_depths().await.unwrap();
    assert_eq!(depths, [(Priority::Urgent, 6), (Priority::Normal, 40), (Priority::Low, 0)]);
    assert_eq!(bodies(&sent).len(), 3);
}
