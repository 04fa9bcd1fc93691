//! Processes that run the real use cases and the real driver over storage that they share.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use everypage_core::{
    app::{App, Ports},
    config::Settings,
    domain::{
        ids::{JobId, TaskToken},
        job,
        target::Tier,
        trace::TraceContext,
    },
    ports::{
        Fault,
        blobs::Blobs,
        bus::Bus,
        clock::Clock,
        flow::{Flow, Settlement},
        hooks::Hooks,
        ids::Ids,
        notifier::Notifier,
        payments::Payments,
        pdf::Pdf,
        queue::Queue,
        records::Records,
        traces::NoTraces,
        vault::Vault,
    },
    store::{jobs, nodes, pages, slots},
    usecases::{purchase, relay, sweep::sweep, webhooks},
};
use everypage_local::{Driver, LocalFlow};
use everypage_testkit::{
    clock::VirtualClock,
    faulty::Faulty,
    memory::{
        MemoryBlobs, MemoryPayments, MemoryQueue, MemoryRecords, PlainVault, RecordingHooks,
        RecordingNotifier,
    },
};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use jiff::Timestamp;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{
    sync::{mpsc, oneshot},
    task::{AbortHandle, JoinSet},
};

use crate::{
    models::Models,
    mutants::{Mutant, Sabotaged},
    plan::Plan,
    post::Post,
    reader::Readers,
    trouble::REPAIR,
    weather::Weather,
    witness::{Watched, Witness},
};

/// How often a process looks for jobs that nobody drives.
pub const LOOK_FOR_ORPHANS: Duration = Duration::from_secs(15);
/// A number of calls that no plan speaks of.
const FAR_AHEAD: u64 = 1 << 32;
const SWEEP: Duration = Duration::from_secs(60);

type Request = Box<dyn FnOnce(Arc<App>) -> BoxFuture<'static, ()> + Send>;

pub struct World {
    pub plan: Arc<Plan>,
    pub settings: Settings,
    pub witness: Arc<Witness>,
    pub records: Arc<MemoryRecords>,
    pub post: Arc<Post>,
    /// What a tenant is told of the ends of its jobs.
    pub hooks: Arc<RecordingHooks>,
    pub payments: Arc<MemoryPayments>,
    blobs: Arc<MemoryBlobs>,
    readers: Arc<Readers>,
    models: Arc<Models>,
    exchange: Arc<Exchange>,
    ids: Arc<SeededIds>,
    mutant: Option<Mutant>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    alive: BTreeMap<usize, Machine>,
    /// Every life that was lived, in the order of their births.
    lives: Vec<Life>,
    /// When somebody who died is back at the earliest.
    away: BTreeMap<usize, Duration>,
    /// How many calls each process has made, in all its lives.
    calls: BTreeMap<usize, Arc<AtomicU64>>,
    drivers: BTreeMap<JobId, usize>,
    /// Names of processes that have died, by which their leases are known.
    dead: Vec<String>,
}

/// From when to when a process lived.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    pub process: usize,
    pub from: Duration,
    pub until: Option<Duration>,
}

struct Machine {
    app: Arc<App>,
    driver: Arc<Driver>,
    requests: mpsc::UnboundedSender<Request>,
    task: AbortHandle,
}

