//! `everypage serve`: API, console and workers in one process.

use std::{net::Ipv4Addr, sync::Arc};

use everypage_core::app::Stop;
use everypage_serve::Server;
use everypage_telemetry::prometheus::Prometheus;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::Serve,
    exit::Exit,
    human,
    problem::Problem,
    screen::Screen,
    settings::{Context, open_engine},
};

pub async fn run(context: &Context, args: Serve) -> Result<Exit, Problem> {
    super::only_local(context, "`serve` is for this machine; a stack on AWS has its own API")?;
    let mut settings = context.settings()?.clone();
    if let Some(workers) = args.workers {
        settings.worker_concurrency = workers.get();
    }
    let address = args.listen.unwrap_or((Ipv4Addr::LOCALHOST, settings.port).into());
    // Before any work, so that all of it counts.
    let prometheus = Prometheus::install().map_err(|error| Problem::Failed(error.to_string()))?;
    let backend = Arc::new(open_engine(&settings, context.data()?, context.traces.clone()).await?);
    let server = Server::bind(engine, address).await?.with_metrics(prometheus).with_grace(args.grace);
    let screen = &context.screen;
    screen.print_line(&format!("http://{}", server.address()))?;
    screen.note(match server.open {
        true => "no API key was ever made: only this machine gets in, and may do everything; `everypage keys create` changes that",
        false => "requests need an API key; `everypage keys create` makes one",
    });
    let stop = on_signals(screen, args.grace)?;
    server.run(&cancel).await?;
    screen.note("stopped; what is not done goes on at the next start");
    Ok(Exit::Complete)
}

/// The first signal asks for an end, the second is one.
fn on_signals(screen: &Screen, grace: std::time::Duration) -> Result<Stop, Problem> {
    let (stop, screen) = (Stop::default(), screen.clone());
    let listen =
        |kind| signal(kind).map_err(|error| Problem::Failed(format!("signals can't be heard: {error}")));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let asked = stop.clone();
    tokio::spawn(async move {
        for first in [true, false] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if first {
                screen.note(&format!(
                    "stopping: pages in hand have {}; a second signal ends it at once",
                    human::duration(grace)
                ));
                asked.ask();
            }
        }
        std::process::exit(i32::from(Exit::Cancelled.code()));
    });
    Ok(stop)
}
