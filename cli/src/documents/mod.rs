//! Turns files into text: what `process` and `submit` share.

mod document;
mod inputs;
mod report;
mod running;
mod totals;

use std::path::{Path, PathBuf};

use everypage_core::{
    finish::{produce, results},
    intake::{options::OptionOverrides, submit::Submission},
    job::{JobOptions, RequestSource},
    secret::Secret,
    tenants,
};
use futures::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use self::{
    document::{Document, failure},
    inputs::Input,
    report::Report,
    running::Running,
};
use crate::{
    args::Documents,
    backend::{Backend, Request},
    commands::password,
    ctrl_c, enter_key,
    exit::Exit,
    find, human, output,
    problem::Problem,
    progress::Progress,
    s3_address::S3Address,
    screen::Screen,
    settings::Context,
};

/// When a command exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitUntil {
    Done,
    Accepted,
}

/// The documents of a command, checked before anything is opened.
pub struct Work {
    inputs: Vec<Input>,
    /// Where each result is written; empty without an output folder.
    places: Vec<PathBuf>,
    password: Option<Secret>,
}

impl Work {
    /// The documents that are files of this machine, and the password that they may have.
    pub fn files(&self) -> (impl Iterator<Item = &Path>, Option<&Secret>) {
        let files =
            self.inputs.iter().filter(|input| !S3Address::is_meant(&input.file) && input.fault.is_none());
        (files.map(|input| input.file.as_path()), self.password.as_ref())
    }
}

/// Finds the documents, checks what can't work, and reads the password.
pub fn prepare(args: &Documents, wait: WaitUntil, max_bytes: u64) -> Result<Work, Problem> {
    if args.password_stdin && args.files.iter().any(|file| file.as_os_str() == inputs::STDIN) {
        return Err(Problem::Usage(
            "standard input can't be both the document (-) and the password (--password-stdin)".into(),
        ));
    }
    output::check_tables(args.format, args.tables)?;
    let inputs = inputs::find(&args.files, args.output.as_deref(), max_bytes)?;
    if inputs.len() > 1 && args.output.is_none() && !args.json && wait == WaitUntil::Done {
        return Err(Problem::Usage(
            "several documents need a folder for their results: pass -o DIR (or --json to leave the results with their jobs)".into(),
        ));
    }
    if args.output.is_none() && !args.json && wait == WaitUntil::Done {
        output::check_terminal(args.format)?;
    }
    let mut places = Vec::new();
    if let Some(folder) = &args.output {
        let stems = inputs.iter().map(|input| folder.join(&input.stem));
        places = output::places(stems, args.format);
        output::check_overwrites(inputs.iter().map(|input| input.file.as_path()), &places)?;
        output::prepare(folder)?;
    }
    let password = match (&args.password, args.password_stdin) {
        (_, true) => Some(password::from_stdin()?),
        (given, false) => given.clone().map(Secret::new),
    };
    Ok(Work { inputs, places, password })
}

pub async fn run(
    context: &Context,
    backend: &Backend,
    args: &Documents,
    work: Work,
    wait: WaitUntil,
) -> Result<Exit, Problem> {
    let screen = &context.screen;
    let Work { inputs, places, password } = work;
    let several = inputs.len() > 1;
    let cancel = ctrl_c::cancellation(screen, backend.later());
    let progress = backend.progress(context);
    if several {
        progress.expect_documents(inputs.len());
    }
    let running = Running::default();
    let run = Run {
        backend,
        screen,
        progress: &progress,
        cancel: &cancel,
        running: &running,
        overrides: args.overrides(),
        password,
        args,
        several,
        wait,
    };
    // Where the hint can be seen, and there is a result to wait for.
    let presses = match screen.has_bars() && wait == WaitUntil::Done {
        true => enter_key::presses(),
        false => None,
    };
    if presses.is_some() {
        let hint = if several { "Enter publishes these now" } else { "Enter publishes the result now" };
        progress.hint(hint);
    }
    let started_at = backend.app().store.clock.now();
    let mut report = Report::new(screen, args, &context.program, several, wait);
    let work = async {
        let mut places = places.into_iter();
        // As many at a time as asked for: open files and memory do not grow with the number of documents.
        let documents = stream::iter(inputs.into_iter().enumerate())
            .map(|(index, input)| run.document(index, input, places.next()))
            .buffer_unordered(args.jobs.get())
            .for_each(|document| {
                progress.document_ended();
                report.add(document);
                std::future::ready(())
            });
        let watch = async {
            match presses {
                Some(presses) => {
                    let take = running.publish_when_asked(backend, screen, presses);
                    tokio::join!(running.watch(backend, &progress), take);
                }
                None => running.watch(backend, &progress).await,
            }
        };
        tokio::select! {
            biased;
            () = documents => Ok(()),
            () = watch => Err(Problem::Failed("the watch over the documents ended before them".into())),
        }
    };
    backend.run_with(screen, &progress, &cancel, work).await?;
    report.end(human::between(started_at, backend.app().store.clock.now()))
}

