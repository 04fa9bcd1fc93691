//! `everypage process`: files in, text out.

use std::path::{Path, PathBuf};

use everypage_core::{
    config::Settings,
    domain::{
        job::{Job, JobOptions, Status},
        result::{ResultDocument, ResultMetadata},
        secret::Secret,
    },
    store::tenants,
    usecases::{
        intake::{Submission, submit},
        result::{self, Form},
    },
};
use everypage_local::Engine;
use futures::future::join_all;
use serde::Serialize;

use super::password;
use crate::{
    args::Process,
    drive::{self, Stop},
    exit::Exit,
    find, human, output,
    problem::Problem,
    progress::Progress,
    screen::Screen,
    settings::Context,
    summary,
};

pub async fn run(context: &Context, args: Process) -> Result<Exit, Problem> {
    let (settings, screen) = (context.settings()?, &context.screen);
    if args.files.len() > 1 && args.output.is_none() && !args.json {
        return Err(Problem::Usage(
            "several files need a folder for their results: pass -o DIR (or --json to leave them with their jobs)".into(),
        ));
    }
    if let Some(folder) = &args.output {
        output::prepare(folder)?;
    }
    let password = match (&args.password, args.password_stdin) {
        (_, true) => Some(password::from_stdin()?),
        (given, false) => given.clone().map(Secret::new),
    };
    if settings.roster().engines.is_empty() {
        screen.note("no API key is set (OPENAI_API_KEY, ANTHROPIC_API_KEY): every page gets the text that MuPDF reads");
    }
    let engine = super::open(context).await?;
    let of_tenant = tenants::settings(&engine.app, &find::tenant(&engine.app)).await?;
    let stop = Stop::on_ctrl_c(screen);
    let progress = Progress::follow(&engine.bus, screen, context.verbose);
    let run = Run {
        engine: &engine,
        screen,
        progress: &progress,
        stop: &stop,
        options: options(&of_tenant, &args),
        password,
        form: args.format,
        again: args.again,
    };
    let names = output::names(&args.files, args.format);
    let work = async {
        let documents = args.files.iter().zip(&names).map(|(file, name)| {
            let place = args.output.as_ref().map(|folder| folder.join(name));
            run.document(file, place)
        });
        Ok(join_all(documents).await)
    };
    let documents = drive::beside(&engine, screen, &progress, &stop, work).await?;
    report(screen, &documents);
    if args.json {
        let exit_code = exit(&documents).code();
        let documents: Vec<_> = documents.iter().map(|document| document.told(args.format)).collect();
        screen.print_json(&Report { documents, exit_code })?;
    } else if args.output.is_none()
        && let Some(bytes) = documents.first().and_then(|document| document.bytes.as_ref())
    {
        screen.print(bytes)?;
    }
    Ok(exit(&documents))
}

fn options(settings: &Settings, args: &Process) -> JobOptions {
    let default = settings.default_options();
    JobOptions {
        pages: args.pages.clone().unwrap_or(default.pages),
        ai_pages: args.ai_pages.unwrap_or(default.ai_pages),
        tier: args.tier.unwrap_or(default.tier),
        engine: args.engine.unwrap_or(default.engine),
        job_timeout_ms: args.deadline.map_or(default.job_timeout_ms, |time| time.as_millis() as u64),
        priority: args.priority.unwrap_or(default.priority),
        ..default
    }
}

fn exit(documents: &[Document]) -> Exit {
    documents.iter().map(|document| document.exit).max().unwrap_or(Exit::Complete)
}

/// What all documents of one command share.
struct Run<'a> {
    engine: &'a Engine,
    screen: &'a Screen,
    progress: &'a Progress,
    stop: &'a Stop,
    options: JobOptions,
    password: Option<Secret>,
    form: Form,
    again: bool,
}

/// What became of one file.
struct Document {
    file: PathBuf,
    exit: Exit,
    /// Why there is no result, or none where it should be.
    error: Option<String>,
    repeated: bool,
    job: Option<Job>,
    result: Option<ResultDocument>,
    /// The result in the form asked for.
    bytes: Option<Vec<u8>>,
    written: Option<PathBuf>,
}

impl Run<'_> {
    /// One file to its end; what goes wrong with it stays with it.
    async fn document(&self, file: &Path, place: Option<PathBuf>) -> Document {
        let mut document = Document {
            file: file.to_owned(),
            exit: Exit::Failed,
            error: None,
            repeated: false,
            job: None,
            result: None,
            bytes: None,
            written: None,
        };
        if let Err(problem) = self.process(&mut document, place).await {
            document.error = Some(problem.to_string());
            document.exit = document.exit.max(Exit::Failed);
        }
        document
    }

    async fn process(&self, document: &mut Document, place: Option<PathBuf>) -> Result<(), Problem> {
        let app = &self.engine.app;
        let name = document.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if self.stop.is_requested() {
            document.exit = Exit::Cancelled;
            return Err(Problem::Failed("cancelled before it was begun".into()));
        }
        let submission = Submission {
            tenant: find::tenant(app),
            user: None,
            source: "cli".into(),
            name: name.clone(),
            file: document.file.clone(),
            password: self.password.clone(),
            options: self.options.clone(),
            idempotency_key: self.again.then(|| app.ids.fresh()),
        };
        let submitted = submit(app, submission).await.map_err(|error| {
            // The name is said already.
            let text = error.to_string();
            Problem::Failed(text.strip_prefix(&format!("{name}: ")).unwrap_or(&text).to_owned())
        })?;
        document.repeated = submitted.existed;
        let id = submitted.job.id.clone();
        if submitted.existed {
            let when = human::ago(submitted.job.received_at, app.clock.now());
            self.screen.note(&format!(
                "{name}: the same request as job {id} ({}, {when}); --again starts anew",
                submitted.job.status()
            ));
        }
        if !submitted.job.state.is_terminal() {
            self.progress.begin(&id, &name);
        }
        document.job = Some(submitted.job);
        let job = drive::finish(self.engine, &id, self.stop).await?;
        self.progress.forget(&id);
        document.exit = Exit::of(&job);
        document.bytes = result::read(app, &job, self.form, None).await?;
        document.result = result::read_document(app, &job, None).await?;
        let error = ending(&job);
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
}

