//! Settings that must not be in an environment: one secret of Secrets Manager, a JSON object.

use std::collections::BTreeMap;

use aws_sdk_secretsmanager::Client;
use everypage_core::ports::Fault;

use crate::fault::fault;

const SERVICE: &str = "Secrets Manager";

/// Reads the variables in the secret. Errors never contain its content.
pub async fn read(client: &Client, secret: &str) -> Result<BTreeMap<String, String>, Fault> {
    let response = client.get_secret_value().secret_id(secret).send().await;
    let response = response.map_err(|error| fault(SERVICE, error))?;
    let text = response.secret_string.unwrap_or_default();
    let malformed =
        || Fault::broken(SERVICE, r#"the secret must be a JSON object such as {"OPENAI_API_KEY": "…"}"#);
    let variables: BTreeMap<String, String> = serde_json::from_str(&text).map_err(|_| malformed())?;
    Ok(variables.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_clients::{clients, response};

    async fn read_from(secret: &str) -> Result<BTreeMap<String, String>, Fault> {
        let (clients, _) = clients(vec![response(200, &json!({ "SecretString": secret }).to_string())]);
        read(&clients.secrets, "arn").await
    }

    #[tokio::test]
    async fn a_secret_is_an_object_of_variables_and_empty_ones_are_ignored() {
        let read = read_from(r#"{"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": ""}"#).await.unwrap();
        assert_eq!(read.into_iter().collect::<Vec<_>>(), [("OPENAI_API_KEY".to_owned(), "sk-1".to_owned())]);
    }

    #[tokio::test]
    async fn the_error_for_a_malformed_secret_does_not_show_it() {
        let error = read_from("sk-secret").await.unwrap_err().to_string();
        assert!(error.contains("JSON object") && !error.contains("sk-secret"), "{error}");
    }
}
