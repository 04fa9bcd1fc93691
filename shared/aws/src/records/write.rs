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
    domain::event::sha256_hex,
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

const SHOW_WHAT_IS_THERE: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;

/// The expression, and the values that it names.
fn condition(when: When) -> (&'static str, Option<HashMap<String, AttributeValue>>) {
    match when {
        When::Absent => ("attribute_not_exists(pk)", None),
        When::Version(version) => ("version = :held", Some([(":held".to_owned(), number(version))].into())),
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
                    .return_values_on_condition_check_failure(SHOW_WHAT_IS_THERE);
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
                    .return_values_on_condition_check_failure(SHOW_WHAT_IS_THERE);
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
            Err(SdkError::ServiceError(answer)) => match answer.err() {
                TransactWriteItemsError::TransactionCanceledException(cancelled) => {
                    cancelled_for(cancelled.cancellation_reasons())
                }
                _ => Err(fault(SERVICE, SdkError::ServiceError(answer))),
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
                    .return_values_on_condition_check_failure(SHOW_WHAT_IS_THERE)
                    .build()
                    .map_err(|error| Fault::broken(SERVICE, error))?,
            ),
            Change::Delete { key, .. } => part.delete(
                Delete::builder()
                    .table_name(&self.table)
                    .set_key(Some(key_attributes(key)))
                    .condition_expression(expression)
                    .set_expression_attribute_values(values)
                    .return_values_on_condition_check_failure(SHOW_WHAT_IS_THERE)
                    .build()
                    .map_err(|error| Fault::broken(SERVICE, error))?,
            ),
        };
        Ok(part.build())
    }
}

/// The same batch sent again within ten minutes is applied once: DynamoDB remembers the token.
/// It covers the changes too, because the same token with other changes is an error.
fn request_token(batch: &Batch) -> String {
    let mut token = sha256_hex(format!("{batch:?}").as_bytes());
    token.truncate(36);
    token
}

/// A condition that did not hold is an answer; everything else that stops a transaction passes.
fn cancelled_for(reasons: &[CancellationReason]) -> Result<Written, Fault> {
    let code = |reason: &CancellationReason| reason.code().unwrap_or("None").to_owned();
    if let Some(index) = reasons.iter().position(|reason| code(reason) == "ConditionalCheckFailed") {
        return refused(index, reasons[index].item());
    }
    let reason = reasons.iter().find(|reason| code(reason) != "None");
    let message = reason.and_then(|reason| reason.message()).unwrap_or_default();
    match reason.map(code).as_deref() {
        // Wrong in itself: the same however often it is sent.
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
    fn a_condition_that_failed_outranks_a_conflict() {
        let reasons = [reason("TransactionConflict"), reason("None"), reason("ConditionalCheckFailed")];
        assert_eq!(cancelled_for(&reasons).unwrap(), Written::Refused { index: 2, existing: None });
    }

    #[test]
    fn what_passes_is_a_pause_and_what_is_wrong_is_not() {
        for code in ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "None"] {
            let fault = cancelled_for(&[reason("None"), reason(code)]).unwrap_err();
            assert!(matches!(fault, Fault::Throttled { .. }), "{code}");
        }
        assert!(matches!(cancelled_for(&[]).unwrap_err(), Fault::Throttled { .. }));
        assert!(matches!(cancelled_for(&[reason("ValidationError")]).unwrap_err(), Fault::Broken { .. }));
    }

    #[test]
    fn a_batch_sent_again_has_the_same_token_and_another_has_not() {
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
