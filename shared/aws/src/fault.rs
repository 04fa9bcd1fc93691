//! The classification of SDK errors for the core.

use std::{error::Error, time::Duration};

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
};
use everypage_core::ports::Fault;

/// Codes of a service that did nothing and requests a pause.
const THROTTLING: [&str; 22] = [
    "BandwidthLimitExceeded",
    "ExecutionLimitExceeded",
    "KmsThrottled",
    "KmsThrottlingException",
    "KMSThrottlingException",
    "LimitExceededException",
    "OverLimit",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "Throttled",
    "ThrottledException",
    "Throttling",
    "ThrottlingError",
    "ThrottlingException",
    "TooManyRequestsException",
    "TransactionConflictException",
];

/// Codes of transient errors whose status is not 5xx.
const TRANSIENT: [&str; 8] = [
    "ExpiredToken",
    "ExpiredTokenException",
    "IDPCommunicationError",
    "InternalFailure",
    "InternalServerError",
    "RequestTimeout",
    "RequestTimeoutException",
    "TransactionInProgressException",
];

/// A hint for errors that a retry does not cure.
const HINTS: [(&str, &str); 14] = [
    ("AccessDenied", "check the policy of this function's role"),
    ("AuthorizationError", "check the policy of this function's role"),
    ("KMSAccessDenied", "check the key's policy"),
    ("KmsAccessDenied", "check the key's policy"),
    ("InvalidClientTokenId", "check the credentials"),
    ("InvalidAccessKeyId", "check the credentials"),
    ("InvalidSignature", "check the credentials and this machine's clock"),
    ("RequestTimeTooSkewed", "check this machine's clock"),
    ("SignatureDoesNotMatch", "check the credentials"),
    ("UnrecognizedClient", "check the credentials"),
    ("NoSuchBucket", "check the bucket's name and region"),
    ("QueueDoesNotExist", "check the queue's URL and region"),
    ("ResourceNotFound", "check the name and region"),
    ("StateMachineDoesNotExist", "check the state machine's ARN"),
];

/// Longer than the services' own messages.
const MAX_MESSAGE_CHARACTERS: usize = 500;

/// Classifies an SDK error by what the caller can do about it. Adapters handle expected errors (a failed
/// condition, a missing key) before they call this.
pub fn fault<E>(service: &'static str, error: SdkError<E, HttpResponse>) -> Fault
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    match &error {
        SdkError::ServiceError(response) => {
            let pause = retry_after(response.raw());
            let meta = response.err().meta();
            let (code, message) = (meta.code().unwrap_or(""), meta.message().unwrap_or(""));
            by_code(service, code, message, response.raw().status().as_u16(), pause)
        }
        // The request could not even be built: a setting is missing or malformed.
        SdkError::ConstructionFailure(_) => Fault::broken(service, DisplayErrorContext(&error)),
        SdkError::DispatchFailure(failure) if failure.is_user() => {
            Fault::broken(service, DisplayErrorContext(&error))
        }
        _ => Fault::unreachable(service, DisplayErrorContext(&error)),
    }
}

/// Classifies an error that is part of a response, such as one entry of a batch.
pub fn by_code(
    service: &'static str,
    code: &str,
    message: &str,
    status: u16,
    pause: Option<Duration>,
) -> Fault {
    // Some responses prefix the code with a namespace, some append a URL.
    let code = code.rsplit(['#', '.']).next().unwrap_or(code);
    let code = code.split(':').next().unwrap_or(code);
    let detail = format!("{code} ({status}) {}", without_values(message));
    if THROTTLING.contains(&code) || status == 429 {
        Fault::Throttled { service, retry_after: pause }
    } else if TRANSIENT.contains(&code) || status >= 500 {
        Fault::unreachable(service, detail)
    } else {
        let hint = HINTS.iter().find(|(start, _)| code.starts_with(start));
        let hint = hint.map(|(_, hint)| format!("; {hint}")).unwrap_or_default();
        Fault::broken(service, format!("{detail}{hint}"))
    }
}

