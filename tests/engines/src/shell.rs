//! The command line against the deployed stack: each command that works there, once.

use std::{path::Path, process::Stdio, time::Duration};

use everypage_core::{
    domain::{ids::TenantId, purchase::State},
    store::purchases,
    usecases::purchase::{self, Wish},
};
use everypage_testkit::sample_pdf;
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::{
    bench::{Bench, until},
    cloud::{Deployed, NAME, REGION},
    program,
    stories::LOCKED_WITH,
};

/// A busy machine's patience.
const LONG: Duration = Duration::from_secs(150);

/// A person of a tenant's at a terminal.
pub struct Shell<'a> {
    bench: &'a Deployed,
    tenant: &'static str,
    folder: TempDir,
}

/// What a command ended with.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl<'a> Shell<'a> {
    pub fn of(bench: &'a Deployed, tenant: &'static str) -> Self {
        Self { bench, tenant, folder: tempfile::tempdir().unwrap() }
    }

    pub async fn run(&self, arguments: &[&str], stdin: &str) -> Said {
        let mut command = Command::new(program("everypage"));
        command
            .args([
                "--engine",
                "aws",
                "--stack",
                NAME,
                "--region",
                REGION,
                "--endpoint",
                &self.bench.endpoint,
            ])
            .args(arguments)
            .env_clear()
            .env("TENANT", self.tenant)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut input = process.stdin.take().unwrap();
        // Most do not read it, and are gone by then.
        let _ = input.write_all(stdin.as_bytes()).await;
        drop(input);
        let output = process.wait_with_output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { code: output.status.code().unwrap(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// What a command that must succeed prints.
    pub async fn say(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments, "").await;
        assert_eq!(said.code, 0, "{arguments:?}: {}", said.err);
        said.out
    }

    /// The same, for programs.
    pub async fn json(&self, arguments: &[&str]) -> Value {
        let out = self.say(&[arguments, &["--json"]].concat()).await;
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
    }

    /// Why a command was refused.
    pub async fn refused(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments, "").await;
        assert_eq!(said.code, 1, "{arguments:?}: {}{}", said.out, said.err);
        said.err
    }

    pub fn document(&self, words: &[&str]) -> NamedTempFile {
        let file = tempfile::Builder::new().suffix(".pdf").tempfile_in(self.folder.path()).unwrap();
        std::fs::write(file.path(), sample_pdf::pages_with_text(words)).unwrap();
        file
    }

    /// Hands a document in and does not wait for it.
    async fn leave(&self, file: &Path, options: &[&str]) -> String {
        let file = file.to_str().unwrap();
        self.say(&[&["submit", "--detach", file], options].concat()).await.trim().to_owned()
    }

    /// The job, once it is in that state.
    async fn becomes(&self, job: &str, state: &str) -> Value {
        until(&format!("{state} of {job}"), LONG, async || {
            let shown = self.json(&["jobs", "show", job]).await;
            (shown["state"] == state).then_some(shown)
        })
        .await
    }
}

pub async fn every_command_works(bench: &Deployed) {
    futures::join!(
        settings_and_keys(bench),
        books(bench),
        jobs_and_letters(bench),
        decisions(bench),
        a_page_is_healed(bench)
    );
}

async fn settings_and_keys(bench: &Deployed) {
    let shell = Shell::of(bench, "office");
    shell.say(&["tenants", "set", "office", "JOB_TIMEOUT=7m", "PRIORITY=high"]).await;
    shell.say(&["tenants", "unset", "office", "PRIORITY"]).await;
    assert_eq!(shell.json(&["tenants", "show", "office"]).await, json!({ "JOB_TIMEOUT": "7m" }));

    let made = shell.json(&["keys", "create", "--role", "operator", "--name", "counter"]).await;
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    assert!(key.starts_with("ep_"));
    let listed = shell.json(&["keys", "list"]).await;
    assert_eq!((&listed[0]["id"], &listed[0]["revoked_at"]), (&json!(id), &Value::Null), "{listed}");
    assert!(!listed.to_string().contains(key), "shown once");
    assert!(shell.say(&["keys", "revoke", id]).await.contains("is revoked"));
    assert_ne!(shell.json(&["keys", "list"]).await[0]["revoked_at"], Value::Null);

    let secret = shell.say(&["webhook", "set", "https://example.com/hooks"]).await;
    assert!(secret.starts_with("whsec_"));
    assert_eq!(shell.json(&["webhook", "show"]).await["url"], "https://example.com/hooks");
    assert!(shell.say(&["webhook", "unset"]).await.contains("is told of nothing any more"));
    assert_eq!(shell.json(&["webhook", "show"]).await, Value::Null);
}

