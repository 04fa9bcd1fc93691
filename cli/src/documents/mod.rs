//! Files in, text out: what `process` and `submit` share.

mod document;
mod report;

use std::path::{Path, PathBuf};

use everypage_core::{
    domain::secret::Secret,
    store::tenants,
    usecases::{intake::Submission, result, wishes::Wishes},
};
use futures::future::join_all;

use self::document::{Document, ending};
use crate::{
    args::Documents,
    commands::password,
    engine::{Engine, Request},
    exit::Exit,
    find, human, output,
    problem::Problem,
    progress::Progress,
    screen::Screen,
    settings::Context,
    stop::Stop,
};

/// How long a command stays with its documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    UntilDone,
    UntilAccepted,
}

/// Before anything is opened: what can't work, and the password.
pub fn prepare(args: &Documents, stay: Stay) -> Result<Option<Secret>, Problem> {
    if args.files.len() > 1 && args.output.is_none() && !args.json && stay == Stay::UntilDone {
        return Err(Problem::Usage(
            "several files need a folder for their results: pass -o DIR (or --json to leave them with their jobs)".into(),
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
    engine: &Engine,
    args: &Documents,
    password: Option<Secret>,
    stay: Stay,
) -> Result<Exit, Problem> {
    let screen = &context.screen;
    let stop = Stop::on_ctrl_c(screen, engine.later());
    let progress = engine.progress(context);
    let run =
        Run { engine, screen, progress: &progress, stop: &stop, wishes: args.wishes(), password, args, stay };
    let names = output::names(&args.files, args.format);
    let work = async {
        let documents = args.files.iter().zip(&names).map(|(file, name)| {
            let place = args.output.as_ref().map(|folder| folder.join(name));
            run.document(file, place)
        });
        Ok(join_all(documents).await)
    };
    let documents = engine.beside(screen, &progress, &stop, work).await?;
    report::tell(screen, &documents, stay);
    if args.json {
        screen.print_json(&report::for_programs(&documents, args.format, &context.program))?;
    } else if stay == Stay::UntilAccepted {
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

/// What all documents of one command share.
struct Run<'a> {
    engine: &'a Engine,
    screen: &'a Screen,
    progress: &'a Progress,
    stop: &'a Stop,
    wishes: Wishes,
    password: Option<Secret>,
    args: &'a Documents,
    stay: Stay,
}

impl Run<'_> {
    /// One file to its end; what goes wrong with it stays with it.
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
        let app = self.engine.app();
        if self.stop.is_requested() {
            return Err(Problem::Cancelled("cancelled before it was begun".into()));
        }
        let name = document.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let submitted = self.engine.accept(self.request(&document.file, &name).await?, self.stop).await?;
        document.repeated = submitted.existed;
        let id = submitted.job.id.clone();
        if submitted.existed {
            let when = human::ago(submitted.job.received_at, app.clock.now());
            self.screen.note(&format!(
                "{name}: the same request as job {id} ({}, {when}); --again starts anew",
                submitted.job.status()
            ));
        }
        if self.stay == Stay::UntilAccepted {
            document.exit = Exit::Complete;
            document.job = Some(submitted.job);
            return Ok(());
        }
        if !submitted.job.state.is_terminal() {
            self.progress.begin(&id, &name);
        }
        document.job = Some(submitted.job);
        let job = self.engine.finish(&id, !document.repeated, self.progress, self.stop).await?;
        self.progress.forget(&id);
        document.exit = Exit::of(&job);
        document.bytes = result::read(app, &job, self.args.format, None).await?;
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

    async fn request(&self, file: &Path, name: &str) -> Result<Request, Problem> {
        let app = self.engine.app();
        let tenant = find::tenant(app);
        let settings = tenants::settings(app, &tenant).await?;
        let submission = Submission {
            tenant,
            user: None,
            source: "cli".into(),
            name: name.to_owned(),
            file: file.to_owned(),
            password: self.password.clone(),
            options: self.wishes.over(settings.default_options()),
            traceparent: None,
            idempotency_key: self.wishes.again.then(|| app.ids.fresh()),
        };
        Ok(Request { submission, wishes: self.wishes.clone() })
    }
}