/// Removes quoted values from a message (`Value '…' at 'field' failed to …`): requests contain document
/// text, which must not reach a log.
fn without_values(message: &str) -> String {
    let mut rest = message;
    let mut cleaned = String::new();
    while let Some((before, quoted)) = rest.split_once("Value '") {
        let Some(end) = quoted.rfind("' at '") else { break };
        cleaned.push_str(before);
        cleaned.push_str("Value");
        rest = &quoted[end + 1..];
    }
    // A quotation without an end is cut off.
    cleaned.push_str(rest.split_once("Value '").map_or(rest, |(before, _)| before));
    cleaned.chars().take(MAX_MESSAGE_CHARACTERS).collect()
}

fn retry_after(response: &HttpResponse) -> Option<Duration> {
    response.headers().get("retry-after")?.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use everypage_core::ports::Next;

    use super::*;
    use crate::test_clients::{self, clients, response};

    async fn classify(status: u16, body: &str) -> Fault {
        let (clients, _) = clients(vec![response(status, body)]);
        let error =
            clients.dynamodb.get_item().table_name("t").set_key(Some(Default::default())).send().await;
        fault("records", error.unwrap_err())
    }

    #[tokio::test]
    async fn throttling_is_never_permanent() {
        for code in THROTTLING {
            for form in [code.to_owned(), format!("com.amazonaws.dynamodb.v20120810#{code}")] {
                let body = format!(r#"{{"__type":"{form}","message":"m"}}"#);
                assert!(matches!(classify(400, &body).await, Fault::Throttled { .. }), "{form}");
            }
        }
        assert!(matches!(classify(429, "{}").await, Fault::Throttled { .. }));
    }

    #[tokio::test]
    async fn the_services_retry_after_is_kept() {
        let mut throttled = response(503, r#"{"__type":"SlowDown"}"#);
        throttled.headers_mut().insert("retry-after", "7");
        let (clients, _) = clients(vec![throttled]);
        let error = clients.dynamodb.list_tables().send().await.unwrap_err();
        assert_eq!(fault("records", error).next(), Next::RetryAfter(Duration::from_secs(7)));
    }

    #[tokio::test]
    async fn transient_errors_are_retried() {
        assert_eq!(classify(500, "not json").await.next(), Next::Retry);
        assert_eq!(classify(503, r#"{"__type":"ServiceUnavailable"}"#).await.next(), Next::Retry);
        assert_eq!(classify(400, r#"{"__type":"ExpiredTokenException"}"#).await.next(), Next::Retry);
        // The previous call may have applied it: never "did not take effect".
        let twice = classify(400, r#"{"__type":"TransactionInProgressException"}"#).await;
        assert!(matches!(twice, Fault::Unreachable { .. }));
    }

    #[tokio::test]
    async fn a_refused_connection_is_unreachable() {
        let clients =
            crate::Clients::connect(Some("http://127.0.0.1:1".into()), Some("eu-west-1".into())).await;
        let error = clients.dynamodb.list_tables().send().await.unwrap_err();
        assert!(matches!(fault("records", error), Fault::Unreachable { .. }));
    }

    #[tokio::test]
    async fn a_configuration_error_names_what_to_check() {
        for (code, expected) in [
            ("AccessDeniedException", "role"),
            ("ResourceNotFoundException", "name and region"),
            ("UnrecognizedClientException", "credentials"),
            ("ValidationException", "the reason"),
        ] {
            let fault = classify(400, &format!(r#"{{"__type":"{code}","message":"the reason"}}"#)).await;
            assert_eq!(fault.next(), Next::GiveUp);
            assert!(fault.to_string().contains(expected), "{fault}");
            assert!(fault.to_string().contains(code), "{fault}");
        }
    }

    #[test]
    fn messages_do_not_quote_the_request() {
        let message = "1 validation error detected: Value '[Put(item={body=SECRET 'quoted' at 'x'})]' at \
                       'transactItems' failed to satisfy constraint: at most 100";
        let fault = by_code("records", "ValidationException", message, 400, None).to_string();
        assert!(!fault.contains("SECRET") && fault.contains("at most 100"), "{fault}");
        assert_eq!(without_values("broken off: Value 'SECRET"), "broken off: ");
        assert_eq!(without_values("plain"), "plain");
        assert_eq!(without_values(&"é".repeat(1000)).chars().count(), 500);
    }

    #[tokio::test]
    async fn the_sdk_does_not_retry_by_itself() {
        let (clients, sent) = clients(vec![response(500, "{}"), response(200, "{}")]);
        assert!(clients.dynamodb.list_tables().send().await.is_err());
        assert_eq!(test_clients::bodies(&sent).len(), 1);
    }
}
