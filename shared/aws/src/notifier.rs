//! Notices as messages of an SNS topic. Tenant and responsible person are message attributes, so that
//! a subscription can filter by them.

use async_trait::async_trait;
use aws_sdk_sns::{Client, types::MessageAttributeValue};
use everypage_core::ports::{
    Fault,
    notifier::{Channel, MAX_SUBJECT_CHARS, Notice, Notifier},
};

use crate::fault::fault;

const SERVICE: &str = "SNS";

pub struct SnsNotifier {
    client: Client,
    topic: String,
}

impl SnsNotifier {
    pub fn new(client: Client, topic_arn: impl Into<String>) -> Self {
        Self { client, topic: topic_arn.into() }
    }
}

/// Makes one line of at most [`MAX_SUBJECT_CHARS`]; `None` when it would be empty.
fn subject(text: &str) -> Option<String> {
    let plain = |c: char| if c.is_control() || c.is_whitespace() { ' ' } else { c };
    let line: String = text.chars().map(plain).collect();
    let line: String = line.trim().chars().take(MAX_SUBJECT_CHARS).collect();
    (!line.is_empty()).then_some(line)
}

#[async_trait]
impl Notifier for SnsNotifier {
    fn channel(&self) -> Channel {
        Channel::Sns
    }

    async fn notify(&self, notice: &Notice) -> Result<(), Fault> {
        let mut call = self
            .client
            .publish()
            .topic_arn(&self.topic)
            .set_subject(subject(&notice.subject))
            .message(&notice.body);
        let attributes = [
            ("notice", Some(notice.id.as_str())),
            ("kind", Some(notice.kind.into())),
            ("tenant", Some(notice.tenant.as_str())),
            ("responsible", notice.responsible.as_deref()),
        ];
        for (name, value) in attributes {
            // SNS rejects empty attributes.
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                let value = MessageAttributeValue::builder().data_type("String").string_value(value).build();
                call = call.message_attributes(name, value.map_err(|error| Fault::broken(SERVICE, error))?);
            }
        }
        call.send().await.map_err(|error| fault(SERVICE, error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use everypage_core::{ids::TenantId, ports::notifier::NoticeKind};

    use super::*;
    use crate::test_clients::{clients, response};

    #[test]
    fn a_subject_is_one_short_line() {
        assert_eq!(subject("a\nb\u{2028}c\t").as_deref(), Some("a b c"));
        assert_eq!(subject(&"é".repeat(200)).unwrap().chars().count(), 99);
        assert_eq!(subject(" \n"), None);
    }

    #[tokio::test]
    async fn a_notice_names_its_tenant_and_responsible_person() {
        let done =
            "<PublishResponse><PublishResult><MessageId>m</MessageId></PublishResult></PublishResponse>";
        let (clients, sent) = clients(vec![response(200, done)]);
        let notice = Notice {
            id: "n".into(),
            kind: NoticeKind::DeadLetter,
            tenant: TenantId::new("acme"),
            responsible: Some("eve@example.org".into()),
            subject: "s".into(),
            body: "b".into(),
        };
        SnsNotifier::new(clients.sns, "arn:topic").notify(&notice).await.unwrap();
        let request = sent.actual_requests().next().unwrap();
        let form = String::from_utf8_lossy(request.body().bytes().unwrap()).into_owned();
        for part in
            ["dead_letter", "acme", "eve%40example.org", "TopicArn=arn%3Atopic", "Message=b", "Subject=s"]
        {
            assert!(form.contains(part), "{form}");
        }
    }
}