impl World {
    pub fn new(plan: Plan, mutant: Option<Mutant>, listening: bool) -> Arc<Self> {
        let settings = settings(&plan);
        let clock = Arc::new(VirtualClock::default());
        let records = Arc::new(match plan.lag {
            Duration::ZERO => MemoryRecords::default(),
            lag => MemoryRecords::lagging(clock.clone(), lag),
        });
        // A lease that runs out in the middle of a call, because storage is out, does not end the call.
        let lapses = plan.storage_fails() && settings.request_timeout >= settings.page_visibility;
        let cap = if lapses { usize::MAX } else { settings.max_inflight_per_model };
        let rest = (plan.breakers_know() && settings.breaker.failure_threshold == 1)
            .then_some(settings.breaker.base_rest);
        let witness = Witness::new(
            clock.clone(),
            records.clone(),
            plan.spread(),
            cap,
            rest,
            plan.writes_hold(),
            listening,
        );
        let (plan, witness) = (Arc::new(plan), Arc::new(witness));
        let queue = Arc::new(if plan.queue_buries {
            MemoryQueue::with_dead_letter_queue(clock, settings.max_receive_count)
        } else {
            MemoryQueue::new(clock)
        });
        let roster = settings.roster().steps(Tier::Primary);
        Arc::new(Self {
            post: Arc::new(Post::new(queue, &plan, &witness)),
            readers: Arc::new(Readers::new(&plan, &witness)),
            models: Arc::new(Models::new(&plan, &witness, roster)),
            ids: Arc::new(SeededIds::new(plan.seed)),
            blobs: Arc::default(),
            hooks: Arc::default(),
            payments: Arc::default(),
            exchange: Arc::default(),
            state: Mutex::default(),
            settings,
            witness,
            records,
            mutant,
            plan,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A process of the given number, alive until it is killed.
    pub fn start(self: &Arc<Self>, process: usize) {
        let (life, calls) = {
            let mut state = self.state();
            if state.alive.contains_key(&process) {
                return;
            }
            state.lives.push(Life { process, from: self.witness.now(), until: None });
            (state.lives.len() as u64 - 1, state.calls.entry(process).or_default().clone())
        };
        self.witness.note(|| format!("process {process} starts"));
        let (dies, mut dying) = mpsc::unbounded_channel();
        let weather = Weather::new(&self.plan, &self.witness, process, life, calls, dies);
        let flow = Arc::new(LocalFlow::default());
        let app = Arc::new(self.app(process, life, Some(Arc::new(weather))));
        let driver = Arc::new(Driver::new(app.clone(), flow.clone(), 2));
        let (requests, asked) = mpsc::unbounded_channel();
        let life = live(self.clone(), process, app.clone(), driver.clone(), flow.clone(), asked);
        let task = tokio::spawn(life).abort_handle();
        self.exchange.flows().insert(process, flow);
        self.state().alive.insert(process, Machine { app, driver, requests, task });
        // Whoever dies at a call of its own is killed from outside: nothing of it runs on.
        let world = self.clone();
        tokio::spawn(async move {
            if let Some(back_after) = dying.recv().await {
                world.kill(process, back_after, "at a call").await;
            }
        });
    }

    /// Kills a process in the middle of whatever it does.
    pub async fn kill(self: &Arc<Self>, process: usize, back_after: Option<Duration>, when: &str) {
        if !self.end(process) {
            return;
        }
        self.witness.struck(&format!("process {process} killed {when}"));
        let back = self.witness.now() + back_after.unwrap_or(REPAIR);
        self.state().away.insert(process, back);
        if let Some(time) = back_after {
            self.witness.clock.sleep(time).await;
            self.start(process);
        }
    }

    /// Ends a process's life; false when it was not alive.
    fn end(&self, process: usize) -> bool {
        let Some(machine) = self.state().alive.remove(&process) else { return false };
        self.witness.note(|| format!("process {process} is killed"));
        machine.task.abort();
        self.exchange.flows().remove(&process);
        let now = self.witness.now();
        let mut state = self.state();
        state.drivers.retain(|_, driver| *driver != process);
        state.dead.push(machine.app.node.clone());
        let last = state.lives.iter_mut().rfind(|life| life.process == process);
        if let Some(life) = last {
            life.until = Some(now);
        }
        true
    }

    pub fn was_anybody_killed(&self) -> bool {
        self.state().lives.iter().any(|life| life.until.is_some())
    }

    pub fn lives(&self) -> Vec<Life> {
        self.state().lives.clone()
    }

    /// Asks a process that is alive; nothing when there is none or it dies before it has answered.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(Arc<App>) -> BoxFuture<'static, T> + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        {
            let state = self.state();
            let count = state.alive.len();
            let chosen = self.ids.roll(count as u64) as usize;
            let machine = state.alive.values().nth(chosen)?;
            let request: Request = Box::new(move |app| {
                async move {
                    let _ = answer.send(question(app).await);
                }
                .boxed()
            });
            machine.requests.send(request).ok()?;
        }
        answered.await.ok()
    }

    /// Makes a process drive a job that another may drive already.
    pub fn drive_too(&self, process: usize, job: &JobId) {
        if let Some(machine) = self.state().alive.get(&process) {
            let (driver, job) = (machine.driver.clone(), job.clone());
            let request: Request = Box::new(move |_| async move { drop(driver.drive(&job).await) }.boxed());
            let _ = machine.requests.send(request);
        }
    }

    /// Everybody who died for good, and long enough ago, is started again.
    pub fn repair(self: &Arc<Self>) {
        let now = self.witness.now();
        for process in 0..self.plan.skews.len() {
            let away = self.state().away.get(&process).is_some_and(|back| *back > now);
            if !away {
                self.start(process);
            }
        }
    }

    /// Nobody dies from here on, and whoever is dead lives again.
    pub fn make_peace(self: &Arc<Self>) {
        for calls in self.state().calls.values() {
            calls.store(FAR_AHEAD, Ordering::Relaxed);
        }
        for process in 0..self.plan.skews.len() {
            self.start(process);
        }
    }

    /// Stops everybody; what is stored stays.
    pub fn stop(&self) {
        for process in 0..self.plan.skews.len() {
            self.end(process);
        }
    }

    /// An onlooker whom nothing can hinder.
    pub fn onlooker(&self) -> App {
        self.app(usize::MAX, 0, None)
    }

    fn app(&self, process: usize, life: u64, weather: Option<Arc<Weather>>) -> App {
        let skew = self.plan.skews.get(process).copied().unwrap_or(0);
        // An onlooker knows the truth.
        let watched = Arc::new(Watched { witness: self.witness.clone(), lags: weather.is_some() });
        let bus: Arc<dyn Bus> = watched.clone();
        let mut ports = Ports {
            records: watched,
            blobs: self.blobs.clone(),
            queue: self.post.clone(),
            flow: self.exchange.clone(),
            pdf: self.readers.clone(),
            vision: self.models.clone(),
            bus,
            notifier: Arc::new(RecordingNotifier::default()),
            hooks: self.hooks.clone(),
            payments: self.payments.clone(),
            vault: Arc::new(PlainVault::default()),
            clock: Arc::new(SkewedClock { clock: self.witness.clock.clone(), skew }),
            ids: self.ids.clone(),
            traces: Arc::new(NoTraces),
        };
        if let Some(mutant) = self.mutant
            && weather.is_some()
        {
            ports = sabotage(ports, mutant, process);
        }
        if let Some(weather) = weather {
            ports = exposed(ports, weather);
        }
        let mut settings = self.settings.clone();
        if self.mutant == Some(Mutant::NoRetries) {
            settings.retry_intervals.clear();
        }
        App::new(ports, settings, format!("p{process}.{life}"))
    }
}

/// A process: workers, relay, webhooks, sweep, whatever it is asked, and the jobs that it drives.
async fn live(
    world: Arc<World>,
    process: usize,
    app: Arc<App>,
    driver: Arc<Driver>,
    flow: Arc<LocalFlow>,
    asked: mpsc::UnboundedReceiver<Request>,
) {
    tokio::join!(
        driver.work(),
        relay::run(&app),
        webhooks::run(&app),
        async {
            // Others have nothing to buy, and would only count calls.
            if world.plan.purse.is_some() {
                purchase::run(&app).await;
            }
        },
        keep_house(&app),
        answer(&app, asked),
        drive_jobs(&world, process, &app, &driver, &flow),
    );
}

/// What runs every minute on AWS.
async fn keep_house(app: &App) {
    loop {
        // Not heard of once is heard of late.
        let _ = nodes::seen(app).await;
        app.clock.sleep(SWEEP).await;
        sweep(app).await;
    }
}

async fn answer(app: &Arc<App>, mut asked: mpsc::UnboundedReceiver<Request>) {
    let mut answering = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(request) = asked.recv() => answering.push(request(app.clone())),
            Some(()) = answering.next() => {}
        }
    }
}

