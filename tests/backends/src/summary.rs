//! The summary of a job that is the same in every run and on every backend: without times, ids and hashes.

use everypage_core::{
    app::App,
    dead_letters,
    finish::{results, verify::verify_job},
    job::Job,
};
use serde_json::{Value, json};

/// Fields that differ between runs.
const VOLATILE: [&str; 16] = [
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

/// The job's end state, every version of its result page by page, and its dead letters.
pub async fn summarize(app: &App, job: &Job) -> Value {
    let mut versions = Vec::new();
    for version in 1..=job.result.as_ref().map_or(0, |result| result.version) {
        let document = results::read_document(app.blobs.as_ref(), job, Some(version)).await.unwrap().unwrap();
        versions.push(without_volatile(serde_json::to_value(document).unwrap()));
    }
    let waiting = dead_letters::waiting(&app.store, 1000)
        .await
        .unwrap()
        .into_iter()
        .map(|dead_letter| dead_letter.value);
    let waiting = waiting.filter(|dead_letter| dead_letter.correlation_id == job.correlation_id);
    let report = verify_job(&app.store, app.blobs.as_ref(), &job.id).await.unwrap();
    let summary = json!({
        "state": job.state,
        "status": job.status().to_string(),
        "halt": job.halt,
        "redrives": job.redrives,
        "failure": job.failure,
        "trail": report.findings,
        "versions": versions,
        "dead_letters": waiting.map(|dead_letter| json!({ "subject": kind(&dead_letter.subject), "reason": dead_letter.reason })).collect::<Vec<_>>(),
    });
    // Models are named after their scenario, and several scenarios may share a snapshot.
    let summary = summary.to_string().replace(&format!("{}-", job.received.tenant), "");
    serde_json::from_str(&summary).unwrap()
}

fn kind(subject: &dead_letters::Subject) -> Value {
    match subject {
        dead_letters::Subject::Job { .. } => json!("job"),
        dead_letters::Subject::Page { page, .. } => json!({ "page": page }),
        dead_letters::Subject::Webhook { .. } => json!("webhook"),
        dead_letters::Subject::Message => json!("message"),
    }
}

fn without_volatile(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            // Whether a page's worker or its job reaches the deadline first varies.
            let cut_off = fields.get("source").is_some_and(|source| source == "mupdf_timeout_fallback");
            let varies = |name: &str| cut_off && (name == "calls" || name == "fallback_reason");
            let kept =
                fields.into_iter().filter(|(name, _)| !VOLATILE.contains(&name.as_str()) && !varies(name));
            kept.map(|(name, value)| (name, without_volatile(value))).collect()
        }
        // Whether a call that was cut off is recorded before the result is published varies too.
        Value::Array(items) => {
            let items = items.into_iter().filter(|item| item["result"] != "cut_off");
            items.map(without_volatile).collect()
        }
        other => other,
    }
}

/// Compares a summary with the scenario's snapshot, which all backends share.
pub fn check_snapshot(scenario: &str, summary: &Value) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_sort_maps(true);
    settings.bind(|| insta::assert_json_snapshot!(scenario, summary));
}
