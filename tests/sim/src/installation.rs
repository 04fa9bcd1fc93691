//! Processes that run the real use cases and the real driver over shared storage.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use everypage_core::{
    app::{App, Ports},
    ids::JobId,
    ports::{bus::Bus, clock::Clock, ids::Ids, ocr::NoOcr, traces::NoTraces},
    providers::target::Tier,
    settings::{MaxInflight, Patience, Settings},
};
use everypage_local::{Driver, LocalFlow};
use everypage_testkit::{
    clock::VirtualClock,
    memory::{
        MemoryBlobs, MemoryPayments, MemoryQueue, MemoryRecords, PlainVault, RecordingHooks,
        RecordingNotifier,
    },
};
use futures::{FutureExt, future::BoxFuture};
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
};

use crate::{
    broken_variants::BrokenVariant,
    chaos_calls::ChaosCalls,
    chaos_queue::ChaosQueue,
    faults::REPAIR_TIME,
    models::{Models, ProcessModels},
    observer::{Expected, InFlightLimit, ObservedStore, Observer},
    ports::{FlowRouter, SeededIds, SkewedClock, break_ports, with_chaos},
    process::run_process,
    reader::FaultyReader,
    run_plan::RunPlan,
};

/// The shortest cooldown of a breaker, where a page has little time left.
const MIN_COOLDOWN: Duration = Duration::from_secs(5);
/// How often a process scans for jobs without a driver.
pub const ORPHAN_SCAN_INTERVAL: Duration = Duration::from_secs(15);
/// A call number that is beyond those of every plan.
const BEYOND_EVERY_PLANNED_CALL: u64 = 1 << 32;

pub type Request = Box<dyn FnOnce(Arc<App>) -> BoxFuture<'static, ()> + Send>;

pub struct Installation {
    pub plan: Arc<RunPlan>,
    pub settings: Settings,
    pub observer: Arc<Observer>,
    pub records: Arc<MemoryRecords>,
    pub queue: Arc<ChaosQueue>,
    /// Receives the tenant's webhooks.
    pub hooks: Arc<RecordingHooks>,
    pub payments: Arc<MemoryPayments>,
    blobs: Arc<MemoryBlobs>,
    reader: Arc<FaultyReader>,
    models: Arc<Models>,
    router: Arc<FlowRouter>,
    ids: Arc<SeededIds>,
    variant: Option<BrokenVariant>,
    state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    alive: BTreeMap<usize, RunningProcess>,
    /// Every run of a process, in the order of their starts.
    process_runs: Vec<ProcessRun>,
    /// When a killed process may be started again at the earliest.
    earliest_restart: BTreeMap<usize, Duration>,
    /// How many calls each process has made, over all its runs.
    calls: BTreeMap<usize, Arc<AtomicU64>>,
    /// Which process drives each job.
    pub drivers: BTreeMap<JobId, usize>,
    /// Node names of killed processes, which identify their leases.
    pub killed_nodes: Vec<String>,
}

/// From when to when a process ran.
#[derive(Clone, Copy, Debug)]
pub struct ProcessRun {
    pub process: usize,
    pub from: Duration,
    pub until: Option<Duration>,
}

struct RunningProcess {
    app: Arc<App>,
    driver: Arc<Driver>,
    requests: mpsc::UnboundedSender<Request>,
    task: AbortHandle,
}

