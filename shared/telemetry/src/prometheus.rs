//! Metrics as the text that Prometheus scrapes; the caller serves it.

use everypage_core::telemetry::metrics::{self, ALL, Definition, Kind};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

/// The `Content-Type` of [`Prometheus::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of this process since it started.
#[derive(Clone)]
pub struct Prometheus(PrometheusHandle);

/// The process already has another recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyRecording;

impl std::fmt::Display for AlreadyRecording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this process already has a metrics recorder")
    }
}

impl std::error::Error for AlreadyRecording {}

impl Prometheus {
    /// Starts to record this process's metrics. Call it once, before any work; fails the second time.
    pub fn install() -> Result<Self, AlreadyRecording> {
        let recorder = recorder();
        let handle = recorder.handle();
        ::metrics::set_global_recorder(recorder).map_err(|_| AlreadyRecording)?;
        metrics::describe();
        Ok(Self(handle))
    }

    /// Everything recorded so far. Gauges show their last measurement: call `observe::measure` first.
    pub fn render(&self) -> String {
        let mut text = self.0.render();
        for Definition { name, .. } in ALL.iter().filter(|metric| metric.kind == Kind::Sum) {
            // Recorded as a gauge, because counters have no fractions; it never decreases.
            text = text.replace(&format!("# TYPE {name} gauge\n"), &format!("# TYPE {name} counter\n"));
        }
        text
    }

    /// Aggregates the values of histograms. Rendering does that too: a process that is not scraped calls
    /// this every few minutes, so that its memory does not grow.
    pub fn upkeep(&self) {
        self.0.run_upkeep();
    }
}

fn recorder() -> PrometheusRecorder {
    let mut buckets = ALL.iter().filter_map(|metric| match metric.kind {
        Kind::Histogram(buckets) => Some((metric.name, buckets)),
        Kind::Counter | Kind::Sum | Kind::Gauge => None,
    });
    let builder = buckets.try_fold(PrometheusBuilder::new(), |builder, (name, buckets)| {
        builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)
    });
    // The only possible error, a histogram without buckets, is excluded by a test.
    builder.unwrap_or_else(|_: BuildError| PrometheusBuilder::new()).build_recorder()
}

#[cfg(test)]
mod tests {
    use ::metrics::{Label, counter, gauge, histogram, with_local_recorder};

    use super::*;

    /// The text that is scraped after `record` was called.
    fn rendered(record: impl Fn()) -> String {
        let recorder = recorder();
        with_local_recorder(&recorder, || {
            metrics::describe();
            record();
        });
        Prometheus(recorder.handle()).render()
    }

    fn labels(metric: &Definition) -> Vec<Label> {
        metric.labels.iter().map(|label| Label::new(*label, format!("some \"{label}\""))).collect()
    }

    #[test]
    fn every_metric_is_rendered_with_its_name_type_and_labels() {
        let text = rendered(|| {
            for metric in ALL {
                match metric.kind {
                    Kind::Counter => counter!(metric.name, labels(metric)).increment(3),
                    Kind::Sum => {
                        gauge!(metric.name, labels(metric)).increment(0.125);
                        gauge!(metric.name, labels(metric)).increment(0.5);
                    }
                    Kind::Gauge => gauge!(metric.name, labels(metric)).set(7.0),
                    Kind::Histogram(_) => histogram!(metric.name, labels(metric)).record(4.0),
                }
            }
        });
        for metric in ALL {
            let (kind, suffix, value) = match metric.kind {
                Kind::Counter => ("counter", "", "3"),
                Kind::Sum => ("counter", "", "0.625"),
                Kind::Gauge => ("gauge", "", "7"),
                Kind::Histogram(_) => ("histogram", "_sum", "4"),
            };
            let name = metric.name;
            assert!(text.contains(&format!("# HELP {name} {}\n", metric.description)), "{name}\n{text}");
            assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name}\n{text}");
            let labels: Vec<String> =
                metric.labels.iter().map(|label| format!(r#"{label}="some \"{label}\"""#)).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let line = format!("\n{name}{suffix}{labels} {value}\n");
            assert!(text.contains(&line), "{line}\n{text}");
        }
    }

    #[test]
    fn histograms_have_the_buckets_of_their_definition() {
        for metric in ALL {
            let Kind::Histogram(buckets) = metric.kind else { continue };
            let text = rendered(|| histogram!(metric.name).record(29.0));
            let bounds: Vec<String> = buckets.iter().map(f64::to_string).chain(["+Inf".into()]).collect();
            let expected: Vec<String> = bounds
                .iter()
                .map(|bound| {
                    let within = bound.parse().map_or(true, |bound: f64| bound >= 29.0);
                    format!("{}_bucket{{le=\"{bound}\"}} {}", metric.name, u8::from(within))
                })
                .collect();
            let found: Vec<&str> = text.lines().filter(|line| line.contains("_bucket")).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_second_recorder_is_rejected() {
        let installed = Prometheus::install().unwrap();
        counter!(ALL[0].name, labels(ALL[0])).increment(1);
        assert!(installed.render().contains(ALL[0].name));
        installed.upkeep();
        assert!(Prometheus::install().is_err());
    }
}