async fn books(bench: &Deployed) {
    let (shell, app) = (Shell::of(bench, "books"), bench.app());
    let granted = shell.say(&["account", "grant", "5", "--note", "welcome"]).await;
    assert!(granted.contains("has 5 credits now"), "{granted}");
    let deducted = shell.say(&["account", "deduct", "2", "--note", "a mistake"]).await;
    assert!(deducted.contains("has 3 credits now"), "{deducted}");
    assert_eq!(shell.json(&["account", "show"]).await[0]["balance"], 3);
    let all = shell.json(&["account", "list"]).await;
    assert!(all.as_array().unwrap().iter().any(|account| account["tenant"] == "books"), "{all}");
    let ledger = shell.json(&["account", "ledger"]).await;
    let amounts: Vec<i64> =
        ledger.as_array().unwrap().iter().map(|line| line["amount"].as_i64().unwrap()).collect();
    assert_eq!(amounts, [-2, 5]);
    assert!(shell.say(&["account", "verify"]).await.contains("are in order"));

    // The command line has no payment service of the stack's: the sweep goes on with what is begun.
    let usage = shell.run(&["purchases", "buy", "4"], "").await;
    assert_eq!(usage.code, 2, "{}", usage.err);
    let wish = Wish {
        tenant: TenantId::new("books"),
        by: "ann".into(),
        credits: 4,
        method: None,
        idempotency_key: None,
    };
    let (bought, _) = purchase::begin(&app, wish).await.unwrap();
    let id = bought.id.as_str();
    let becomes = async |state: State| {
        until(&format!("{state:?} of a purchase"), LONG, async || {
            bench.sweep().await;
            (purchases::find(&app, &bought.id).await.ok()??.value.state == state).then_some(())
        })
        .await;
    };
    becomes(State::Completed).await;
    assert_eq!(shell.json(&["purchases", "list"]).await[0]["id"], id);
    let shown = shell.say(&["purchases", "show", id]).await;
    assert!(shown.contains("completed"), "{shown}");
    assert_eq!(shell.json(&["purchases", "waiting"]).await, json!([]));
    for command in [&["purchases", "resume", id][..], &["purchases", "resolve", id, "--note", "by hand"]] {
        let why = shell.refused(command).await;
        assert!(why.contains("a purchase that is completed"), "{why}");
    }
    let undoing = shell.say(&["purchases", "rollback", id, "--reason", "not wanted"]).await;
    assert!(undoing.contains("goes on"), "{undoing}");
    becomes(State::Compensated).await;
    assert_eq!(shell.json(&["account", "show"]).await[0]["balance"], 3);
    assert!(shell.say(&["account", "verify"]).await.contains("are in order"));
}

