//! What became of a job, without what no two runs have in common: times, ids, hashes.

use everypage_core::{
    app::App,
    domain::job::Job,
    store::dead,
    usecases::{result, verify::verify_job},
};
use serde_json::{Value, json};

/// Fields that tell of time, place or chance.
const VAIN: [&str; 16] = [
    "job_id",
    "created_at",
    "started_at",
    "settled_at",
    "latency_ms",
    "document_sha256",
    "acked_at",
    "received_at",
    "finished_at",
    "queued_ms",
    "duration_ms",
    "total_ms",
    "input_tokens",
    "output_tokens",
    "cost_micro_usd",
    "detail",
];

/// The job's end, every version of its result page by page, and the letters about it.
pub async fn told(app: &App, job: &Job) -> Value {
    let mut versions = Vec::new();
    for version in 1..=job.result.as_ref().map_or(0, |result| result.version) {
        let document = result::read_document(app, job, Some(version)).await.unwrap().unwrap();
        versions.push(plain(serde_json::to_value(document).unwrap()));
    }
    let letters = dead::waiting(app, 1000).await.unwrap().into_iter().map(|kept| kept.value);
    let letters = letters.filter(|letter| letter.correlation_id == job.correlation_id);
    let report = verify_job(app, &job.id).await.unwrap();
    let tale = json!({
        "state": job.state,
        "status": job.status().to_string(),
        "halt": job.halt,
        "redrives": job.redrives,
        "failure": job.failure,
        "trail": report.findings,
        "versions": versions,
        "letters": letters.map(|letter| json!({ "subject": kind(&letter.subject), "reason": letter.reason })).collect::<Vec<_>>(),
    });
    // Models are named after their story, and more than one may tell the same.
    let tale = tale.to_string().replace(&format!("{}-", job.received.tenant), "");
    serde_json::from_str(&tale).unwrap()
}

fn kind(subject: &dead::Subject) -> Value {
    match subject {
        dead::Subject::Job { .. } => json!("job"),
        dead::Subject::Page { page, .. } => json!({ "page": page }),
        dead::Subject::Webhook { .. } => json!("webhook"),
        dead::Subject::Message => json!("message"),
    }
}

fn plain(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            // Whether a page's worker or its job saw the deadline first is chance.
            let cut_off = fields.get("source").is_some_and(|source| source == "mupdf_timeout_fallback");
            let chance = |name: &str| cut_off && (name == "attempts" || name == "why");
            let kept = fields.into_iter().filter(|(name, _)| !VAIN.contains(&name.as_str()) && !chance(name));
            kept.map(|(name, value)| (name, plain(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(plain).collect(),
        other => other,
    }
}

/// Holds what a story told against what it always tells, on every engine.
pub fn check(story: &str, told: &Value) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_sort_maps(true);
    settings.bind(|| insta::assert_json_snapshot!(story, told));
}
