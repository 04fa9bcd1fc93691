//! Conditional writes: one change is a plain put or delete, several are a transaction.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    error::SdkError,
    operation::{
        delete_item::DeleteItemError, put_item::PutItemError, transact_write_items::TransactWriteItemsError,
    },
    types::{
        AttributeValue, CancellationReason, Delete, Put, ReturnValuesOnConditionCheckFailure,
        TransactWriteItem,
    },
};
use everypage_core::{
    digest::sha256_hex,
    ports::{
        Fault,
        records::{Batch, Change, When, Written},
    },
};

use super::{
    DynamoRecords, SERVICE,
    item::{Attributes, decode, encode, key_attributes, number},
};
use crate::fault::{by_code, fault};

const RETURN_EXISTING: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;

/// The condition expression of a write, and the values that it refers to.
fn condition(when: When) -> (&'static str, Option<HashMap<String, AttributeValue>>) {
    match when {
        When::Absent => ("attribute_not_exists(pk)", None),
        When::Version(version) => {
            ("version = :expected", Some([(":expected".to_owned(), number(version))].into()))
        }
    }
}

fn refused(index: usize, existing: Option<&Attributes>) -> Result<Written, Fault> {
    let existing = existing.filter(|attributes| !attributes.is_empty()).map(decode).transpose()?;
    Ok(Written::Refused { index, existing: existing.map(Box::new) })
}

impl DynamoRecords {
    pub(super) async fn write_one(&self, stamp: &str, change: &Change) -> Result<Written, Fault> {
        let (expression, values) = condition(change.when());
        match change {
            Change::Put { draft, when } => {
                let call = self
                    .client
                    .put_item()
                    .table_name(&self.table)
                    .set_item(Some(encode(draft, when.next_version(), stamp)))
                    .condition_expression(expression)
                    .set_expression_attribute_values(values)
                    .return_values_on_condition_check_failure(RETURN_EXISTING);
                match call.send().await {
                    Ok(_) => Ok(Written::Applied),
                    Err(error) => match error.as_service_error() {
                        Some(PutItemError::ConditionalCheckFailedException(failed)) => {
                            refused(0, failed.item())
                        }
                        _ => Err(fault(SERVICE, error)),
                    },
                }
            }
            Change::Delete { key, .. } => {
                let call = self
                    .client
                    .delete_item()
                    .table_name(&self.table)
                    .set_key(Some(key_attributes(key)))
                    .condition_expression(expression)
                    .set_expression_attribute_values(values)
                    .return_values_on_condition_check_failure(RETURN_EXISTING);
                match call.send().await {
                    Ok(_) => Ok(Written::Applied),
                    Err(error) => match error.as_service_error() {
                        Some(DeleteItemError::ConditionalCheckFailedException(failed)) => {
                            refused(0, failed.item())
                        }
                        _ => Err(fault(SERVICE, error)),
                    },
                }
            }
        }
    }

    pub(super) async fn write_all(&self, batch: &Batch) -> Result<Written, Fault> {
        let items: Result<Vec<_>, Fault> =
            batch.changes.iter().map(|change| self.part(&batch.stamp, change)).collect();
        let call = self
            .client
            .transact_write_items()
            .set_transact_items(Some(items?))
            .client_request_token(request_token(batch));
        match call.send().await {
            Ok(_) => Ok(Written::Applied),
            Err(SdkError::ServiceError(response)) => match response.err() {
                TransactWriteItemsError::TransactionCanceledException(cancelled) => {
                    interpret_cancellation(cancelled.cancellation_reasons())
                }
                _ => Err(fault(SERVICE, SdkError::ServiceError(response))),
            },
            Err(error) => Err(fault(SERVICE, error)),
        }
    }

