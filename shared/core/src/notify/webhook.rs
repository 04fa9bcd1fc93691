//! Webhook messages: which events are sent, what a message says, and its signature, as Standard Webhooks
//! specifies.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use hmac::{Hmac, Mac};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::{
    event::{Event, KINDS, decode, matches_kind},
    job::{Job, JobEvent, State},
    secret::Secret,
    tenants::administration::AdministrationEvent,
};

/// Every secret starts with this, as the specification requires.
pub const SECRET_PREFIX: &str = "whsec_";

/// Every id of a message starts with this.
pub const MESSAGE_PREFIX: &str = "msg_";
/// Most event types of one webhook, and the longest type.
const MAX_TYPES: usize = 50;
const MAX_TYPE: usize = 100;

/// Whether a webhook for `types` gets the event: types, or prefixes such as `job.*`. Without any it gets the
/// ends of jobs.
pub fn is_wanted(types: &[String], event: &Event) -> bool {
    match types.is_empty() {
        true => ends_job(event),
        false => types.iter().any(|kind| matches_kind(kind, &event.kind)),
    }
}

/// Checks event types as a person gives them; returns what is wrong with them.
pub fn check_types(types: &[String]) -> Result<(), String> {
    if types.len() > MAX_TYPES {
        return Err(format!("has more than {MAX_TYPES} types"));
    }
    let is_known = |kind: &str| KINDS.iter().any(|known| matches_kind(kind, known));
    // Several types in one are refused, as is one that no event has: its webhook would never be notified.
    match types.iter().find(|kind| kind.len() > MAX_TYPE || kind.contains([',', ' ']) || !is_known(kind)) {
        Some(kind) => {
            let shown: String = kind.chars().take(MAX_TYPE).collect();
            let known = KINDS.join(", ");
            Err(format!("{shown:?} is no type of events; send *, job.* or such, or one of {known}"))
        }
        None => Ok(()),
    }
}

/// Whether the event ends a job. Events of anything but a job do not.
pub fn ends_job(event: &Event) -> bool {
    let state = decode(event).ok().and_then(|event: JobEvent| event.leads_to());
    state.is_some_and(State::is_terminal)
}

/// Whether the event is a change of the tenant's webhooks.
pub fn changes_webhooks(event: &Event) -> bool {
    matches!(decode(event), Ok(AdministrationEvent::WebhookChanged { .. }))
}

/// The secret of these random bytes, which the tenant sees once.
pub fn secret(bytes: &[u8]) -> Secret {
    Secret::new(format!("{SECRET_PREFIX}{}", BASE64.encode(bytes)))
}

/// The body of the message that a job ended: the end and the path of its result. No document text.
pub fn body(job: &Job, at: Timestamp) -> Value {
    let status = job.status().to_string();
    let place = format!("/v1/jobs/{}", job.id);
    let result = job.result.as_ref().map(|result| {
        json!({
            "version": result.version,
            "sha256": result.sha256,
            "href": format!("{place}/result"),
            "metadata": result.metadata,
        })
    });
    json!({
        "type": format!("job.{status}"),
        "timestamp": at,
        "data": {
            "id": job.id,
            "status": status,
            "state": job.state,
            "tenant": job.received.tenant,
            "document": { "name": job.received.document.name, "sha256": job.received.document.sha256 },
            "created_at": job.received_at,
            "finished_at": job.finished_at,
            "redrives": job.redrives,
            "href": place,
            "result": result,
            "error": job.failure,
        },
    })
}

/// The body of the message that `event` happened, for webhooks that chose its type.
pub fn event_body(event: &Event) -> Value {
    json!({
        "type": event.kind,
        "timestamp": event.timestamp,
        "data": {
            "id": event.id,
            "aggregate": event.aggregate,
            "sequence": event.sequence,
            "correlation_id": event.correlation_id,
            "data": event.data,
        },
    })
}

