//! The work of one process of a run.

use std::{sync::Arc, time::Duration};

use everypage_core::{
    app::App,
    events::nodes,
    ids::JobId,
    job::jobs,
    notify::{deliver, relay},
    providers::target::Tier,
    read::{
        dispatch::{Disposition, dispatch_until},
        pages,
    },
    recover::sweep::sweep,
    sagas,
    time::after,
};
use everypage_local::{Driver, LocalFlow};
use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use tokio::{sync::mpsc, task::JoinSet};

use crate::installation::{Installation, ORPHAN_SCAN_INTERVAL, Request};

/// Workers of a process like those of Lambda, and the messages that each takes at a time.
const INVOCATIONS: usize = 3;
const BATCH_SIZE: usize = 3;
const RECEIVE_INTERVAL: Duration = Duration::from_millis(250);
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// One process: workers, relay, webhooks, sweep, requests, and the jobs that it drives.
pub async fn run_process(
    installation: Arc<Installation>,
    process: usize,
    app: Arc<App>,
    driver: Arc<Driver>,
    flow: Arc<LocalFlow>,
    requests: mpsc::UnboundedReceiver<Request>,
) {
    tokio::join!(
        async {
            match installation.plan.invocation {
                Some(time) => drop(join_all((0..INVOCATIONS).map(|_| invoke_workers(&app, time))).await),
                None => driver.work().await,
            }
        },
        relay::run(&app.publisher),
        deliver::run(&app.publisher),
        async {
            // Without credits there is nothing to buy, and this would only shift the call numbers.
            if installation.plan.credits.is_some() {
                sagas::run::run(&app.billing).await;
            }
        },
        run_housekeeping(&app),
        serve_requests(&app, requests),
        drive_jobs(&installation, process, &app, &driver, &flow),
    );
}

/// Receives and processes messages as on AWS: a few at a time, by workers that have to leave after `time`.
async fn invoke_workers(app: &App, time: Duration) {
    let (clock, queue) = (&app.store.clock, &app.queue);
    loop {
        let received = queue.receive(BATCH_SIZE, app.settings.page_visibility).await.unwrap_or_default();
        if received.is_empty() {
            clock.sleep(RECEIVE_INTERVAL).await;
            continue;
        }
        let leave_by = after(clock.now(), time);
        // A message that is neither deleted nor put back is delivered again.
        join_all(received.iter().map(|delivery| async move {
            match dispatch_until(&app.reader, delivery, leave_by).await {
                Disposition::Done => drop(queue.delete(&delivery.receipt).await),
                Disposition::Later(pause) => drop(queue.put_back(&delivery.receipt, pause).await),
            }
        }))
        .await;
    }
}

/// The work that a schedule starts every minute on AWS.
async fn run_housekeeping(app: &App) {
    loop {
        // One missed heartbeat only delays the next.
        let _ = nodes::record_heartbeat(&app.store).await;
        app.store.clock.sleep(SWEEP_INTERVAL).await;
        sweep(&app.recovery).await;
    }
}

async fn serve_requests(app: &Arc<App>, mut requests: mpsc::UnboundedReceiver<Request>) {
    let mut serving = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(request) = requests.recv() => serving.push(request(app.clone())),
            Some(()) = serving.next() => {}
        }
    }
}

/// Drives the jobs that are started here, and those without a driver.
async fn drive_jobs(
    installation: &Arc<Installation>,
    process: usize,
    app: &Arc<App>,
    driver: &Arc<Driver>,
    flow: &Arc<LocalFlow>,
) {
    let mut driven = JoinSet::new();
    let mut drive = |job: JobId| {
        let mine = *installation.state().drivers.entry(job.clone()).or_insert(process) == process;
        if mine {
            let (installation, driver) = (installation.clone(), driver.clone());
            driven.spawn(async move {
                driver.drive(&job).await;
                installation.state().drivers.remove(&job);
            });
        } else {
            flow.unwatch(&job);
        }
    };
    let mut scan = app.store.clock.sleep(Duration::ZERO);
    loop {
        tokio::select! {
            biased;
            job = flow.next_started() => drive(job),
            () = &mut scan => {
                let open = jobs::open(&app.store).await.unwrap_or_default();
                for job in open {
                    if !installation.state().drivers.contains_key(&job.id) {
                        release_leases_of_killed(installation, app, &job.id).await;
                        // Counts as started here, unless it was started a moment ago.
                        flow.enqueue(&job.id);
                    }
                }
                scan = app.store.clock.sleep(ORPHAN_SCAN_INTERVAL);
            }
        }
    }
}

/// On one machine killed processes are known, so their leases need not expire.
async fn release_leases_of_killed(installation: &Installation, app: &App, job: &JobId) {
    if !installation.plan.one_machine {
        return;
    }
    let killed = installation.state().killed_nodes.clone();
    for node in killed {
        // Leases that can't be released now expire by themselves.
        let _ = pages::free_all_of(&app.store, job, &node).await;
        for target in app.settings.failover_order().steps(Tier::Primary) {
            let _ = app.reader.slots.free_all_of(&target, &node).await;
        }
        let _ = relay::relay(&app.publisher, &node).await;
    }
}
