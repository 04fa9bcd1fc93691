//! `everypage serve`: API, console and workers in one process.

use std::{net::Ipv4Addr, sync::Arc};
use tokio_util::sync::CancellationToken;

use everypage_serve::Server;
use everypage_telemetry::prometheus::Prometheus;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::Serve,
    exit::Exit,
    human,
    problem::Problem,
    screen::Screen,
    settings::{Context, open_to_serve},
};

pub async fn run(context: &Context, args: Serve) -> Result<Exit, Problem> {
    super::only_local(context, "`serve` works on this machine; a stack on AWS has its own API")?;
    let mut settings = context.settings()?.clone();
    if let Some(workers) = args.workers {
        settings.worker_concurrency = Some(workers.get());
    }
    let address = args.listen.unwrap_or((Ipv4Addr::LOCALHOST, settings.port).into());
    // Before any work, so that all of it is counted.
    let prometheus = Prometheus::install().map_err(|error| Problem::Failed(error.to_string()))?;
    let backend =
        Arc::new(open_to_serve(&settings, context.data()?, context.traces.clone(), &context.screen).await?);
    let server = Server::bind(backend, address).await?.with_metrics(prometheus).with_grace(args.grace);
    if settings.has_web_password && server.open {
        return Err(Problem::Usage(
            "WEB_PASSWORD is set, but protects nothing: there is no API key, so every program on this machine has access; create one with `everypage keys create`, or unset WEB_PASSWORD".into(),
        ));
    }
    let screen = &context.screen;
    screen.print_line(&format!("http://{}", server.address()))?;
    if !settings.run_dispatcher {
        screen.note(
            "RUN_DISPATCHER is 0: jobs are accepted here and processed by another process on this folder",
        );
    }
    screen.note(match server.open {
        true => "there is no API key yet: only programs on this machine have access, and may do everything; `everypage keys create` changes that",
        false => "requests need an API key; `everypage keys create` creates one",
    });
    let stop = on_signals(screen, args.grace)?;
    server.run(&stop).await?;
    screen.note("stopped; unfinished jobs continue at the next start");
    Ok(Exit::Complete)
}

/// The first signal stops the server, the second one ends the process.
fn on_signals(screen: &Screen, grace: std::time::Duration) -> Result<CancellationToken, Problem> {
    let (stop, screen) = (CancellationToken::new(), screen.clone());
    let listen =
        |kind| signal(kind).map_err(|error| Problem::Failed(format!("signals can't be handled: {error}")));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let requested = stop.clone();
    tokio::spawn(async move {
        for first in [true, false] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if first {
                screen.note(&format!(
                    "stopping: pages in progress have {}; a second signal stops immediately",
                    human::duration(grace)
                ));
                requested.cancel();
            }
        }
        std::process::exit(i32::from(Exit::Cancelled.code()));
    });
    Ok(stop)
}