/// The header `webhook-signature` of the message `id`, sent at `timestamp` (in seconds).
pub fn sign(secret: &Secret, id: &str, timestamp: i64, body: &str) -> String {
    let text = secret.expose();
    let key = BASE64.decode(text.strip_prefix(SECRET_PREFIX).unwrap_or(text));
    let key = key.unwrap_or_else(|_| text.as_bytes().to_vec());
    format!("v1,{}", BASE64.encode(hmac_sha256(&key, format!("{id}.{timestamp}.{body}").as_bytes())))
}

fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
    mac.chain_update(message).finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        digest::hex,
        event::{Actor, Aggregate, DomainEvent, Head, Metadata},
        ids::{CorrelationId, EventId, JobId, TenantId},
        job::Failure,
    };

    #[test]
    fn only_events_that_lead_to_a_terminal_state_end_a_job() {
        fn event(typed: &impl DomainEvent) -> Event {
            let metadata = Metadata::untraced(TenantId::new("acme"), None, Actor::Finalize, "test");
            let (aggregate, id) = (Aggregate::Job(JobId::new("j")), EventId::new("e"));
            let (at, correlation) = (Timestamp::UNIX_EPOCH, CorrelationId::new("c"));
            Head::default().append(aggregate, id, typed, at, correlation, metadata).0
        }
        let failed = JobEvent::Failed(Failure { code: "empty_file".into(), reason: "0 bytes".into() });
        for end in [failed, JobEvent::Cancelled { result: None }] {
            assert!(ends_job(&event(&end)), "{end:?}");
        }
        assert!(!ends_job(&event(&JobEvent::DeadlineReached {})));
        assert!(!ends_job(&event(&AdministrationEvent::TenantCreated {})));
    }

    /// The types that an enum of events can have, as its deserializer lists them.
    fn kinds_of<T: serde::de::DeserializeOwned>() -> Vec<String> {
        let unknown = json!({ "type": "?", "data": {} });
        let error = serde_json::from_value::<T>(unknown).err().expect("there is no such type").to_string();
        error.split('`').filter(|part| part.contains('.')).map(str::to_owned).collect()
    }

    #[test]
    fn every_type_of_events_is_known_and_no_other_is_accepted() {
        let mut all: Vec<String> = [
            kinds_of::<JobEvent>(),
            kinds_of::<crate::read::outcome::PageEvent>(),
            kinds_of::<crate::read::breaker::BreakerEvent>(),
            kinds_of::<crate::dead_letters::DeadLetterEvent>(),
            kinds_of::<crate::billing::account::AccountEvent>(),
            kinds_of::<crate::sagas::progress::SagaEvent<crate::billing::purchase::Step>>(),
            // The first event of a saga, and those of a payment, which are next to the engine's.
            ["saga.started", "payment.completed", "payment.failed", "payment.refunded"]
                .map(str::to_owned)
                .to_vec(),
            kinds_of::<crate::tenants::administration::AdministrationEvent>(),
        ]
        .concat();
        all.sort();
        all.dedup();
        assert_eq!(all, KINDS);
        let check = |kind: &str| check_types(&[kind.to_owned()]);
        for good in ["job.failed", "job.*", "*", "credit.re*"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["job.faild", "", "jobs.*", "job.failed,job.audited", "Job.Failed", "job.*.failed"] {
            let reason = check(bad).unwrap_err();
            assert!(reason.contains("job.failed, job.healed"), "{reason}");
        }
    }

    /// Test cases 1, 2, 3 and 6 of RFC 4231.
    #[test]
    fn hmac_matches_the_test_vectors_of_the_rfc() {
        for (key, message, code) in [
            (
                vec![0x0b; 20],
                b"Hi There".to_vec(),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe".to_vec(),
                b"what do ya want for nothing?".to_vec(),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                vec![0xaa; 20],
                vec![0xdd; 50],
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            ),
            (
                vec![0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec(),
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            assert_eq!(hex(&hmac_sha256(&key, &message)), code);
        }
    }

    /// The example of the Standard Webhooks specification's libraries.
    #[test]
    fn a_signature_matches_the_example_of_the_specification() {
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signature =
            sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