/// Drives what is started here, and what nobody drives.
async fn drive_jobs(
    world: &Arc<World>,
    process: usize,
    app: &Arc<App>,
    driver: &Arc<Driver>,
    flow: &Arc<LocalFlow>,
) {
    let mut driven = JoinSet::new();
    let mut drive = |job: JobId| {
        let mine = *world.state().drivers.entry(job.clone()).or_insert(process) == process;
        if mine {
            let (world, driver) = (world.clone(), driver.clone());
            driven.spawn(async move {
                driver.drive(&job).await;
                world.state().drivers.remove(&job);
            });
        } else {
            flow.unwatch(&job);
        }
    };
    let mut look = app.clock.sleep(Duration::ZERO);
    loop {
        tokio::select! {
            biased;
            job = flow.next_started() => drive(job),
            () = &mut look => {
                let open = jobs::open(app).await.unwrap_or_default();
                for job in open {
                    if !world.state().drivers.contains_key(&job.id) {
                        free(world, app, &job.id).await;
                        // Counts as started here, unless it was a moment ago.
                        flow.enqueue(&job.id);
                    }
                }
                look = app.clock.sleep(LOOK_FOR_ORPHANS);
            }
        }
    }
}

/// On one machine the dead are known, and nobody waits for their leases to run out.
async fn free(world: &World, app: &App, job: &JobId) {
    if !world.plan.one_machine {
        return;
    }
    let dead = world.state().dead.clone();
    for node in dead {
        // What can't be freed now runs out by itself.
        let _ = pages::free_all_of(app, job, &node).await;
        for target in app.settings.roster().steps(Tier::Primary) {
            let _ = slots::free_all_of(app, &target, &node).await;
        }
        let _ = relay::relay(app, &node).await;
    }
}

