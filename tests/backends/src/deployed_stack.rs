//! The deployed stack: `infra/template.yaml` and the functions' own binaries, in an emulator. Differences
//! from AWS are listed in `tests/emulator/README.md` and in the rewrites of `scripts/deploy-emulated`.

use std::{
    collections::HashMap,
    path::PathBuf,
    process::{Command, Output},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use aws_sdk_s3::primitives::ByteStream;
use everypage_aws::{Clients, Stack, StackResources, queue_variable};
use everypage_core::{
    app::{App, Outside},
    ids::{JobId, Priority},
    intake::{accept::object_id, uploads},
    ports::{ocr::NoOcr, traces::NoTraces},
    settings::Settings,
};
use everypage_outbound::{HttpPayments, HttpWebhooks};
use everypage_pdf::{ChildCommand, IsolatedPdf};
use everypage_testkit::{fake_payment_server::FakePaymentServer, provider::ScriptedProvider};
use everypage_vision::HttpVision;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    collector::{Collector, Span},
    program, root,
    test_backend::{CREDIT_PRICE, Document, TestBackend, Traffic, VISIBILITY, script, until},
};

pub const NAME: &str = "everypage-e2e";
pub const REGION: &str = "eu-west-1";
/// The scripted provider accepts any key; this one appears in a log only if a key leaks.
pub const PROVIDER_KEY: &str = "sk-Kmarker";

pub const PAYMENT_KEY: &str = "payment-Kmarker";

pub struct DeployedStack {
    pub endpoint: String,
    pub clients: Clients,
    pub stack: Stack,
    pub outputs: Value,
    provider: ScriptedProvider,
    payment_server: FakePaymentServer,
    collector: Collector,
}

impl DeployedStack {
    /// Starts an emulator that runs as long as this process, and deploys the stack into it.
    pub async fn start() -> Self {
        let provider = ScriptedProvider::start(script()).await.unwrap();
        let payment_server = FakePaymentServer::start().await.unwrap();
        let collector = Collector::start().await;
        let keeper = std::process::id().to_string();
        let endpoint = stdout(Command::new(root().join("scripts/cloud")).arg(keeper).output().unwrap());
        let outputs = deploy(
            &endpoint,
            NAME,
            "infra/template.yaml",
            &[
                format!("OpenAiBaseUrl={}", provider.openai_base_url()),
                format!("AnthropicBaseUrl={}", provider.anthropic_base_url()),
                format!("PaymentUrl={}", payment_server.url()),
                format!("CreditPriceUsd={CREDIT_PRICE}"),
                format!("PageVisibility={}s", VISIBILITY.as_secs()),
                format!("TracesEndpoint={}", collector.endpoint()),
                "LogLevel=trace".into(),
                "JobTimeout=3m".into(),
                // Pages that wait for a slot poll four times a second, which would slow the emulator.
                "MaxInflightPerModel=64".into(),
            ],
        );
        let clients = Clients::connect(Some(endpoint.clone()), Some(REGION.into())).await;
        // The step that an operator takes after the first deployment.
        let keys = json!({
            "OPENAI_API_KEY": PROVIDER_KEY,
            "ANTHROPIC_API_KEY": PROVIDER_KEY,
            "PAYMENT_API_KEY": PAYMENT_KEY,
            // The test's own webhook server has a private address.
            "WEBHOOK_ALLOW_PRIVATE": "true",
        })
        .to_string();
        let secret = text(&outputs, "ProviderKeysSecretArn");
        clients.secrets.put_secret_value().secret_id(secret).secret_string(keys).send().await.unwrap();
        let stack = connect(&clients, &outputs, &payment_server);
        Self { endpoint, clients, stack, outputs, provider, payment_server, collector }
    }

    pub fn output(&self, name: &str) -> String {
        text(&self.outputs, name)
    }

    /// Deploys another template next to the stack; returns its outputs.
    pub fn deploy(&self, name: &str, template: &str, parameters: &[String]) -> Value {
        deploy(&self.endpoint, name, template, parameters)
    }

    /// Invokes a function by name, and waits for its answer.
    pub async fn invoke(&self, function: &str, event: Value) -> Value {
        self.call_lambda(reqwest::Method::POST, function, "invocations", Some(event)).await
    }

