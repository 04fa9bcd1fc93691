//! Conformance of notices in the log, parsed from the lines that the program writes.

use std::{io, sync::Arc};

use async_trait::async_trait;
use everypage_core::{ids::TenantId, ports::notifier::Notice};
use everypage_local::LogNotifier;
use everypage_testkit::conformance::notifier::{Recipient, Subject};
use parking_lot::Mutex;
use serde_json::Value;
use tracing::subscriber::DefaultGuard;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct LogReader {
    log: Log,
    _subscriber: DefaultGuard,
}

#[async_trait]
impl Recipient for LogReader {
    async fn notices(&self, _count: usize) -> Vec<Notice> {
        let text = String::from_utf8(self.log.0.lock().clone()).unwrap();
        text.lines().map(|line| notice(&serde_json::from_str(line).unwrap())).collect()
    }
}

fn notice(line: &Value) -> Notice {
    let field = |name: &str| line[name].as_str().map(str::to_owned);
    assert_eq!((field("level").unwrap().as_str(), field("message").unwrap().as_str()), ("WARN", "notice"));
    Notice {
        id: field("notice").unwrap(),
        kind: field("kind").unwrap().parse().unwrap(),
        tenant: TenantId::new(field("tenant").unwrap()),
        responsible: field("responsible"),
        subject: field("subject").unwrap(),
        body: field("body").unwrap(),
    }
}

everypage_testkit::notifier_conformance!(async {
    let log = Log::default();
    let writer = log.clone();
    let lines = tracing_subscriber::fmt().json().flatten_event(true).with_writer(move || writer.clone());
    let _subscriber = tracing::subscriber::set_default(lines.finish());
    Subject::new(Arc::new(LogNotifier), Arc::new(LogReader { log, _subscriber }))
});
