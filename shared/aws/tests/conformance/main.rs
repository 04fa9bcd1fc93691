//! The adapters of the AWS backend pass the same conformance suites as the test doubles and the local
//! backend, against an emulator.
//!
//! `TEST_AWS_ENDPOINT` is the address of a running emulator; otherwise `scripts/emulator` installs and
//! starts ministack, which passes every case. Each test creates its own table, bucket, queues, state
//! machine, bus, topic or keys. The queue suite runs in real time here, with a minute shortened to a few
//! seconds; messages that other services send are read from an inbox, an SQS queue.
//!
//! Known differences between ministack 1.5.33 and AWS (the first three are covered by unit tests with
//! prepared responses):
//!
//! | what | AWS | ministack |
//! | --- | --- | --- |
//! | contention | `TransactionConflict`, S3's 409, throttling, `UnprocessedKeys` | never: calls are serialized |
//! | an expired receipt | `InvalidParameterValue` or `MessageNotInflight`; deleting succeeds | `ReceiptHandleIsInvalid` for all |
//! | KMS, SNS | reject an empty text and more than 4096 bytes, long or malformed subjects, empty attributes | accept them |
//! | a ciphertext that was changed, or is of another key | `InvalidCiphertextException`, `IncorrectKeyException` | detected only in the context's hash; otherwise it decrypts to noise, which the adapter refuses unless it is UTF-8 |
//! | events of a bus | arrive in any order, possibly twice | in the order of publishing |
//! | a stopped execution's tokens | are void | can be completed |
//! | a completed token | is void immediately | a moment later |
//! | an empty token, or one of more than 2048 bytes | `ValidationException` | `TaskDoesNotExist` |
//! | indexes | lag behind writes: on AWS the index case would have to wait | are up to date |
//! | starting an execution again with the same input | succeeds while it runs | `ExecutionAlreadyExists` |
//! | execution names | 80 letters, digits, `-`, `_` | anything |
//! | a page of a listing | at most 1 MB | at most 1 MB, also for transactions (4 MB) and items (400 KB) |

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aws_only;
mod bus;
mod emulator;
mod flow;
mod inbox;
mod notifier;
mod vault;

use everypage_aws::{DynamoRecords, S3Blobs};

mod records {
    use super::*;
    everypage_testkit::records_conformance!(async {
        let clients = emulator::connect().await;
        let table = emulator::table(&clients).await;
        DynamoRecords::new(clients.dynamodb, table)
    });
}

mod blobs {
    use super::*;
    everypage_testkit::blobs_conformance!(async {
        let clients = emulator::connect().await;
        let bucket = emulator::bucket(&clients).await;
        S3Blobs::new(clients.s3, bucket)
    });
}

mod queue {
    use super::*;
    everypage_testkit::queue_conformance!(async { emulator::queue_in_real_time().await });
}