async fn jobs_and_letters(bench: &Deployed) {
    let shell = Shell::of(bench, "desk");
    // One model answers, the other never does.
    let models = ["OPENAI_PRIMARY_MODEL=desk-one", "OPENAI_FAST_MODEL=hang-desk"];
    shell.say(&[&["tenants", "set", "desk"], &models[..]].concat()).await;

    let job = shell.leave(shell.document(&["at the desk"]).path(), &[]).await;
    let shown = shell.becomes(&job, "AUDITED").await;
    assert_eq!((&shown["status"], shown["pages"].as_array().map(Vec::len)), (&json!("success"), Some(1)));
    let result = shell.say(&["jobs", "result", &job, "--format", "markdown"]).await;
    assert!(result.contains("at the desk") && result.contains("[read by desk-one]"), "{result}");
    let events = shell.json(&["jobs", "events", &job]).await.to_string();
    assert!(events.contains("job.audited") && events.contains("page.settled"), "{events}");

    let stopped = shell.leave(shell.document(&["in vain"]).path(), &["--tier", "fast"]).await;
    until("a call that hangs", LONG, async || (bench.provider().calls_to("hang-desk") > 0).then_some(()))
        .await;
    let said = shell.say(&["jobs", "cancel", &stopped]).await;
    assert!(said.contains("cancelled"), "{said}");
    assert_eq!(shell.becomes(&stopped, "CANCELLED").await["status"], "cancelled");

    let locked = crate::root().join("samples/encrypted.pdf");
    let failed = shell.run(&["submit", locked.to_str().unwrap()], "").await;
    assert_eq!(failed.code, 1, "{}", failed.err);
    let letter = until("the letter of a locked document", LONG, async || {
        let letters = shell.json(&["dlq", "list"]).await;
        let ours = letters.as_array().unwrap().iter().find(|letter| letter["tenant"] == "desk").cloned();
        ours.map(|letter| letter["id"].as_str().unwrap().to_owned())
    })
    .await;
    let shown = shell.json(&["dlq", "show", &letter]).await;
    assert!(shown["reason"].as_str().unwrap().contains("password"), "{shown}");
    let redriven =
        shell.run(&["dlq", "redrive", &letter, "--password-stdin"], &format!("{LOCKED_WITH}\n")).await;
    assert!([0, 3].contains(&redriven.code), "{}{}", redriven.out, redriven.err);
    assert!(redriven.out.contains("encrypted.pdf: "), "{}", redriven.out);

    for id in [&job, &stopped] {
        shell.say(&["jobs", "delete", id, "--yes"]).await;
        shell.refused(&["jobs", "show", id]).await;
    }
    // An upload that was refused: a letter with nothing to be sent back.
    let put = bench.clients.s3.put_object().bucket(bench.output("BucketName")).key("incoming/desk/open.pdf");
    let put =
        put.body(sample_pdf::pages_with_text(&["at the desk"]).into()).metadata("password", LOCKED_WITH);
    put.send().await.unwrap();
    let letters = async || {
        let letters = shell.json(&["dlq", "list"]).await;
        let refused =
            |letter: &&Value| letter["tenant"] == "desk" && letter["subject"].to_string().contains("message");
        let ids = letters.as_array().unwrap().iter().filter(refused);
        ids.map(|letter| letter["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let ids = until("the refusal", LONG, async || Some(letters().await).filter(|ids| !ids.is_empty())).await;
    shell.say(&["dlq", "purge", &ids[0], "--yes"]).await;
    assert_eq!(letters().await, Vec::<String>::new());
}

async fn decisions(bench: &Deployed) {
    let shell = Shell::of(bench, "court");
    // A model that has a price.
    let dear = ["APPROVAL_THRESHOLD_USD=0.000001", "OPENAI_PRIMARY_MODEL=gpt-5.4"];
    shell.say(&[&["tenants", "set", "court"], &dear[..]].concat()).await;
    let (one, other) = (shell.document(&["for it"]), shell.document(&["against it"]));
    let (one, other) = futures::join!(shell.leave(one.path(), &[]), shell.leave(other.path(), &[]));
    futures::join!(shell.becomes(&one, "PROPOSED"), shell.becomes(&other, "PROPOSED"));
    let said = shell.say(&["jobs", "approve", &one]).await;
    assert!(said.contains("is approved"), "{said}");
    let said = shell.say(&["jobs", "reject", &other, "--reason", "too dear"]).await;
    assert!(said.contains("is rejected"), "{said}");
    assert_eq!(shell.becomes(&one, "AUDITED").await["status"], "success");
    let rejected = shell.becomes(&other, "REJECTED").await.to_string();
    assert!(rejected.contains("too dear"), "{rejected}");
    let again = shell.refused(&["jobs", "approve", &other]).await;
    assert!(again.contains("does not wait for approval"), "{again}");
}

/// Models that refuse a page, each of them once.
async fn a_page_is_healed(bench: &Deployed) {
    let shell = Shell::of(bench, "mend");
    let models = [
        "OPENAI_PRIMARY_MODEL=mend-one",
        "OPENAI_SECONDARY_MODEL=mend-two",
        "ANTHROPIC_PRIMARY_MODEL=mend-three",
        "ANTHROPIC_SECONDARY_MODEL=mend-four",
    ];
    shell.say(&[&["tenants", "set", "mend"], &models[..]].concat()).await;
    let file = shell.document(&["once more"]);
    let refused = shell.run(&["submit", file.path().to_str().unwrap()], "").await;
    assert_eq!(refused.code, 3, "{}", refused.err);
    let job = shell.json(&["jobs", "list"]).await[0]["id"].as_str().unwrap().to_owned();
    let healed = shell.say(&["heal", &job]).await;
    assert!(healed.contains("version 2 is published"), "{healed}");
    let result = shell.say(&["jobs", "result", &job]).await;
    assert!(result.contains("[read by mend-one]"), "{result}");
}