impl Installation {
    pub fn new(plan: RunPlan, variant: Option<BrokenVariant>, keep_log: bool) -> Arc<Self> {
        let settings = settings(&plan);
        let clock = Arc::new(VirtualClock::default());
        let records = Arc::new(match plan.lag {
            Duration::ZERO => MemoryRecords::default(),
            lag => MemoryRecords::lagging(clock.clone(), lag),
        });
        // A lease that expires during a call, because storage is down, does not end the call.
        let leases_expire = plan.storage_fails() && settings.request_timeout >= settings.page_visibility;
        let max_in_flight = match settings.max_inflight_per_model {
            _ if leases_expire => InFlightLimit::Unknown,
            MaxInflight::AtMost(limit) => InFlightLimit::Fixed(limit as usize),
            // A limit that can't be stored holds in one process only.
            MaxInflight::Auto if plan.storage_fails() || !plan.max_clock_difference().is_zero() => {
                InFlightLimit::Unknown
            }
            MaxInflight::Auto => InFlightLimit::Stored,
        };
        let cooldown = (plan.breakers_see_every_failure() && settings.breaker.failure_threshold == 1)
            .then_some(settings.breaker.base_cooldown.min(MIN_COOLDOWN));
        let pauses_are_seen = !plan.storage_fails() && plan.max_clock_difference().is_zero();
        let expected = Expected {
            room: settings.open_jobs.filter(|_| settings.approval_threshold_usd.is_none()),
            pauses_are_seen,
            max_clock_difference: plan.max_clock_difference(),
            breaker: settings.breaker,
            max_in_flight,
            cooldown,
            results_are_counted: plan.breakers_see_every_failure(),
            writes_succeed: plan.writes_succeed(),
            workers_leave: plan.invocation.is_some(),
        };
        let observer = Observer::new(clock.clone(), records.clone(), expected, keep_log);
        let (plan, observer) = (Arc::new(plan), Arc::new(observer));
        let queue = if plan.queue_has_dead_letters {
            MemoryQueue::with_dead_letter_queue(clock, settings.max_receive_count)
        } else {
            MemoryQueue::new(clock)
        };
        let queue = Arc::new(if plan.invocation.is_some() { queue.without_wakes() } else { queue });
        let failover_order = settings.failover_order().steps(Tier::Primary);
        Arc::new(Self {
            queue: Arc::new(ChaosQueue::new(queue, &plan, &observer)),
            reader: Arc::new(FaultyReader::new(&plan, &observer)),
            models: Arc::new(Models::new(&plan, &observer, failover_order)),
            ids: Arc::new(SeededIds::new(plan.seed)),
            blobs: Arc::default(),
            hooks: Arc::default(),
            payments: Arc::default(),
            router: Arc::default(),
            state: Mutex::default(),
            settings,
            observer,
            records,
            variant,
            plan,
        })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether money may end before all pages are read.
    pub fn has_budget(&self) -> bool {
        self.settings.budget_usd.is_some() || self.settings.tenant_budget_usd.is_some()
    }

    /// Starts a process, unless it is running.
    pub fn start(self: &Arc<Self>, process: usize) {
        let (run, calls) = {
            let mut state = self.state();
            if state.alive.contains_key(&process) {
                return;
            }
            state.process_runs.push(ProcessRun { process, from: self.observer.now(), until: None });
            (state.process_runs.len() as u64 - 1, state.calls.entry(process).or_default().clone())
        };
        self.observer.log(|| format!("process {process} starts"));
        let (kills, mut killed) = mpsc::unbounded_channel();
        let chaos = ChaosCalls::new(&self.plan, &self.observer, process, run, calls, kills);
        let flow = Arc::new(LocalFlow::default());
        let app = Arc::new(self.app(process, run, Some(Arc::new(chaos))));
        let driver = Arc::new(Driver::new(app.clone(), flow.clone(), 2));
        let (requests, received) = mpsc::unbounded_channel();
        let work = run_process(self.clone(), process, app.clone(), driver.clone(), flow.clone(), received);
        let task = tokio::spawn(work).abort_handle();
        self.router.flows().insert(process, flow);
        self.state().alive.insert(process, RunningProcess { app, driver, requests, task });
        // A process that is killed at one of its calls is killed from outside: no part of it continues.
        let installation = self.clone();
        tokio::spawn(async move {
            if let Some(back_after) = killed.recv().await {
                installation.kill(process, back_after, "at a call").await;
            }
        });
    }

    /// Kills a process at any point of its work.
    pub async fn kill(self: &Arc<Self>, process: usize, back_after: Option<Duration>, when: &str) {
        if !self.end(process) {
            return;
        }
        self.observer.count_fault(&format!("process {process} killed {when}"));
        let restart = self.observer.now() + back_after.unwrap_or(REPAIR_TIME);
        self.state().earliest_restart.insert(process, restart);
        if let Some(time) = back_after {
            self.observer.clock.sleep(time).await;
            self.start(process);
        }
    }

    /// Ends a process; false when it was not running.
    fn end(&self, process: usize) -> bool {
        let Some(ended) = self.state().alive.remove(&process) else { return false };
        self.observer.log(|| format!("process {process} is killed"));
        ended.task.abort();
        self.router.flows().remove(&process);
        let now = self.observer.now();
        let mut state = self.state();
        state.drivers.retain(|_, driver| *driver != process);
        state.killed_nodes.push(ended.app.store.node.clone());
        let last = state.process_runs.iter_mut().rfind(|run| run.process == process);
        if let Some(run) = last {
            run.until = Some(now);
        }
        true
    }

    pub fn was_any_process_killed(&self) -> bool {
        self.state().process_runs.iter().any(|run| run.until.is_some())
    }

    /// When the process of this name was killed.
    pub fn killed_at(&self, node: &str) -> Option<Duration> {
        let state = self.state();
        let names = |(run, of): (usize, &ProcessRun)| format!("p{}.{run}", of.process) == node;
        let position = state.process_runs.iter().enumerate().position(names)?;
        state.process_runs[position].until
    }

    pub fn process_runs(&self) -> Vec<ProcessRun> {
        self.state().process_runs.clone()
    }

    /// Sends a request to a running process; `None` when none is running or it is killed before it answers.
    pub async fn request<T: Send + 'static>(
        &self,
        handler: impl FnOnce(Arc<App>) -> BoxFuture<'static, T> + Send + 'static,
    ) -> Option<T> {
        let (reply, replied) = oneshot::channel();
        {
            let state = self.state();
            let count = state.alive.len();
            let chosen = self.ids.random_below(count as u64) as usize;
            let receiver = state.alive.values().nth(chosen)?;
            let request: Request = Box::new(move |app| {
                async move {
                    let _ = reply.send(handler(app).await);
                }
                .boxed()
            });
            receiver.requests.send(request).ok()?;
        }
        replied.await.ok()
    }

