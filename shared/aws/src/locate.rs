//! A deployed stack, found by its name.

use std::collections::BTreeMap;

use aws_sdk_sqs::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use everypage_core::{domain::ids::Priority, ports::Fault};
use futures::future::try_join_all;

use crate::{Clients, Place, StackError, fault::fault};

/// The error's name, and the one that it had before SQS spoke JSON, which a header still says.
const UNKNOWN_QUEUE: [&str; 2] = ["QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"];

/// Where the parts of `stack` are, in the account of the caller and the clients' region.
///
/// Names follow from the stack's; the queues are asked for, because an emulator has addresses of
/// its own for them, and because that tells whether there is such a stack at all.
pub async fn locate(clients: &Clients, stack: &str) -> Result<Place, StackError> {
    let region = clients.region.as_deref().ok_or_else(|| {
        let missing = "no region is known: pass --region, or set AWS_REGION or a profile with one";
        StackError::Settings(vec![missing.to_owned()])
    })?;
    let account = account(clients).await?;
    let mut place = Place::of_stack(stack, &account, region);
    let found = async |urls: &BTreeMap<Priority, String>| {
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
        futures::try_join!(found(&place.queues), found(&place.dead_letter_queues))?;
    place.queues = queues.into_iter().collect();
    place.dead_letter_queues = dead_letter_queues.into_iter().collect();
    Ok(place)
}

async fn account(clients: &Clients) -> Result<String, StackError> {
    match clients.sts.get_caller_identity().send().await {
        Ok(identity) => Ok(identity.account.unwrap_or_default()),
        // The chain of places that were looked at is longer than anybody reads.
        Err(error @ SdkError::DispatchFailure(_))
            if DisplayErrorContext(&error).to_string().contains("credential") =>
        {
            let missing = "no credentials for AWS were found: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and \
                           AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN)";
            Err(StackError::Settings(vec![missing.to_owned()]))
        }
        Err(error) => Err(fault("STS", error).into()),
    }
}

async fn queue_url(clients: &Clients, name: &str) -> Result<Option<String>, Fault> {
    match clients.sqs.get_queue_url().queue_name(name).send().await {
        Ok(answer) => Ok(answer.queue_url),
        Err(error) if error.code().is_some_and(|code| UNKNOWN_QUEUE.contains(&code)) => Ok(None),
        Err(error) => Err(fault("SQS", error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{answer, clients};

    const IDENTITY: &str = "<GetCallerIdentityResponse><GetCallerIdentityResult>\
        <Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>";

    #[tokio::test]
    async fn queues_are_where_sqs_says() {
        let url = r#"{"QueueUrl":"http://127.0.0.1:1/queue/eu-west-1/123456789012/q"}"#;
        let mut answers = vec![answer(200, IDENTITY)];
        answers.extend((0..10).map(|_| answer(200, url)));
        let (clients, sent) = clients(answers);
        let place = locate(&clients, "everypage").await.unwrap();
        assert_eq!(place.bucket, "everypage-123456789012-eu-west-1");
        assert!(
            place.queues.values().chain(place.dead_letter_queues.values()).all(|url| url.ends_with("/q"))
        );
        let mut asked: Vec<String> = crate::replay::bodies(&sent)
            .iter()
            .filter_map(|body| body["QueueName"].as_str().map(str::to_owned))
            .collect();
        asked.sort();
        assert_eq!(asked[..2], ["everypage-critical", "everypage-critical-dlq"]);
    }

    #[tokio::test]
    async fn a_stack_that_is_not_there_is_named() {
        let missing = r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist"}"#;
        let mut answers = vec![answer(200, IDENTITY)];
        answers.extend((0..10).map(|_| answer(400, missing)));
        let (clients, _) = clients(answers);
        let error = locate(&clients, "typo").await.unwrap_err().to_string();
        assert!(error.contains("no stack typo in account 123456789012, eu-west-1"), "{error}");
    }
}
