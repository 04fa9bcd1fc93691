//! The command line against the deployed stack: every command that works there, once.

use std::{path::Path, process::Stdio, time::Duration};

use everypage_core::{
    billing::{
        buy::{self, PurchaseRequest},
        purchases,
    },
    ids::TenantId,
    sagas::progress::State,
};
use everypage_testkit::sample_pdf;
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::{
    deployed_stack::{DeployedStack, NAME, REGION},
    program,
    scenarios::SAMPLE_PASSWORD,
    test_backend::{TestBackend, until},
};

/// Enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(150);

/// The command line of one tenant.
pub struct Cli<'a> {
    backend: &'a DeployedStack,
    tenant: &'static str,
    folder: TempDir,
}

/// Exit code and output of a command.
pub struct CliOutput {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl<'a> Cli<'a> {
    pub fn new(backend: &'a DeployedStack, tenant: &'static str) -> Self {
        Self { backend, tenant, folder: tempfile::tempdir().unwrap() }
    }

    pub async fn run(&self, arguments: &[&str], stdin: &str) -> CliOutput {
        let mut command = Command::new(program("everypage"));
        command
            .args([
                "--backend",
                "aws",
                "--stack",
                NAME,
                "--region",
                REGION,
                "--endpoint",
                &self.backend.endpoint,
            ])
            .args(arguments)
            .env_clear()
            .env("TENANT", self.tenant)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut input = process.stdin.take().unwrap();
        // Most commands do not read it, and may have ended by then.
        let _ = input.write_all(stdin.as_bytes()).await;
        drop(input);
        let output = process.wait_with_output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        CliOutput {
            code: output.status.code().unwrap(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// The output of a command that must succeed.
    pub async fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, "").await;
        assert_eq!(output.code, 0, "{arguments:?}: {}", output.err);
        output.out
    }

    /// The `--json` output of a command that must succeed.
    pub async fn json(&self, arguments: &[&str]) -> Value {
        let out = self.succeed(&[arguments, &["--json"]].concat()).await;
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
    }

    /// The error of a command that must fail.
    pub async fn fail(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, "").await;
        assert_eq!(output.code, 1, "{arguments:?}: {}{}", output.out, output.err);
        output.err
    }

    pub fn document(&self, texts: &[&str]) -> NamedTempFile {
        let file = tempfile::Builder::new().suffix(".pdf").tempfile_in(self.folder.path()).unwrap();
        std::fs::write(file.path(), sample_pdf::pages_with_text(texts)).unwrap();
        file
    }

    /// Submits a document without waiting for it; returns the job's id.
    async fn submit_detached(&self, file: &Path, options: &[&str]) -> String {
        let file = file.to_str().unwrap();
        self.succeed(&[&["submit", "--detach", file], options].concat()).await.trim().to_owned()
    }

