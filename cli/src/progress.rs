//! Progress of documents: on a terminal a bar each and a line for all pages, a line per step elsewhere.

use std::{collections::HashMap, sync::Arc, time::Duration};

use everypage_core::{
    event::{Aggregate, Event, decode},
    ids::{JobId, PageNumber},
    job::{JobEvent, Plan, Survey},
    read::{
        outcome::{CallResult, PageEvent, Settlement},
        waiting::WaitReason,
    },
    safe_text::safe_line,
};
use everypage_local::LocalBus;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{broadcast, oneshot};

use crate::{
    human,
    page_counts::{JobPages, in_words},
    screen::Screen,
    settings::Context,
};

/// More documents than this have no bar of their own.
const MAX_BARS: usize = 10;
/// Names are truncated to this, so that the bars fit 80 columns.
const NAME_WIDTH: usize = 24;

/// Shows the events of jobs.
pub struct Progress {
    shared: Arc<Shared>,
    listener: Mutex<Option<(oneshot::Sender<()>, tokio::task::JoinHandle<()>)>>,
}

struct Shared {
    screen: Screen,
    verbose: bool,
    /// This program, for commands that are shown.
    program: String,
    tracks: Mutex<HashMap<JobId, Track>>,
    documents: Mutex<Documents>,
    /// The line below the bars, and what the user can do, at its end.
    total: Mutex<(Option<ProgressBar>, &'static str)>,
}

/// The documents of a command, and the pages of those that have ended.
#[derive(Default)]
struct Documents {
    /// 0 for a single document.
    total: usize,
    ended: usize,
    pages: JobPages,
}

/// The state of one job; its events may arrive before its name.
#[derive(Default)]
struct Track {
    name: Option<String>,
    bar: Option<ProgressBar>,
    pages: u64,
    for_ai: u64,
    read: u64,
    fallbacks: u64,
    last: String,
    unprinted: Vec<String>,
    /// How far its pages are, and why some waited when that was last printed.
    counted: Option<JobPages>,
    printed_wait: Option<WaitReason>,
}

impl Progress {
    /// Receives every event of this process.
    pub fn subscribed(bus: &LocalBus, context: &Context) -> Self {
        let Self { shared, .. } = Self::new(context);
        let (end, ended) = oneshot::channel();
        let listener = tokio::spawn(listen(bus.subscribe(), ended, shared.clone()));
        Self { shared, listener: Mutex::new(Some((end, listener))) }
    }

    /// Shows only the events that are passed to [`record`](Self::record).
    pub fn new(context: &Context) -> Self {
        let shared = Arc::new(Shared {
            screen: context.screen.clone(),
            verbose: context.verbose,
            program: context.program.clone(),
            tracks: Mutex::default(),
            documents: Mutex::default(),
            total: Mutex::default(),
        });
        Self { shared, listener: Mutex::default() }
    }

    #[cfg_attr(not(feature = "aws"), expect(dead_code, reason = "for events that are polled from a stack"))]
    pub fn record(&self, event: &Event) {
        self.shared.record(event);
    }

    /// Shows the job under this name from now on.
    pub fn start(&self, job: &JobId, name: &str) {
        let screen = &self.shared.screen;
        let mut tracks = self.shared.tracks();
        let bars = tracks.values().filter(|track| track.bar.is_some()).count();
        let track = tracks.entry(job.clone()).or_default();
        track.name = Some(name.to_owned());
        if screen.has_bars() && track.bar.is_none() && bars < MAX_BARS {
            let bar = self.shared.above_total(ProgressBar::no_length());
            bar.set_style(style("{prefix} {spinner} {wide_msg}"));
            bar.set_prefix(prefix(name));
            bar.set_message("reading the PDF");
            bar.enable_steady_tick(Duration::from_millis(120));
            track.bar = Some(bar);
        }
        track.show();
        let unprinted = std::mem::take(&mut track.unprinted);
        drop(tracks);
        for line in unprinted {
            self.shared.print(name, &line);
        }
    }

