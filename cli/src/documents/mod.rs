//! Turns files into text: what `process` and `submit` share.

mod document;
mod report;
mod running;

use std::path::{Path, PathBuf};

use everypage_core::{
    finish::results,
    intake::{options::OptionOverrides, submit::Submission},
    job::JobOptions,
    secret::Secret,
    tenants,
};
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use self::{
    document::{Document, failure},
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
    screen::Screen,
    settings::Context,
};

/// When a command exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitUntil {
    Done,
    Accepted,
}

/// Checks what can't work before anything is opened, and reads the password.
pub fn prepare(args: &Documents, wait: WaitUntil) -> Result<Option<Secret>, Problem> {
    if args.files.len() > 1 && args.output.is_none() && !args.json && wait == WaitUntil::Done {
        return Err(Problem::Usage(
            "several files need a folder for their results: pass -o DIR (or --json to leave the results with their jobs)".into(),
        ));
    }
    if let Some(folder) = &args.output {
        output::prepare(folder)?;
    }
    match (&args.password, args.password_stdin) {
        (_, true) => password::from_stdin().map(Some),
        (given, false) => Ok(given.clone().map(Secret::new)),
    }
}

pub async fn run(
    context: &Context,
    backend: &Backend,
    args: &Documents,
    password: Option<Secret>,
    wait: WaitUntil,
) -> Result<Exit, Problem> {
    let screen = &context.screen;
    let cancel = ctrl_c::cancellation(screen, backend.later());
    let progress = backend.progress(context);
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
        wait,
    };
    // Where the hint can be seen, and there is a result to wait for.
    let presses = match screen.has_bars() && wait == WaitUntil::Done {
        true => enter_key::presses(),
        false => None,
    };
    if presses.is_some() {
        progress.hint("Enter publishes the result now");
    }
    let names = output::names(&args.files, args.format);
    let work = async {
        let documents = args.files.iter().zip(&names).map(|(file, name)| {
            let place = args.output.as_ref().map(|folder| folder.join(name));
            run.document(file, place)
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
            documents = join_all(documents) => Ok(documents),
            () = watch => Err(Problem::Failed("the watch over the documents ended before them".into())),
        }
    };
    let documents = backend.run_with(screen, &progress, &cancel, work).await?;
    report::print(screen, &documents, wait);
    if args.json {
        screen.print_json(&report::summary(&documents, args.format, &context.program))?;
    } else if wait == WaitUntil::Accepted {
        for job in documents.iter().filter_map(|document| document.job.as_ref()) {
            screen.print_line(job.id.as_str())?;
        }
    } else if args.output.is_none()
        && let Some(bytes) = documents.first().and_then(|document| document.bytes.as_ref())
    {
        screen.print(bytes)?;
    }
    Ok(report::exit(&documents))
}

/// What the documents of one command share.
struct Run<'a> {
    backend: &'a Backend,
    screen: &'a Screen,
    progress: &'a Progress,
    cancel: &'a CancellationToken,
    running: &'a Running,
    overrides: OptionOverrides,
    password: Option<Secret>,
    args: &'a Documents,
    wait: WaitUntil,
}

impl Run<'_> {
    /// Processes one file to its end; an error concerns this file alone.
    async fn document(&self, file: &Path, place: Option<PathBuf>) -> Document {
        let mut document = Document::new(file);
        if let Err(problem) = self.process(&mut document, place).await {
            let exit = match &problem {
                Problem::Cancelled(_) => Exit::Cancelled,
                Problem::Usage(_) | Problem::Failed(_) => Exit::Failed,
            };
            document.exit = document.exit.max(exit);
            document.error = Some(problem.to_string());
        }
        document
    }

    async fn process(&self, document: &mut Document, place: Option<PathBuf>) -> Result<(), Problem> {
        let app = self.backend.app();
        if self.cancel.is_cancelled() {
            return Err(Problem::Cancelled("cancelled before it was started".into()));
        }
        let name = document.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let submitted = self.backend.accept(self.request(&document.file, &name).await?, self.cancel).await?;
        document.repeated = submitted.existed;
        let id = submitted.job.id.clone();
        if submitted.existed {
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
        self.progress.finish(&id);
        document.exit = Exit::of(&job);
        document.bytes = results::read(app.blobs.as_ref(), &job, self.args.format, None).await?;
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

    async fn request(&self, file: &Path, name: &str) -> Result<Request, Problem> {
        let app = self.backend.app();
        let tenant = find::tenant(app);
        let settings = tenants::settings(&app.tenants, &tenant).await?;
        let submission = Submission {
            tenant,
            user: None,
            source: "cli".into(),
            name: name.to_owned(),
            file: file.to_owned(),
            password: self.password.clone(),
            options: self.overrides.apply_to(JobOptions::from_settings(&settings)),
            traceparent: None,
            idempotency_key: self.overrides.force.then(|| app.store.ids.fresh()),
        };
        Ok(Request { submission, overrides: self.overrides.clone() })
    }
}