    fn part(&self, stamp: &str, change: &Change) -> Result<TransactWriteItem, Fault> {
        let (expression, values) = condition(change.when());
        let part = TransactWriteItem::builder();
        let part = match change {
            Change::Put { draft, when } => part.put(
                Put::builder()
                    .table_name(&self.table)
                    .set_item(Some(encode(draft, when.next_version(), stamp)))
                    .condition_expression(expression)
                    .set_expression_attribute_values(values)
                    .return_values_on_condition_check_failure(RETURN_EXISTING)
                    .build()
                    .map_err(|error| Fault::broken(SERVICE, error))?,
            ),
            Change::Delete { key, .. } => part.delete(
                Delete::builder()
                    .table_name(&self.table)
                    .set_key(Some(key_attributes(key)))
                    .condition_expression(expression)
                    .set_expression_attribute_values(values)
                    .return_values_on_condition_check_failure(RETURN_EXISTING)
                    .build()
                    .map_err(|error| Fault::broken(SERVICE, error))?,
            ),
        };
        Ok(part.build())
    }
}

/// The token by which DynamoDB applies a batch once that is sent again within ten minutes. It depends
/// on the changes too, because reusing a token with other changes is an error.
fn request_token(batch: &Batch) -> String {
    let mut token = sha256_hex(format!("{batch:?}").as_bytes());
    token.truncate(36);
    token
}

/// Interprets the cancellation of a transaction: a failed condition is a result, and every other reason
/// but an invalid request is transient.
fn interpret_cancellation(reasons: &[CancellationReason]) -> Result<Written, Fault> {
    let code = |reason: &CancellationReason| reason.code().unwrap_or("None").to_owned();
    if let Some(index) = reasons.iter().position(|reason| code(reason) == "ConditionalCheckFailed") {
        return refused(index, reasons[index].item());
    }
    let reason = reasons.iter().find(|reason| code(reason) != "None");
    let message = reason.and_then(|reason| reason.message()).unwrap_or_default();
    match reason.map(code).as_deref() {
        // Invalid requests: a retry would fail in the same way.
        Some(code @ ("ValidationError" | "ItemCollectionSizeLimitExceeded")) => {
            Err(by_code(SERVICE, code, message, 400, None))
        }
        // TransactionConflict, ThrottlingError, ProvisionedThroughputExceeded, or no reason given.
        _ => Err(Fault::Throttled { service: SERVICE, retry_after: None }),
    }
}

#[cfg(test)]
mod tests {
    use everypage_core::ports::records::{Draft, Key};

    use super::*;

    fn reason(code: &str) -> CancellationReason {
        CancellationReason::builder().code(code).build()
    }

    #[test]
    fn a_failed_condition_takes_precedence_over_a_conflict() {
        let reasons = [reason("TransactionConflict"), reason("None"), reason("ConditionalCheckFailed")];
        assert_eq!(interpret_cancellation(&reasons).unwrap(), Written::Refused { index: 2, existing: None });
    }

    #[test]
    fn a_transient_reason_is_throttling_and_an_invalid_request_is_not() {
        for code in ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "None"] {
            let fault = interpret_cancellation(&[reason("None"), reason(code)]).unwrap_err();
            assert!(matches!(fault, Fault::Throttled { .. }), "{code}");
        }
        assert!(matches!(interpret_cancellation(&[]).unwrap_err(), Fault::Throttled { .. }));
        assert!(matches!(
            interpret_cancellation(&[reason("ValidationError")]).unwrap_err(),
            Fault::Broken { .. }
        ));
    }

    #[test]
    fn the_same_batch_has_the_same_token_and_another_batch_has_another() {
        let put = |body: &str| Change::Put {
            draft: Draft::new(Key::new("p", "s"), body.into()),
            when: When::Absent,
        };
        let batch = |stamp: &str, body: &str| Batch { stamp: stamp.into(), changes: vec![put(body)] };
        let token = request_token(&batch("s", "1"));
        assert_eq!(token.len(), 36);
        assert_eq!(token, request_token(&batch("s", "1")));
        assert_ne!(token, request_token(&batch("t", "1")));
        assert_ne!(token, request_token(&batch("s", "2")));
    }
}