    /// Sets what is known of the job before its first event.
    pub fn expect(&self, job: &JobId, pages: usize, for_ai: usize) {
        let mut tracks = self.shared.tracks();
        let track = tracks.entry(job.clone()).or_default();
        (track.pages, track.for_ai) = (pages as u64, for_ai as u64);
        track.show();
    }

    /// Announces several documents: each gets one line when it has ended instead of a line per step.
    pub fn expect_documents(&self, total: usize) {
        self.shared.documents().total = total;
    }

    /// Counts a document that has ended.
    pub fn document_ended(&self) {
        self.shared.documents().ended += 1;
    }

    /// Shows at the end of the line for all pages what the user can do.
    pub fn hint(&self, hint: &'static str) {
        self.shared.total().1 = hint;
    }

    /// Shows how far the pages of a job are.
    pub fn count(&self, job: &JobId, pages: JobPages, now: Timestamp) {
        let mut tracks = self.shared.tracks();
        let track = tracks.entry(job.clone()).or_default();
        let wait = pages.most_common_wait();
        let line = wait.filter(|(reason, _)| track.printed_wait != Some(*reason)).map(|(reason, next)| {
            let waiting = human::count(pages.waiting.len(), "page waits", "pages wait");
            format!("{waiting}: {}, next in {}", in_words(reason), human::between(now, next))
        });
        track.printed_wait = wait.map(|(reason, _)| reason);
        track.counted = Some(pages);
        let name = track.name.clone();
        let running = tracks.values().filter_map(|track| track.counted.as_ref());
        let all = JobPages::sum(running.chain([&self.shared.documents().pages]));
        drop(tracks);
        self.shared.show_total(&all, now);
        if let (Some(line), Some(name)) = (line, name) {
            self.shared.print(&name, &line);
        }
    }

    /// Removes an ended job; `pages` if its text was read.
    pub fn finish(&self, job: &JobId, pages: Option<usize>) {
        let Some(track) = self.shared.tracks().remove(job) else { return };
        let known = track.counted.map(|counted| counted.total);
        let total = pages.or(known).unwrap_or(0);
        let ended = JobPages { total, ..JobPages::default() }.all_done();
        let mut documents = self.shared.documents();
        documents.pages = JobPages::sum([&documents.pages, &ended]);
        if let Some(bar) = track.bar {
            bar.finish_and_clear();
        }
    }

    /// Shows the events published so far and removes the bars.
    pub async fn end(&self) {
        let listener = self.listener.lock().take();
        if let Some((end, listener)) = listener {
            let _ = end.send(());
            let _ = listener.await;
        }
        for track in self.shared.tracks().values_mut() {
            if let Some(bar) = track.bar.take() {
                bar.finish_and_clear();
            }
        }
        if let Some(total) = self.shared.total().0.take() {
            total.finish_and_clear();
        }
    }
}

/// The name as a bar shows it: bars are written to the terminal as they are.
fn prefix(name: &str) -> String {
    let name = safe_line(name);
    let short = console::truncate_str(&name, NAME_WIDTH, "…");
    console::pad_str(&short, NAME_WIDTH, console::Alignment::Left, None).into_owned()
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
        .tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ")
}

async fn listen(
    mut events: broadcast::Receiver<Event>,
    mut ended: oneshot::Receiver<()>,
    shared: Arc<Shared>,
) {
    loop {
        let received = tokio::select! {
            received = events.recv() => received,
            _ = &mut ended => break,
        };
        match received {
            Ok(event) => shared.record(&event),
            // A few lines are lost; the result is not affected.
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
    while let Ok(event) = events.try_recv() {
        shared.record(&event);
    }
}

impl Shared {
    fn tracks(&self) -> MutexGuard<'_, HashMap<JobId, Track>> {
        self.tracks.lock()
    }

    fn documents(&self) -> MutexGuard<'_, Documents> {
        self.documents.lock()
    }

    fn total(&self) -> MutexGuard<'_, (Option<ProgressBar>, &'static str)> {
        self.total.lock()
    }

