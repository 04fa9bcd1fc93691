//! The AWS adapters sit the same exams as the doubles and the embedded ones, against an emulator.
//!
//! `TEST_AWS_ENDPOINT` names one that runs; otherwise `scripts/emulator` installs and starts
//! ministack, which passes every case. Each test has a table, bucket, queues, state machine, bus, topic
//! or keys of its own. The queue exam lives in real time here, with minutes of a few seconds; what
//! other services send is looked at in an inbox, a queue of SQS.
//!
//! Where ministack 1.5.33 is known to differ from AWS (the first three are covered by unit tests
//! with written answers):
//!
//! | what | AWS | ministack |
//! | --- | --- | --- |
//! | contention | `TransactionConflict`, S3's 409, throttling, `UnprocessedKeys` | never: it does one thing at a time |
//! | a receipt that is over | `InvalidParameterValue` or `MessageNotInflight`; deleting it succeeds | `ReceiptHandleIsInvalid` for all |
//! | KMS, SNS | refuse more than 4096 bytes or none, long or broken subjects, empty attributes | take them |
//! | a sealed text that was changed, or is of another key | `InvalidCiphertextException`, `IncorrectKeyException` | is noticed in the context's hash only; otherwise it opens as noise, which the adapter refuses where it is no text |
//! | events of a bus | come in any order, perhaps twice | as they were published |
//! | a stopped execution's tokens | are void | can be answered |
//! | a token that was answered | is void at once | a moment later |
//! | a token of no or of more than 2048 bytes | `ValidationException` | `TaskDoesNotExist` |
//! | indexes | lag behind writes: on AWS the index case would have to wait | are up to date |
//! | starting an execution again with the same input | succeeds while it runs | `ExecutionAlreadyExists` |
//! | execution names | 80 letters, digits, `-`, `_` | anything |
//! | a page of a listing | at most 1 MB | the same, also for transactions (4 MB) and items (400 KB) |

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bus;
mod emulator;
mod flow;
mod inbox;
mod more;
mod notifier;
mod vault;

use everypage_aws::{DynamoRecords, S3Blobs};

mod records {
    use super::*;
    everypage_testkit::records_exam!(async {
        let clients = emulator::connect().await;
        let table = emulator::table(&clients).await;
        DynamoRecords::new(clients.dynamodb, table)
    });
}

mod blobs {
    use super::*;
    everypage_testkit::blobs_exam!(async {
        let clients = emulator::connect().await;
        let bucket = emulator::bucket(&clients).await;
        S3Blobs::new(clients.s3, bucket)
    });
}

mod queue {
    use super::*;
    everypage_testkit::queue_exam!(async { emulator::queue_in_real_time().await });
}