    /// Changes a variable of a function's environment.
    pub async fn change_variable(&self, function: &str, name: &str, value: &str) {
        use reqwest::Method;
        let found = self.call_lambda(Method::GET, function, "configuration", None).await;
        let mut environment = found["Environment"].clone();
        assert!(environment["Variables"][name].is_string(), "{function} has no {name}: {found}");
        environment["Variables"][name] = json!(value);
        let body = json!({ "Environment": environment });
        self.call_lambda(Method::PUT, function, "configuration", Some(body)).await;
        until(&format!("the new environment of {function}"), Duration::from_secs(30), async || {
            let now = self.call_lambda(Method::GET, function, "configuration", None).await;
            let done = now["LastUpdateStatus"] == "Successful";
            (done && now["Environment"]["Variables"][name] == value).then_some(())
        })
        .await;
    }

    async fn call_lambda(
        &self,
        method: reqwest::Method,
        function: &str,
        what: &str,
        body: Option<Value>,
    ) -> Value {
        let address = format!("{}/2015-03-31/functions/{NAME}-{function}/{what}", self.endpoint);
        let scope = format!("test/20260101/{REGION}/lambda/aws4_request");
        let signed = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0");
        let mut call = http().request(method, address).header("authorization", signed);
        if let Some(body) = body {
            call = call.body(body.to_string());
        }
        let answer = call.send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&answer).unwrap_or(Value::String(answer))
    }

    /// Uploads an object to the bucket, as a user does; returns the id of its upload record.
    pub async fn upload(&self, document: &Document<'_>) -> String {
        let key = format!("incoming/{}/{}", document.tenant, document.name);
        let bucket = self.output("BucketName");
        let put = |key: String, body: Vec<u8>| {
            self.clients.s3.put_object().bucket(&bucket).key(key).body(ByteStream::from(body))
        };
        if let Some(password) = document.password {
            let metadata = json!({ "password": password }).to_string();
            put(format!("{key}.json"), metadata.into_bytes()).send().await.unwrap();
        }
        let object = put(key.clone(), document.bytes.clone());
        let trace = document.traceparent.map(|trace| ("traceparent".to_owned(), trace.to_owned()));
        let object = object.set_metadata(trace.map(|trace| HashMap::from([trace])));
        let stored = object.send().await.unwrap();
        let tag = stored.e_tag().map(|tag| tag.trim_matches('"'));
        object_id(&key, stored.version_id().or(tag).unwrap())
    }

    /// The running processes of a function.
    pub fn processes(&self, function: &str) -> Vec<i32> {
        let folder = self.folder().join("functions").join(format!("{NAME}-{function}"));
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.filter_map(|file| file.file_name().to_str()?.parse().ok()).collect()
    }

    /// Kills every running process of a function without a chance to clean up.
    pub fn kill(&self, function: &str) {
        for process in self.processes(function) {
            // The process may have ended already.
            let _ = kill_process(Pid::from_raw(process).unwrap(), Signal::KILL);
        }
    }

    /// The logs of all functions.
    pub fn logs(&self) -> String {
        let files = std::fs::read_dir(self.folder().join("logs")).unwrap().flatten();
        let ours = files.filter(|file| file.file_name().to_string_lossy().starts_with(NAME));
        ours.map(|file| String::from_utf8_lossy(&std::fs::read(file.path()).unwrap()).into_owned()).collect()
    }

    /// The emulator's folder, with its logs.
    fn folder(&self) -> PathBuf {
        root().join(".cache/cloud/run").join(std::process::id().to_string())
    }
}