    /// Adds the bar of a job above the line for all pages.
    fn above_total(&self, bar: ProgressBar) -> ProgressBar {
        match &self.total().0 {
            Some(total) => self.screen.bars.insert_before(total, bar),
            None => self.screen.bars.add(bar),
        }
    }

    fn show_total(&self, pages: &JobPages, now: Timestamp) {
        if !self.screen.has_bars() {
            return;
        }
        let (total, hint) = &mut *self.total();
        let total = total.get_or_insert_with(|| {
            let line = self.screen.bars.add(ProgressBar::no_length());
            line.set_style(style("{wide_msg:.dim}"));
            line
        });
        let hint = if hint.is_empty() { String::new() } else { format!("  ·  {hint}") };
        let documents = match &*self.documents() {
            Documents { total: 0, .. } => String::new(),
            Documents { total, ended, .. } => format!("{ended} of {total} documents, "),
        };
        total.set_message(safe_line(&format!("{documents}{}{hint}", pages.line(now))));
    }

    fn record(&self, event: &Event) {
        let (job, line) = match &event.aggregate {
            Aggregate::Page(job, page) => {
                let Ok(PageEvent::Settled(outcome)) = decode(event) else {
                    return;
                };
                let mut tracks = self.tracks();
                tracks.entry(job.clone()).or_default().settled(*page, &outcome);
                (job, Some(format!("page {page}  {}", outcome_line(&outcome))))
            }
            Aggregate::Job(job) => {
                let Ok(event) = decode::<JobEvent>(event) else {
                    return;
                };
                let line = self.tracks().entry(job.clone()).or_default().moved(job, &event, &self.program);
                (job, line)
            }
            Aggregate::Breaker(_)
            | Aggregate::DeadLetter(_)
            | Aggregate::Account(_)
            | Aggregate::Purchase(_)
            | Aggregate::Tenant(_)
            | Aggregate::Erasure(_) => return,
        };
        let mut tracks = self.tracks();
        let track = tracks.entry(job.clone()).or_default();
        track.show();
        match (line, track.name.clone()) {
            (None, _) => {}
            (Some(line), None) => track.unprinted.push(line),
            (Some(line), Some(name)) => {
                drop(tracks);
                self.print(&name, &line);
            }
        }
    }

    /// Prints a line, unless the bar shows the same on a terminal or there are many documents.
    fn print(&self, name: &str, line: &str) {
        let is_one = self.documents().total == 0;
        if (!self.screen.has_bars() && is_one) || self.verbose {
            self.screen.note(&format!("{name}: {line}"));
        }
    }
}

impl Track {
    fn moved(&mut self, job: &JobId, event: &JobEvent, program: &str) -> Option<String> {
        match event {
            JobEvent::Understood(survey) => {
                self.pages = survey.page_count().into();
                Some(understood_line(survey))
            }
            JobEvent::Proposed(plan) | JobEvent::Modified { plan, .. } => {
                self.for_ai = plan.ai_pages.into();
                planned_line(job, plan, program)
            }
            JobEvent::DeadlineReached {} => Some("deadline reached; publishing the result so far".into()),
            JobEvent::DeadlineMoved { by, .. } => Some(format!("deadline moved to now ({by})")),
            JobEvent::CancelRequested { .. } => Some("cancelling; publishing the result so far".into()),
            JobEvent::Redriven { .. } => {
                *self = Self { name: self.name.take(), bar: self.bar.take(), ..Self::default() };
                Some("starting again".into())
            }
            _ => None,
        }
    }

    fn settled(&mut self, page: PageNumber, outcome: &Settlement) {
        match outcome.is_ai() {
            true => self.read += 1,
            false => self.fallbacks += 1,
        }
        self.last = match &outcome.target {
            Some(target) => format!("page {page} {}", target.model),
            None => format!("page {page} fallback"),
        };
    }