/// What is to be said of a job that did not end with a result.
fn ending(job: &Job) -> Option<(Exit, String)> {
    let failure = job.failure.as_ref();
    let reason = || failure.map_or("no reason was kept", |failure| failure.reason.as_str());
    match job.status() {
        Status::Success => None,
        Status::Cancelled => {
            job.result.is_none().then(|| (Exit::Cancelled, "cancelled before its pages were read".to_owned()))
        }
        Status::Rejected => Some((Exit::Failed, format!("rejected: {}", reason()))),
        Status::Failed => {
            let advice = failure.and_then(|failure| advice(&failure.code)).unwrap_or_default();
            Some((Exit::Failed, format!("{}{advice} (job {})", reason(), job.id)))
        }
        _ => Some((Exit::Cancelled, format!("left to the process that works on it (job {})", job.id))),
    }
}

fn advice(code: &str) -> Option<&'static str> {
    match code {
        "password_needed" | "password_wrong" => Some("; pass the right one with --password-stdin"),
        "not_a_pdf" => Some("; only PDFs can be read"),
        "empty_file" => Some("; copy or download it again"),
        "corrupt_pdf" | "no_pages" => Some("; get it again, or open it in a PDF reader and save it anew"),
        "too_many_pages" => Some("; split it or raise the limit"),
        "no_such_pages" => Some("; choose others with --pages"),
        _ => None,
    }
}

/// Everything but the text itself, on standard error.
fn report(screen: &Screen, documents: &[Document]) {
    for document in documents {
        let file = document.file.display();
        if let Some(job) = document.job.as_ref().filter(|job| job.result.is_some()) {
            screen.note(&format!("{file}: {}", summary::headline(job)));
            for line in document.result.iter().flat_map(summary::origin_lines) {
                screen.note(&line);
            }
            let written = document.written.as_ref();
            let place = written.map(|path| format!(", written to {}", path.display()));
            screen.note(&format!("  job {}{}", job.id, place.unwrap_or_default()));
        }
        if let Some(error) = &document.error {
            match document.exit {
                Exit::Cancelled => screen.note(&format!("{file}: {error}")),
                _ => screen.error(&format!("{file}: {error}")),
            }
        }
    }
}

/// The summary for programs.
#[derive(Serialize)]
struct Report<'a> {
    documents: Vec<Told<'a>>,
    exit_code: u8,
}

#[derive(Serialize)]
struct Told<'a> {
    file: String,
    status: String,
    exit_code: u8,
    repeated: bool,
    job: Option<&'a str>,
    error: Option<Error<'a>>,
    result: Option<Kept>,
    pages: Vec<summary::Origin>,
    metadata: Option<&'a ResultMetadata>,
}

#[derive(Serialize)]
struct Error<'a> {
    code: &'a str,
    reason: &'a str,
}

/// Where the result is.
#[derive(Serialize)]
struct Kept {
    version: u32,
    /// Set when it was written to a folder.
    file: Option<String>,
    /// Prints it, now and later.
    command: String,
}

impl Document {
    fn told(&self, form: Form) -> Told<'_> {
        let job = self.job.as_ref();
        let result = job.and_then(|job| job.result.as_ref());
        let code = job.and_then(|job| job.failure.as_ref()).map(|failure| failure.code.as_str());
        let unread = if self.exit == Exit::Cancelled { "cancelled" } else { "failed" };
        Told {
            file: self.file.display().to_string(),
            status: job.map_or_else(|| unread.to_owned(), |job| job.status().to_string()),
            exit_code: self.exit.code(),
            repeated: self.repeated,
            job: job.map(|job| job.id.as_str()),
            error: self.error.as_deref().map(|reason| Error {
                code: code.unwrap_or(if self.exit == Exit::Cancelled {
                    "cancelled"
                } else {
                    "not_processed"
                }),
                reason,
            }),
            result: job.zip(result).map(|(job, result)| Kept {
                version: result.version,
                file: self.written.as_ref().map(|path| path.display().to_string()),
                command: format!("everypage jobs result {} --format {}", job.id, form_name(form)),
            }),
            pages: self.result.iter().flat_map(summary::origins).collect(),
            metadata: result.map(|result| &result.metadata),
        }
    }
}

fn form_name(form: Form) -> &'static str {
    match form {
        Form::Text => "text",
        Form::Markdown => "markdown",
        Form::Json => "json",
    }
}