/// An HTTP client for addresses of this machine; it needs a TLS provider even though it never uses one.
pub fn http() -> reqwest::Client {
    // Fails when a provider is set already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

/// Deploys a template of this repository into the emulator; returns its outputs.
fn deploy(endpoint: &str, name: &str, template: &str, parameters: &[String]) -> Value {
    let deploy = Command::new(root().join("scripts/deploy-emulated"))
        .arg("--template")
        .arg(root().join(template))
        .args([endpoint, name])
        .arg(program("everypage-worker").parent().unwrap())
        .args(parameters)
        .output();
    serde_json::from_str(&stdout(deploy.unwrap())).unwrap()
}

/// The standard output of a program that must succeed.
fn stdout(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn text(outputs: &Value, name: &str) -> String {
    outputs[name].as_str().unwrap_or_else(|| panic!("the stack has no output {name}")).to_owned()
}

/// The use cases over the stack's storage, connected like its functions.
fn connect(clients: &Clients, outputs: &Value, payment_server: &FakePaymentServer) -> Stack {
    let lanes = |name: &str, kind: &str, output: &str| {
        let lane = Priority::ALL.into_iter().find(|lane| queue_variable(kind, *lane) == name)?;
        Some(text(outputs, &format!("{lane:?}{output}")))
    };
    let resources = StackResources::read(|name| {
        let output = match name {
            "TABLE_NAME" => "TableName",
            "BUCKET_NAME" => "BucketName",
            "STATE_MACHINE_ARN" => "StateMachineArn",
            "EVENT_BUS_NAME" => "EventBusName",
            "TOPIC_ARN" => "TopicArn",
            "KMS_KEY_ID" => "KeyArn",
            "SECRETS_ARN" => "ProviderKeysSecretArn",
            "METRICS_NAMESPACE" => return Some(format!("Everypage/{NAME}")),
            name => {
                return lanes(name, "QUEUE", "QueueUrl").or_else(|| lanes(name, "DLQ", "DeadLettersUrl"));
            }
        };
        Some(text(outputs, output))
    });
    let settings = Settings::read(|name| match name {
        // As in the API function: changing a plan proposes it again.
        "OPENAI_API_KEY" | "ANTHROPIC_API_KEY" => Some("scripted".into()),
        "PAYMENT_URL" => Some(payment_server.url()),
        "CREDIT_PRICE_USD" => Some(CREDIT_PRICE.into()),
        _ => None,
    });
    let settings = settings.unwrap().settings;
    let child = ChildCommand::new(program("everypage-intake")).arg("pdf-child");
    let outside = Outside {
        pdf: Arc::new(IsolatedPdf::new(child, settings.pdf)),
        ocr: Arc::new(NoOcr),
        vision: Arc::new(HttpVision::from_settings(&settings).unwrap()),
        hooks: Arc::new(HttpWebhooks::new(true).unwrap()),
        payments: Arc::new(HttpPayments::from_settings(&settings).unwrap()),
        notifiers: vec![],
        traces: Arc::new(NoTraces),
    };
    Stack::connect(clients.clone(), resources.unwrap(), settings, outside).unwrap()
}

#[async_trait(?Send)]
impl TestBackend for DeployedStack {
    fn app(&self) -> Arc<App> {
        self.stack.app.clone()
    }

    fn provider(&self) -> &ScriptedProvider {
        &self.provider
    }

    fn payment_server(&self) -> &FakePaymentServer {
        &self.payment_server
    }

    fn collector(&self) -> &Collector {
        &self.collector
    }

    async fn submit(&self, document: Document<'_>) -> JobId {
        let upload = self.upload(&document).await;
        until(
            &format!("a job for {} of {}", document.name, document.tenant),
            Duration::from_secs(120),
            async || {
                let record = uploads::find(&self.stack.app.store, &upload).await.ok()??.value;
                assert_eq!(record.failure, None);
                record.job
            },
        )
        .await
    }

    async fn kill_workers(&self) {
        self.kill("worker");
    }

    /// Does nothing: the queues invoke the workers.
    async fn take_on(&self, _job: &JobId) {}

    fn check_services(&self, spans: &[Span]) {
        for span in spans {
            let function = match span.name.as_str() {
                "submit" | "inspect" | "read_text" | "render" | "plan" => "intake",
                "page" | "call" => "worker",
                _ => "finalize",
            };
            assert_eq!(span.service, format!("{NAME}-{function}"), "{}", span.name);
        }
    }

    /// Counted in the emulator's log of requests.
    fn traffic(&self) -> Option<Traffic> {
        let log = std::fs::read_to_string(self.folder().join("logs/emulator")).unwrap();
        let count = |what: &str| log.matches(what).count() as u64;
        Some(Traffic {
            messages: count("AWS sqs.SendMessage"),
            record_calls: count("AWS dynamodb.") - count("AWS dynamodb.Describe"),
        })
    }

    async fn sweep(&self) {
        self.invoke("finalize", json!({ "step": "sweep" })).await;
    }
}