    fn show(&self) {
        let Some(bar) = &self.bar else { return };
        if self.pages == 0 {
            return;
        }
        if bar.length().is_none() {
            bar.set_style(style("{prefix} {bar:20.cyan/dim} {pos:>4}/{len:4} {wide_msg:.dim}"));
            bar.set_length(self.pages);
        }
        // A healed page has settled twice.
        let waiting = self.for_ai.saturating_sub(self.read + self.fallbacks);
        bar.set_position(self.pages.saturating_sub(waiting));
        let mut facts = vec![format!("ai {}/{}", self.read, self.for_ai)];
        if self.fallbacks > 0 {
            facts.push(format!("fallback {}", self.fallbacks));
        }
        if !self.last.is_empty() {
            facts.push(self.last.clone());
        }
        bar.set_message(safe_line(&facts.join("  ")));
    }
}

fn understood_line(survey: &Survey) -> String {
    let pages = human::count(survey.page_count() as usize, "page", "pages");
    match survey.has_graphics {
        0 => format!("{pages}, all plain text"),
        graphics => format!("{pages}, {graphics} with graphics"),
    }
}

fn planned_line(job: &JobId, plan: &Plan, program: &str) -> Option<String> {
    if let Some(reason) = &plan.approval {
        return Some(format!(
            "needs approval ({reason}); run `{program} jobs approve {job}` or `jobs reject`"
        ));
    }
    // A missing key is reported once for all documents.
    (plan.ai_pages > 0).then(|| {
        let pages = human::count(plan.ai_pages as usize, "page", "pages");
        format!("{pages} for AI, {} first", plan.provider)
    })
}

/// The source of a page's text, and the model calls that failed before.
pub fn outcome_line(outcome: &Settlement) -> String {
    let failed: Vec<String> = outcome
        .calls
        .iter()
        .filter(|call| call.result != CallResult::Answered)
        .map(|call| format!("{} {}", call.target.model, call_result(call.result)))
        .collect();
    let took = human::between(outcome.started_at, outcome.settled_at);
    match (&outcome.target, failed.is_empty()) {
        (Some(target), true) => format!("ai {target}, {took}"),
        (Some(target), false) => format!("ai {target}, {took} (after: {})", failed.join(", ")),
        (None, _) => {
            let reason = outcome.fallback_reason.as_deref().unwrap_or("no model answered");
            format!("{}, {took}: {reason}", outcome.source)
        }
    }
}

/// The result of a model call in words.
pub fn call_result(result: CallResult) -> &'static str {
    match result {
        CallResult::Answered => "answered",
        CallResult::Timeout => "timed out",
        CallResult::Transient => "failed",
        CallResult::Exhausted => "rate limited",
        CallResult::Configuration => "misconfigured",
        CallResult::Request => "rejected the page",
        CallResult::Unknown => "failed with an unknown error",
        CallResult::Refusal => "refused",
        CallResult::Empty => "returned no text",
        CallResult::Truncated => "truncated its answer",
        CallResult::Repeating => "repeated itself",
        CallResult::Incomplete => "omitted text",
        CallResult::Invented => "invented text",
        CallResult::BreakerOpen => "in cooldown",
        CallResult::CutOff => "was cut off",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_no_order_to_the_terminal() {
        let named = prefix("a\u{1b}]0;t\u{7}\u{202e}fdp.exe");
        assert_eq!(named.trim_end(), "a\u{fffd}]0;t\u{fffd}fdp.exe");
        assert_eq!(prefix("one\nline\u{1b}[31mred").trim_end(), "one line\u{fffd}[31mred");
        let bar = ProgressBar::hidden();
        let track = Track {
            bar: Some(bar.clone()),
            pages: 1,
            last: "page 1 m\u{9b}2J\u{2066}x".to_owned(),
            ..Track::default()
        };
        track.show();
        assert_eq!(bar.message(), "ai 0/0  page 1 m\u{fffd}2Jx");
    }
}