/// Leads to whoever drives a job, as Step Functions does.
#[derive(Default)]
struct Exchange(Mutex<BTreeMap<usize, Arc<LocalFlow>>>);

impl Exchange {
    fn flows(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<LocalFlow>>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[async_trait]
impl Flow for Exchange {
    async fn start(&self, job: &JobId, redrives: u32, trace: &TraceContext) -> Result<(), Fault> {
        let first = self.flows().values().next().cloned();
        match first {
            Some(flow) => flow.start(job, redrives, trace).await,
            None => Ok(()),
        }
    }

    async fn settle(&self, token: &TaskToken) -> Result<Settlement, Fault> {
        let all: Vec<_> = self.flows().values().cloned().collect();
        let mut settled = Settlement::Stale;
        for flow in all {
            if flow.settle(token).await? == Settlement::Accepted {
                settled = Settlement::Accepted;
            }
        }
        Ok(settled)
    }

    async fn wake(&self, job: &JobId) -> Result<(), Fault> {
        let all: Vec<_> = self.flows().values().cloned().collect();
        for flow in all {
            flow.wake(job).await?;
        }
        Ok(())
    }

    async fn remind(&self, job: &JobId, _: job::State) -> Result<(), Fault> {
        self.wake(job).await
    }
}

/// A clock that is off.
struct SkewedClock {
    clock: Arc<VirtualClock>,
    skew: i64,
}

#[async_trait]
impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        self.clock.now() + jiff::SignedDuration::from_millis(self.skew)
    }

    async fn sleep(&self, time: Duration) {
        self.clock.sleep(time).await;
    }
}

/// Names that count up, and dice of the run's own.
struct SeededIds {
    state: Mutex<(u64, StdRng)>,
}

impl SeededIds {
    fn new(seed: u64) -> Self {
        Self { state: Mutex::new((0, StdRng::seed_from_u64(seed.rotate_left(32)))) }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, StdRng)> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Ids for SeededIds {
    fn fresh(&self) -> String {
        let mut state = self.lock();
        state.0 += 1;
        format!("{:06}", state.0)
    }

    fn roll(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.lock().1.random_range(0..bound) }
    }
}

fn settings(plan: &Plan) -> Settings {
    let base = [("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")];
    let read = Settings::read(|name| {
        let own = plan.settings.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
        own.or_else(|| base.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
    });
    match read {
        Ok(reading) => reading.settings,
        Err(faults) => panic!("a plan's settings are refused: {faults:?}"),
    }
}

fn sabotage(ports: Ports, mutant: Mutant, process: usize) -> Ports {
    fn on<P: ?Sized>(inner: Arc<P>, mutant: Mutant, process: usize, bus: &Arc<dyn Bus>) -> Sabotaged<P> {
        Sabotaged { inner, mutant, process, bus: bus.clone(), calls: AtomicU64::default() }
    }
    let bus = ports.bus.clone();
    Ports {
        records: Arc::new(on::<dyn Records>(ports.records, mutant, process, &bus)),
        blobs: Arc::new(on::<dyn Blobs>(ports.blobs, mutant, process, &bus)),
        queue: Arc::new(on::<dyn Queue>(ports.queue, mutant, process, &bus)),
        clock: Arc::new(on::<dyn Clock>(ports.clock, mutant, process, &bus)),
        pdf: Arc::new(on::<dyn Pdf>(ports.pdf, mutant, process, &bus)),
        payments: Arc::new(on::<dyn Payments>(ports.payments, mutant, process, &bus)),
        ..ports
    }
}

fn exposed(ports: Ports, weather: Arc<Weather>) -> Ports {
    fn to<P: ?Sized>(weather: &Arc<Weather>, inner: Arc<P>) -> Faulty<P> {
        Faulty::new(inner, weather.clone())
    }
    Ports {
        records: Arc::new(to::<dyn Records>(&weather, ports.records)),
        blobs: Arc::new(to::<dyn Blobs>(&weather, ports.blobs)),
        queue: Arc::new(to::<dyn Queue>(&weather, ports.queue)),
        flow: Arc::new(to::<dyn Flow>(&weather, ports.flow)),
        bus: Arc::new(to::<dyn Bus>(&weather, ports.bus)),
        notifier: Arc::new(to::<dyn Notifier>(&weather, ports.notifier)),
        hooks: Arc::new(to::<dyn Hooks>(&weather, ports.hooks)),
        payments: Arc::new(to::<dyn Payments>(&weather, ports.payments)),
        vault: Arc::new(to::<dyn Vault>(&weather, ports.vault)),
        ..ports
    }
}