    /// Lets a process drive a job that another may drive already.
    pub fn drive_concurrently(&self, process: usize, job: &JobId) {
        if let Some(driving) = self.state().alive.get(&process) {
            let (driver, job) = (driving.driver.clone(), job.clone());
            let request: Request = Box::new(move |_| async move { drop(driver.drive(&job).await) }.boxed());
            let _ = driving.requests.send(request);
        }
    }

    /// Starts every killed process whose earliest restart has passed.
    pub fn repair(self: &Arc<Self>) {
        let now = self.observer.now();
        for process in 0..self.plan.skews.len() {
            let too_early = self.state().earliest_restart.get(&process).is_some_and(|restart| *restart > now);
            if !too_early {
                self.start(process);
            }
        }
    }

    /// From now on no process is killed, and every killed one is started.
    pub fn end_process_faults(self: &Arc<Self>) {
        for calls in self.state().calls.values() {
            calls.store(BEYOND_EVERY_PLANNED_CALL, Ordering::Relaxed);
        }
        for process in 0..self.plan.skews.len() {
            self.start(process);
        }
    }

    /// Stops every process; what is stored stays.
    pub fn stop_all(&self) {
        for process in 0..self.plan.skews.len() {
            self.end(process);
        }
    }

    /// An app without faults, for checks and operators.
    pub fn inspector(&self) -> App {
        self.app(usize::MAX, 0, None)
    }

    fn app(&self, process: usize, run: u64, chaos: Option<Arc<ChaosCalls>>) -> App {
        let node = format!("p{process}.{run}");
        let skew = self.plan.skews.get(process).copied().unwrap_or(0);
        // Checks read indexes without lag.
        let store = Arc::new(ObservedStore {
            observer: self.observer.clone(),
            node: node.clone(),
            lags: chaos.is_some(),
        });
        let bus: Arc<dyn Bus> = store.clone();
        let mut ports = Ports {
            records: store,
            blobs: self.blobs.clone(),
            queue: self.queue.clone(),
            flow: self.router.clone(),
            pdf: self.reader.clone(),
            ocr: Arc::new(NoOcr),
            vision: Arc::new(ProcessModels { models: self.models.clone(), node: node.clone() }),
            bus,
            notifiers: vec![Arc::new(RecordingNotifier::default())],
            hooks: self.hooks.clone(),
            payments: self.payments.clone(),
            vault: Arc::new(PlainVault::default()),
            clock: Arc::new(SkewedClock { clock: self.observer.clock.clone(), skew }),
            ids: self.ids.clone(),
            traces: Arc::new(NoTraces),
        };
        if let Some(variant) = self.variant
            && chaos.is_some()
        {
            ports = break_ports(ports, variant, process);
        }
        if let Some(chaos) = chaos {
            ports = with_chaos(ports, chaos);
        }
        let mut settings = self.settings.clone();
        if self.variant == Some(BrokenVariant::NoRetries) {
            settings.retry_intervals.clear();
        }
        if self.variant == Some(BrokenVariant::GivesUpEarly) {
            settings.patience = Patience::OneRound;
        }
        App::new(ports, settings, node)
    }
}

fn settings(plan: &RunPlan) -> Settings {
    let base = [("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")];
    let read = Settings::read(|name| {
        let own = plan.settings.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
        own.or_else(|| base.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
    });
    match read {
        Ok(reading) => reading.settings,
        Err(faults) => panic!("invalid settings in a run plan: {faults:?}"),
    }
}