    /// Waits until the job is in that state.
    async fn wait_for_state(&self, job: &str, state: &str) -> Value {
        until(&format!("{state} of {job}"), TIMEOUT, async || {
            let shown = self.json(&["jobs", "show", job]).await;
            (shown["state"] == state).then_some(shown)
        })
        .await
    }
}

pub async fn every_command_works(backend: &DeployedStack) {
    futures::join!(
        settings_and_keys(backend),
        accounts_and_purchases(backend),
        jobs_and_dead_letters(backend),
        decisions(backend),
        a_page_is_healed(backend)
    );
}

async fn settings_and_keys(backend: &DeployedStack) {
    let cli = Cli::new(backend, "office");
    cli.succeed(&["tenants", "set", "office", "JOB_TIMEOUT=7m", "PRIORITY=high"]).await;
    cli.succeed(&["tenants", "unset", "office", "PRIORITY"]).await;
    assert_eq!(cli.json(&["tenants", "show", "office"]).await, json!({ "JOB_TIMEOUT": "7m" }));

    let made = cli.json(&["keys", "create", "--role", "operator", "--name", "counter"]).await;
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    assert!(key.starts_with("ep_"));
    let listed = cli.json(&["keys", "list"]).await;
    assert_eq!((&listed[0]["id"], &listed[0]["revoked_at"]), (&json!(id), &Value::Null), "{listed}");
    assert!(!listed.to_string().contains(key), "the key is shown once");
    assert!(cli.succeed(&["keys", "revoke", id]).await.contains("is revoked"));
    assert_ne!(cli.json(&["keys", "list"]).await[0]["revoked_at"], Value::Null);

    let secret = cli.succeed(&["webhook", "set", "https://example.com/hooks"]).await;
    assert!(secret.starts_with("whsec_"));
    assert_eq!(cli.json(&["webhook", "show"]).await["url"], "https://example.com/hooks");
    assert!(cli.succeed(&["webhook", "unset"]).await.contains("is removed"));
    assert_eq!(cli.json(&["webhook", "show"]).await, Value::Null);
}

async fn accounts_and_purchases(backend: &DeployedStack) {
    let (cli, app) = (Cli::new(backend, "books"), backend.app());
    let granted = cli.succeed(&["account", "grant", "5", "--note", "welcome"]).await;
    assert!(granted.contains("has 5 credits"), "{granted}");
    let deducted = cli.succeed(&["account", "deduct", "2", "--note", "a mistake"]).await;
    assert!(deducted.contains("has 3 credits"), "{deducted}");
    assert_eq!(cli.json(&["account", "show"]).await[0]["balance"], 3);
    let all = cli.json(&["account", "list"]).await;
    assert!(all.as_array().unwrap().iter().any(|account| account["tenant"] == "books"), "{all}");
    let ledger = cli.json(&["account", "ledger"]).await;
    let amounts: Vec<i64> =
        ledger.as_array().unwrap().iter().map(|line| line["amount"].as_i64().unwrap()).collect();
    assert_eq!(amounts, [-2, 5]);
    assert!(cli.succeed(&["account", "verify"]).await.contains("is consistent"));

    // The command line has no access to the stack's payment service: the sweep carries out the purchase.
    let usage = cli.run(&["purchases", "buy", "4"], "").await;
    assert_eq!(usage.code, 2, "{}", usage.err);
    let order = PurchaseRequest {
        tenant: TenantId::new("books"),
        by: "ann".into(),
        credits: 4,
        method: None,
        idempotency_key: None,
    };
    let (bought, _) = buy::start(&app.billing, order).await.unwrap();
    let id = bought.id.as_str();
    let wait_for = async |state: State| {
        until(&format!("{state:?} of a purchase"), TIMEOUT, async || {
            backend.sweep().await;
            (purchases::find(&app.store, &bought.id).await.ok()??.value.progress.state == state).then_some(())
        })
        .await;
    };
    wait_for(State::Completed).await;
    assert_eq!(cli.json(&["purchases", "list"]).await[0]["id"], id);
    let shown = cli.succeed(&["purchases", "show", id]).await;
    assert!(shown.contains("completed"), "{shown}");
    assert_eq!(cli.json(&["purchases", "waiting"]).await, json!([]));
    for command in [&["purchases", "resume", id][..], &["purchases", "resolve", id, "--note", "by hand"]] {
        let reason = cli.fail(command).await;
        assert!(reason.contains("a purchase that is completed"), "{reason}");
    }
    let rolling_back = cli.succeed(&["purchases", "rollback", id, "--reason", "not wanted"]).await;
    assert!(rolling_back.contains("continues"), "{rolling_back}");
    wait_for(State::Compensated).await;
    assert_eq!(cli.json(&["account", "show"]).await[0]["balance"], 3);
    assert!(cli.succeed(&["account", "verify"]).await.contains("is consistent"));
}

async fn jobs_and_dead_letters(backend: &DeployedStack) {
    let cli = Cli::new(backend, "desk");
    // One model answers, the other hangs.
    let models = ["OPENAI_PRIMARY_MODEL=desk-one", "OPENAI_FAST_MODEL=hang-desk"];
    cli.succeed(&[&["tenants", "set", "desk"], &models[..]].concat()).await;

    let job = cli.submit_detached(cli.document(&["at the desk"]).path(), &[]).await;
    let shown = cli.wait_for_state(&job, "AUDITED").await;
    assert_eq!((&shown["status"], shown["pages"].as_array().map(Vec::len)), (&json!("success"), Some(1)));
    let result = cli.succeed(&["jobs", "result", &job, "--format", "markdown"]).await;
    assert!(result.contains("at the desk") && result.contains("[read by desk-one]"), "{result}");
    let events = cli.json(&["jobs", "events", &job]).await.to_string();
    assert!(events.contains("job.audited") && events.contains("page.settled"), "{events}");

    let stopped = cli.submit_detached(cli.document(&["to be cancelled"]).path(), &["--tier", "fast"]).await;
    until("a call that hangs", TIMEOUT, async || {
        (backend.provider().calls_to("hang-desk") > 0).then_some(())
    })
    .await;
    let output = cli.succeed(&["jobs", "cancel", &stopped]).await;
    assert!(output.contains("cancelled"), "{output}");
    assert_eq!(cli.wait_for_state(&stopped, "CANCELLED").await["status"], "cancelled");

    let locked = crate::root().join("samples/encrypted.pdf");
    let failed = cli.run(&["submit", locked.to_str().unwrap()], "").await;
    assert_eq!(failed.code, 1, "{}", failed.err);
    let dead_letter = until("the dead letter of a locked document", TIMEOUT, async || {
        let dead_letters = cli.json(&["dlq", "list"]).await;
        let ours = dead_letters.as_array().unwrap().iter().find(|letter| letter["tenant"] == "desk").cloned();
        ours.map(|letter| letter["id"].as_str().unwrap().to_owned())
    })
    .await;
    let shown = cli.json(&["dlq", "show", &dead_letter]).await;
    assert!(shown["reason"].as_str().unwrap().contains("password"), "{shown}");
    let redriven =
        cli.run(&["dlq", "redrive", &dead_letter, "--password-stdin"], &format!("{SAMPLE_PASSWORD}\n")).await;
    assert!([0, 3].contains(&redriven.code), "{}{}", redriven.out, redriven.err);
    assert!(redriven.out.contains("encrypted.pdf: "), "{}", redriven.out);

    for id in [&job, &stopped] {
        cli.succeed(&["jobs", "delete", id, "--yes"]).await;
        cli.fail(&["jobs", "show", id]).await;
    }
    // A refused upload becomes a dead letter that can't be redriven.
    let put =
        backend.clients.s3.put_object().bucket(backend.output("BucketName")).key("incoming/desk/open.pdf");
    let put =
        put.body(sample_pdf::pages_with_text(&["at the desk"]).into()).metadata("password", SAMPLE_PASSWORD);
    put.send().await.unwrap();
    let refused_uploads = async || {
        let dead_letters = cli.json(&["dlq", "list"]).await;
        let refused =
            |letter: &&Value| letter["tenant"] == "desk" && letter["subject"].to_string().contains("message");
        let ids = dead_letters.as_array().unwrap().iter().filter(refused);
        ids.map(|letter| letter["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let ids =
        until("the refusal", TIMEOUT, async || Some(refused_uploads().await).filter(|ids| !ids.is_empty()))
            .await;
    cli.succeed(&["dlq", "purge", &ids[0], "--yes"]).await;
    assert_eq!(refused_uploads().await, Vec::<String>::new());
}

async fn decisions(backend: &DeployedStack) {
    let cli = Cli::new(backend, "court");
    // A model with a known price.
    let settings = ["APPROVAL_THRESHOLD_USD=0.000001", "OPENAI_PRIMARY_MODEL=gpt-5.4"];
    cli.succeed(&[&["tenants", "set", "court"], &settings[..]].concat()).await;
    let (one, other) = (cli.document(&["for it"]), cli.document(&["against it"]));
    let (one, other) =
        futures::join!(cli.submit_detached(one.path(), &[]), cli.submit_detached(other.path(), &[]));
    futures::join!(cli.wait_for_state(&one, "PROPOSED"), cli.wait_for_state(&other, "PROPOSED"));
    let output = cli.succeed(&["jobs", "approve", &one]).await;
    assert!(output.contains("is approved"), "{output}");
    let output = cli.succeed(&["jobs", "reject", &other, "--reason", "too expensive"]).await;
    assert!(output.contains("is rejected"), "{output}");
    assert_eq!(cli.wait_for_state(&one, "AUDITED").await["status"], "success");
    let rejected = cli.wait_for_state(&other, "REJECTED").await.to_string();
    assert!(rejected.contains("too expensive"), "{rejected}");
    let again = cli.fail(&["jobs", "approve", &other]).await;
    assert!(again.contains("does not wait for approval"), "{again}");
}

/// Every model refuses the page once; healing reads it.
async fn a_page_is_healed(backend: &DeployedStack) {
    let cli = Cli::new(backend, "heal-page");
    let models = [
        "OPENAI_PRIMARY_MODEL=heal-one",
        "OPENAI_SECONDARY_MODEL=heal-two",
        "ANTHROPIC_PRIMARY_MODEL=heal-three",
        "ANTHROPIC_SECONDARY_MODEL=heal-four",
    ];
    cli.succeed(&[&["tenants", "set", "heal-page"], &models[..]].concat()).await;
    let file = cli.document(&["once more"]);
    let refused = cli.run(&["submit", file.path().to_str().unwrap()], "").await;
    assert_eq!(refused.code, 3, "{}", refused.err);
    let job = cli.json(&["jobs", "list"]).await[0]["id"].as_str().unwrap().to_owned();
    let healed = cli.succeed(&["heal", &job]).await;
    assert!(healed.contains("version 2 is published"), "{healed}");
    let result = cli.succeed(&["jobs", "result", &job]).await;
    assert!(result.contains("[read by heal-one]"), "{result}");
}
