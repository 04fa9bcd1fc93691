//! The AWS adapters sit the same exams as the doubles and the embedded ones, against an emulator.
//!
//! `TEST_AWS_ENDPOINT` names one that runs; otherwise `scripts/emulator` installs and starts
//! ministack, which passes every case. Each test has a table, bucket or queues of its own. The
//! queue exam lives in real time here, with minutes of a few seconds.
//!
//! Where ministack 1.5.33 is known to differ from AWS (the first three are covered by unit tests
//! with written answers):
//!
//! | what | AWS | ministack |
//! | --- | --- | --- |
//! | contention | `TransactionConflict`, S3's 409, throttling, `UnprocessedKeys` | never: it does one thing at a time |
//! | a receipt that is over | `InvalidParameterValue` or `MessageNotInflight`; deleting it succeeds | `ReceiptHandleIsInvalid` for all |
//! | KMS, SNS | refuse more than 4096 bytes or none, long or broken subjects, empty attributes | take them |
//! | indexes | lag behind writes: on AWS the index case would have to wait | are up to date |
//! | starting an execution again with the same input | succeeds while it runs | `ExecutionAlreadyExists` |
//! | execution names | 80 letters, digits, `-`, `_` | anything |
//! | a page of a listing | at most 1 MB | the same, also for transactions (4 MB) and items (400 KB) |

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod emulator;
mod more;

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