/// State that the documents of one command share.
struct Run<'a> {
    backend: &'a Backend,
    screen: &'a Screen,
    progress: &'a Progress,
    cancel: &'a CancellationToken,
    running: &'a Running,
    overrides: OptionOverrides,
    password: Option<Secret>,
    args: &'a Documents,
    several: bool,
    wait: WaitUntil,
}

impl Run<'_> {
    /// Processes one document to its end; an error concerns this document alone.
    async fn document(&self, index: usize, input: Input, place: Option<PathBuf>) -> Document {
        let mut document = Document::new(index, &input.shown);
        if let Err(problem) = self.process(&mut document, input, place).await {
            let exit = match &problem {
                Problem::Cancelled(_) => Exit::Cancelled,
                Problem::Usage(_) | Problem::Failed(_) => Exit::Failed,
            };
            document.exit = document.exit.max(exit);
            document.error = Some(problem.to_string());
        }
        document
    }

    async fn process(
        &self,
        document: &mut Document,
        input: Input,
        place: Option<PathBuf>,
    ) -> Result<(), Problem> {
        let app = self.backend.app();
        if self.cancel.is_cancelled() {
            document.not_started = true;
            return Err(Problem::Cancelled("cancelled before it was started".into()));
        }
        if let Some(fault) = input.fault {
            return Err(Problem::Failed(fault));
        }
        let submitted = self.backend.accept(self.request(&input).await?, self.cancel).await?;
        document.repeated = submitted.existed;
        let (id, name) = (submitted.job.id.clone(), input.name.clone());
        // Of several documents each has one line, which says so too.
        if submitted.existed && !self.several {
            let when = human::ago(submitted.job.received_at, app.store.clock.now());
            self.screen.note(&format!(
                "{name}: same request as job {id} ({}, {when}); --force starts a new job",
                submitted.job.status()
            ));
        }
        if self.wait == WaitUntil::Accepted {
            document.exit = Exit::Complete;
            document.job = Some(submitted.job);
            return Ok(());
        }
        if !submitted.job.state.is_terminal() {
            self.progress.start(&id, &name);
            self.running.add(&id, &name, !document.repeated);
        }
        document.job = Some(submitted.job);
        let finished = self.backend.finish(&id, !document.repeated, self.progress, self.cancel).await;
        self.running.remove(&id);
        let job = finished?;
        self.progress.finish(&id, job.survey.as_ref().map(|survey| survey.page_count() as usize));
        document.exit = Exit::of(&job);
        document.bytes = produce::read(&app.preparer, &job, self.args.format, self.args.tables, None).await?;
        document.result = results::read_document(app.blobs.as_ref(), &job, None).await?;
        let error = failure(&job);
        document.job = Some(job);
        if let (Some(place), Some(bytes)) = (place, &document.bytes) {
            output::write(&place, bytes)?;
            document.written = Some(place);
        }
        if let Some((exit, error)) = error {
            document.exit = exit;
            document.error = Some(error);
        }
        Ok(())
    }

    async fn request(&self, input: &Input) -> Result<Request, Problem> {
        let app = self.backend.app();
        let tenant = find::tenant(&app.settings);
        let settings = tenants::settings(&app.tenants, &tenant).await?;
        let submission = Submission {
            tenant,
            user: None,
            source: RequestSource::Cli,
            name: input.name.clone(),
            file: input.file.clone(),
            password: self.password.clone(),
            options: self.overrides.apply_to(JobOptions::from_settings(&settings)),
            traceparent: None,
            idempotency_key: self.overrides.force.then(|| app.store.ids.fresh()),
        };
        Ok(Request { submission, overrides: self.overrides.clone() })
    }
}
