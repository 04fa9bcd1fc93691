//! Discovery of a deployed stack by its name.

use std::collections::BTreeMap;

use aws_sdk_sqs::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use everypage_core::{ids::Priority, ports::Fault};
use futures::future::try_join_all;

use crate::{Clients, StackError, StackResources, fault::fault};

/// The error code, and the one of SQS's earlier query protocol, which a header still carries.
const UNKNOWN_QUEUE: [&str; 2] = ["QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"];

/// Finds the resources of `stack` in the caller's account and the clients' region.
///
/// Names are derived from the stack's name. The queues' URLs are looked up, because an emulator has
/// URLs of its own, and because the lookup fails when there is no such stack.
pub async fn discover(clients: &Clients, stack: &str) -> Result<StackResources, StackError> {
    let region = clients.region.as_deref().ok_or_else(|| {
        let missing = "no AWS region is set: pass --region, or set AWS_REGION or a profile with a region";
        StackError::Settings(vec![missing.to_owned()])
    })?;
    let account = account(clients).await?;
    let mut resources = StackResources::of_stack(stack, &account, region);
    let look_up = async |urls: &BTreeMap<Priority, String>| {
        try_join_all(urls.iter().map(async |(lane, url)| {
            let name = url.rsplit('/').next().unwrap_or_default();
            match queue_url(clients, name).await? {
                Some(url) => Ok((*lane, url)),
                None => Err(StackError::Unknown {
                    stack: stack.to_owned(),
                    account: account.clone(),
                    region: region.to_owned(),
                    missing: name.to_owned(),
                }),
            }
        }))
        .await
    };
    let (queues, dead_letter_queues) =
        futures::try_join!(look_up(&resources.queues), look_up(&resources.dead_letter_queues))?;
    resources.queues = queues.into_iter().collect();
    resources.dead_letter_queues = dead_letter_queues.into_iter().collect();
    Ok(resources)
}

async fn account(clients: &Clients) -> Result<String, StackError> {
    match clients.sts.get_caller_identity().send().await {
        Ok(identity) => Ok(identity.account.unwrap_or_default()),
        // The SDK's error lists every credential source that it tried; too long for a message.
        Err(error @ SdkError::DispatchFailure(_))
            if DisplayErrorContext(&error).to_string().contains("credential") =>
        {
            let missing = "no AWS credentials were found: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and \
                           AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN)";
            Err(StackError::Settings(vec![missing.to_owned()]))
        }
        Err(error) => Err(fault("STS", error).into()),
    }
}

async fn queue_url(clients: &Clients, name: &str) -> Result<Option<String>, Fault> {
    match clients.sqs.get_queue_url().queue_name(name).send().await {
        Ok(response) => Ok(response.queue_url),
        Err(error) if error.code().is_some_and(|code| UNKNOWN_QUEUE.contains(&code)) => Ok(None),
        Err(error) => Err(fault("SQS", error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clients::{clients, response};

    const IDENTITY: &str = "<GetCallerIdentityResponse><GetCallerIdentityResult>\
        <Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>";

    #[tokio::test]
    async fn queue_urls_are_those_that_sqs_returns() {
        let url = r#"{"QueueUrl":"http://127.0.0.1:1/queue/eu-west-1/123456789012/q"}"#;
        let mut responses = vec![response(200, IDENTITY)];
        responses.extend((0..10).map(|_| response(200, url)));
        let (clients, sent) = clients(responses);
        let resources = discover(&clients, "everypage").await.unwrap();
        assert_eq!(resources.bucket, "everypage-123456789012-eu-west-1");
        let mut urls = resources.queues.values().chain(resources.dead_letter_queues.values());
        assert!(urls.all(|url| url.ends_with("/q")));
        let mut names: Vec<String> = crate::test_clients::bodies(&sent)
            .iter()
            .filter_map(|body| body["QueueName"].as_str().map(str::to_owned))
            .collect();
        names.sort();
        assert_eq!(names[..2], ["everypage-critical", "everypage-critical-dlq"]);
    }

    #[tokio::test]
    async fn the_error_for_a_missing_stack_names_it() {
        let missing = r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist"}"#;
        let mut responses = vec![response(200, IDENTITY)];
        responses.extend((0..10).map(|_| response(400, missing)));
        let (clients, _) = clients(responses);
        let error = discover(&clients, "typo").await.unwrap_err().to_string();
        assert!(error.contains("no stack typo in account 123456789012, eu-west-1"), "{error}");
    }
}
