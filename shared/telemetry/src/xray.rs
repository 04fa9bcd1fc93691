//! Spans to X-Ray, through the daemon that Lambda runs next to every function: one datagram each, so
//! that nothing waits and nothing is unsent when the function is frozen.

use std::net::UdpSocket;

use async_trait::async_trait;
use everypage_core::{
    ports::traces::Traces,
    trace::{Span, SpanKind, Value},
};
use jiff::Timestamp;
use serde_json::{Map, Value as Json, json};
use tracing::debug;

const HEADER: &str = r#"{"format":"json","version":1}"#;

pub struct XRay {
    socket: UdpSocket,
}

impl XRay {
    /// `daemon` is an address such as `169.254.79.129:2000`; Lambda sets AWS_XRAY_DAEMON_ADDRESS to it.
    pub fn connect(daemon: &str) -> std::io::Result<Self> {
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        socket.connect(daemon)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }
}

#[async_trait]
impl Traces for XRay {
    fn record(&self, span: Span) {
        let datagram = format!("{HEADER}\n{}", segment(&span));
        if let Err(error) = self.socket.send(datagram.as_bytes()) {
            debug!(%error, span = span.name, "span not sent");
        }
    }
}

/// Converts a span: work on a request is a segment, a step of it or a call is a subsegment.
fn segment(span: &Span) -> Json {
    let id = span.context.trace_id();
    let mut segment = json!({
        "name": span.name,
        "id": span.context.span_id(),
        "trace_id": format!("1-{}-{}", &id[..8], &id[8..]),
        "start_time": seconds(span.start),
        "end_time": seconds(span.end),
    });
    if let Some(parent) = span.parent {
        segment["parent_id"] = json!(format!("{parent:016x}"));
    }
    let is_request = matches!(span.kind, SpanKind::Job | SpanKind::Consumer);
    if is_request {
        segment["name"] = json!(format!("everypage {}", span.name));
    } else {
        segment["type"] = json!("subsegment");
    }
    if span.kind == SpanKind::Client {
        segment["namespace"] = json!("remote");
    }
    if let Some(error_type) = &span.error {
        segment["fault"] = json!(true);
        segment["annotations"] = json!({ "error_type": error_type });
    }
    for (name, value) in &span.attributes {
        // X-Ray searches by annotations; their names can't have dots.
        let annotations = segment["annotations"].as_object_mut().map(std::mem::take).unwrap_or_default();
        segment["annotations"] = annotated(annotations, &name.replace('.', "_"), value);
    }
    segment
}

fn annotated(mut annotations: Map<String, Json>, name: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!(text),
        Value::Number(number) => json!(number),
    };
    annotations.insert(name.to_owned(), value);
    Json::Object(annotations)
}

fn seconds(time: Timestamp) -> f64 {
    time.as_microsecond() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn span() -> Span {
        Span {
            context: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap(),
            parent: Some(0xa1),
            name: "call",
            kind: SpanKind::Client,
            start: "2026-11-16T10:00:00.25Z".parse().unwrap(),
            end: "2026-11-16T10:00:02.5Z".parse().unwrap(),
            attributes: vec![("gen_ai.request.model", "gpt".into()), ("everypage.page", 7_u32.into())],
            error: Some("timeout".into()),
        }
    }

    #[test]
    fn a_call_is_sent_to_the_daemon_as_a_subsegment() {
        let daemon = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        daemon.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        XRay::connect(&daemon.local_addr().unwrap().to_string()).unwrap().record(span());
        let mut datagram = [0; 2048];
        let length = daemon.recv(&mut datagram).unwrap();
        let (header, body) = std::str::from_utf8(&datagram[..length]).unwrap().split_once('\n').unwrap();
        assert_eq!(header, HEADER);
        let sent: Json = serde_json::from_str(body).unwrap();
        let expected = json!({
            "name": "call",
            "type": "subsegment",
            "namespace": "remote",
            "id": "00f067aa0ba902b7",
            "trace_id": "1-4bf92f35-77b34da6a3ce929d0e0e4736",
            "parent_id": "00000000000000a1",
            "start_time": 1794823200.25,
            "end_time": 1794823202.5,
            "fault": true,
            "annotations": {"gen_ai_request_model": "gpt", "everypage_page": 7, "error_type": "timeout"},
        });
        assert_eq!(sent, expected);
    }

    #[test]
    fn a_job_is_a_segment_of_its_own() {
        let job = Span { name: "job", kind: SpanKind::Job, parent: None, error: None, ..span() };
        let segment = segment(&job);
        assert_eq!(segment["name"], "everypage job");
        assert_eq!((segment.get("type"), segment.get("parent_id"), segment.get("fault")), (None, None, None));
    }
}
