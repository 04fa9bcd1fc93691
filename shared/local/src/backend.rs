//! The local backend: all of Everypage in one process over one data folder.

use std::{
    collections::BTreeSet,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use everypage_core::{
    app::{App, Outside, Ports},
    finish::{heal, healing, retention},
    ids::JobId,
    job::{Job, jobs},
    notices::send,
    notify::{deliver, relay},
    ports::{Fault, clock::Clock, ids::Ids},
    read::pages,
    sagas,
    settings::Settings,
    time::within,
};
use everypage_system::{SystemClock, UlidIds};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    blobs::FolderBlobs,
    bus::LocalBus,
    database::Database,
    driver::Driver,
    flow::LocalFlow,
    liveness::{self, LivenessLock},
    notifier::LogNotifier,
    queue::SqliteQueue,
    records::SqliteRecords,
    vault::FileVault,
};

/// How often this process checks for jobs whose process has died.
const ORPHAN_CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// How often the release of an ended job is retried.
const RELEASE_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How often the state of a job is polled for its end.
const JOB_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How often the queue is polled while it is drained.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit for processing the leftover messages of an ended job.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// How often this process looks for jobs that another process accepted and does not drive.
const UNDRIVEN_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How often a long-lived process deletes expired records.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(600);
/// Time limit for notices of a command that ends; what is left is sent by the next process.
const NOTICE_TIME: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the data folder {folder} can't be used: {error}; set EVERYPAGE_DATA to a folder that can be written to"
    )]
    Folder { folder: String, error: std::io::Error },
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Which live process drives a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrivenBy {
    ThisProcess,
    AnotherProcess,
}

pub struct LocalBackend {
    pub app: Arc<App>,
    pub bus: Arc<LocalBus>,
    flow: Arc<LocalFlow>,
    queue: Arc<SqliteQueue>,
    records: Arc<SqliteRecords>,
    driver: Arc<Driver>,
    database: Database,
    folder: PathBuf,
    owners: PathBuf,
    /// Held while this process stores events or drives jobs.
    liveness: Mutex<Option<LivenessLock>>,
    /// Whether this process has taken over the work of dead ones.
    has_recovered: AtomicBool,
}

const DATABASE: &str = "everypage.db";

/// Takes away what other users may do with a folder that existed before. Refuses one that holds other things than
/// Everypage's data, which those users may need.
fn close_to_others(folder: &Path) -> std::io::Result<()> {
    const OTHERS: u32 = 0o077;
    let mut permissions = std::fs::metadata(folder)?.permissions();
    if permissions.mode() & OTHERS == 0 {
        return Ok(());
    }
    if !folder.join(DATABASE).exists() && std::fs::read_dir(folder)?.next().is_some() {
        let reason = "other users can open it (`chmod go-rwx` would end that), and it holds other files";
        return Err(std::io::Error::other(reason));
    }
    permissions.set_mode(permissions.mode() & !OTHERS);
    std::fs::set_permissions(folder, permissions)
}

impl LocalBackend {
    /// Opens the data folder, creating it if necessary. No job is driven until [`LocalBackend::run`].
    pub async fn open(folder: &Path, settings: Settings, outside: Outside) -> Result<Self, OpenError> {
        // It holds documents and their text: readable by this user only.
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .and_then(|()| close_to_others(folder))
            .map_err(|error| OpenError::Folder { folder: folder.display().to_string(), error })?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let database = Database::open(&folder.join(DATABASE))?;
        let records = Arc::new(SqliteRecords::new(database.clone()));
        records.delete_expired(clock.now()).await?;
        let node = UlidIds.fresh();
        let queue = Arc::new(SqliteQueue::new(database.clone(), clock.clone(), node.clone()));
        let Outside { pdf, ocr, vision, hooks, payments, traces, mut notifiers } = outside;
        notifiers.insert(0, Arc::new(LogNotifier));
        let (flow, bus) = (Arc::new(LocalFlow::default()), Arc::new(LocalBus::default()));
        let ports = Ports {
            records: records.clone(),
            blobs: Arc::new(FolderBlobs::new(folder.join("blobs"))?),
            queue: queue.clone(),
            flow: flow.clone(),
            pdf,
            ocr,
            vision,
            bus: bus.clone(),
            notifiers,
            hooks,
            payments,
            vault: Arc::new(FileVault::open(&folder.join("secret.key"))?),
            clock,
            ids: Arc::new(UlidIds),
            traces,
        };
        let app = Arc::new(App::new(ports, settings, node));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let driver = Arc::new(Driver::new(app.clone(), flow.clone(), cores));
        Ok(Self {
            app,
            bus,
            flow,
            queue,
            records,
            driver,
            database,
            folder: folder.to_owned(),
            owners: folder.join("owners"),
            liveness: Mutex::default(),
            has_recovered: AtomicBool::default(),
        })
    }

    /// Creates this process's folder for incoming documents, on the same disk as the stored ones,
    /// and removes the folders of dead processes.
    pub fn spool(&self) -> Result<PathBuf, OpenError> {
        let all = self.folder.join("spool");
        let create = || {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(all.join(&self.app.store.node))?;
            for entry in std::fs::read_dir(&all)?.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name != self.app.store.node && !liveness::is_alive(&self.owners, &name) {
                    let _ = std::fs::remove_dir_all(entry.path());
                }
            }
            Ok(all.join(&self.app.store.node))
        };
        create().map_err(|error| OpenError::Folder { folder: all.display().to_string(), error })
    }

    /// Number of commits of this process to its database: the measure of durable work.
    pub fn commits(&self) -> u64 {
        self.database.commits()
    }

    /// Drives every job that is started here or whose process has died; never returns. Dropping the
    /// future at any moment is safe.
    pub async fn run(&self) -> Result<(), OpenError> {
        self.run_until(&CancellationToken::new()).await
    }

    /// Drives jobs as [`LocalBackend::run`] does until `stop` is signalled. Then no further page is
    /// started, and it returns when the pages in progress are settled; jobs that are still open
    /// continue in the next process.
    pub async fn run_until(&self, stop: &CancellationToken) -> Result<(), OpenError> {
        if !self.app.settings.run_dispatcher {
            // Another process on the same folder drives the jobs that are accepted here, those of dead
            // processes and those that are started again.
            self.register()?;
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = relay::run(&self.app.publisher) => {}
            }
            return Ok(());
        }
        if !self.has_recovered.load(Ordering::Relaxed) {
            self.recover_jobs().await?;
        }
        let mut driven = JoinSet::new();
        let drive = async {
            let mut orphan_check = self.app.store.clock.sleep(ORPHAN_CHECK_INTERVAL);
            let mut undriven_check = self.app.store.clock.sleep(UNDRIVEN_CHECK_INTERVAL);
            let mut undriven_before = BTreeSet::new();
            loop {
                tokio::select! {
                    biased;
                    id = self.flow.next_started() => match self.queue.take_over(&id, None).await {
                        // Another live process drives it.
                        Ok(false) => self.flow.unwatch(&id),
                        Ok(true) => self.spawn(&mut driven, id),
                        Err(fault) => {
                            warn!(%fault, job = %id, "job not started, retrying");
                            self.flow.unwatch(&id);
                            self.app.store.clock.sleep(Duration::from_secs(1)).await;
                            self.flow.enqueue(&id);
                        }
                    },
                    Some(_) = driven.join_next() => {}
                    () = &mut orphan_check => {
                        match self.take_over_orphans().await {
                            Err(fault) => warn!(%fault, "orphan check failed"),
                            Ok(found) => for id in found {
                                self.flow.enqueue(&id);
                            },
                        }
                        orphan_check = self.app.store.clock.sleep(ORPHAN_CHECK_INTERVAL);
                    }
                    () = &mut undriven_check => {
                        match self.queue.undriven_jobs().await {
                            Err(fault) => warn!(%fault, "undriven jobs not found yet"),
                            Ok(found) => {
                                let found: BTreeSet<JobId> = found.into_iter().collect();
                                // A process that drives what it accepts takes a moment: found twice, it does not.
                                for id in found.intersection(&undriven_before) {
                                    self.flow.enqueue(id);
                                }
                                undriven_before = found;
                            }
                        }
                        undriven_check = self.app.store.clock.sleep(UNDRIVEN_CHECK_INTERVAL);
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = self.driver.work_until(stop) => {}
            () = relay::run(&self.app.publisher) => {}
            () = heal::run(&self.app.finisher) => {}
            () = deliver::run(&self.app.publisher) => {}
            () = sagas::run::run(&self.app.billing) => {}
            () = sagas::run::run(&self.app.eraser) => {}
            () = send::run(&self.app.notices) => {}
            () = retention::run(&self.app.finisher) => {}
            () = self.delete_expired_records() => {}
            never = self.app.admission.run() => match never {},
            () = everypage_core::billing::drift::run(&self.app.store) => {}
            () = drive => {}
        }
        Ok(())
    }

    /// Deletes records as they expire, such as idempotency keys and sent webhooks.
    async fn delete_expired_records(&self) {
        let clock = &self.app.store.clock;
        loop {
            clock.sleep(EXPIRY_INTERVAL).await;
            if let Err(fault) = self.records.delete_expired(clock.now()).await {
                warn!(%fault, "expired records not deleted yet");
            }
        }
    }

    /// Registers this process before it stores events: if it dies, the next one publishes them.
    pub fn register(&self) -> Result<(), OpenError> {
        let mut liveness = self.liveness.lock();
        if liveness.is_none() {
            let acquired = LivenessLock::acquire(&self.owners, &self.app.store.node);
            let failed = |error| OpenError::Folder { folder: self.owners.display().to_string(), error };
            *liveness = Some(acquired.map_err(failed)?);
        }
        Ok(())
    }

    /// Registers this process as a driver and takes over the jobs of dead processes, which
    /// [`LocalBackend::run`] then drives; returns the unfinished ones among them. With `RUN_DISPATCHER=0` it
    /// only registers: what it took over, no process would drive.
    pub async fn recover_jobs(&self) -> Result<Vec<JobId>, OpenError> {
        self.register()?;
        if !self.app.settings.run_dispatcher {
            return Ok(vec![]);
        }
        self.has_recovered.store(true, Ordering::Relaxed);
        let mut unfinished = Vec::new();
        for id in self.take_over_orphans().await? {
            self.flow.enqueue(&id);
            if jobs::find(&self.app.store, &id).await?.is_some_and(|record| !record.value.state.is_terminal())
            {
                unfinished.push(id);
            }
        }
        Ok(unfinished)
    }

    /// Which live process drives the job; `None` when there is none.
    pub async fn driver_of(&self, id: &JobId) -> Result<Option<DrivenBy>, Fault> {
        let driver = self.queue.driver_of(id).await?;
        Ok(driver.and_then(|driver| {
            if driver == self.app.store.node {
                Some(DrivenBy::ThisProcess)
            } else {
                liveness::is_alive(&self.owners, &driver).then_some(DrivenBy::AnotherProcess)
            }
        }))
    }

    fn spawn(&self, driven: &mut JoinSet<()>, id: JobId) {
        let (driver, queue, app) = (self.driver.clone(), self.queue.clone(), self.app.clone());
        // Messages may have been waiting for a driver of this job.
        driver.wake_workers();
        driven.spawn(async move {
            driver.drive(&id).await;
            // Messages may outlive the job: it is released only when they are all processed.
            while !queue.release(&id).await.unwrap_or(false) {
                app.store.clock.sleep(RELEASE_RETRY_INTERVAL).await;
            }
        });
    }

    /// Takes over the jobs of dead processes, with their leases and slots, and open jobs without a driver.
    async fn take_over_orphans(&self) -> Result<Vec<JobId>, Fault> {
        let mut taken = Vec::new();
        // Also those whose successor died while it took over: it may have freed nothing of theirs. Their lock
        // files are removed only when everything is free.
        let mut dead: BTreeSet<String> = liveness::dead(&self.owners).into_iter().collect();
        for (job, driver) in self.queue.driven_jobs().await? {
            if driver == self.app.store.node || liveness::is_alive(&self.owners, &driver) {
                continue;
            }
            if self.queue.take_over(&job, Some(&driver)).await? {
                info!(%job, from = driver, "job taken over");
                dead.insert(driver);
                taken.push(job);
            }
        }
        // A process may have redriven pages of an ended job and died before it started a driver.
        let mut undriven = self.queue.undriven_jobs().await?;
        undriven.extend(jobs::open(&self.app.store).await?.into_iter().map(|job| job.id));
        for job in undriven {
            if self.queue.driver_of(&job).await?.is_none() && self.queue.take_over(&job, None).await? {
                taken.push(job);
            }
        }
        for name in &dead {
            self.free_leases_and_slots(&taken, name).await?;
        }
        self.publish_for_ended_processes().await?;
        dead.iter().for_each(|name| liveness::remove(&self.owners, name));
        Ok(taken)
    }

    /// Publishes the events of processes that ended before they did, however they ended: a command that failed
    /// after its write leaves no lock file.
    async fn publish_for_ended_processes(&self) -> Result<(), Fault> {
        for node in self.records.unpublished_nodes().await? {
            if node != self.app.store.node && !liveness::is_alive(&self.owners, &node) {
                relay::relay(&self.app.publisher, &node).await?;
            }
        }
        Ok(())
    }

    /// Frees what a dead process held, so that no worker waits for its leases to expire.
    async fn free_leases_and_slots(&self, jobs: &[JobId], dead: &str) -> Result<(), Fault> {
        for job in jobs {
            pages::free_all_of(&self.app.store, job, dead).await?;
            healing::free_all_of(&self.app.store, job, dead).await?;
        }
        for target in self.app.settings.failover_order().targets() {
            self.app.reader.slots.free_all_of(&target, dead).await?;
        }
        Ok(())
    }

    /// Waits until the job has ended, whichever process drives it.
    pub async fn wait_for(&self, id: &JobId) -> Result<Job, Fault> {
        loop {
            if let Some(record) = jobs::find(&self.app.store, id).await?
                && record.value.state.is_terminal()
            {
                return Ok(record.value);
            }
            self.app.store.clock.sleep(JOB_POLL_INTERVAL).await;
        }
    }

    /// Makes this process drive a job again, which may have ended, so that messages just sent for it
    /// (such as those that heal it) are processed and the job is released afterwards.
    pub fn resume(&self, id: &JobId) {
        self.flow.enqueue(id);
    }

    /// Assigns the messages of an ended job to this process before any is sent, and holds the job
    /// until [`LocalBackend::drain_within`]: for a command that waits for their outcome. False when
    /// another live process drives the job.
    pub async fn claim(&self, id: &JobId) -> Result<bool, Fault> {
        let driver = self.queue.driver_of(id).await?;
        let from = driver.filter(|driver| !liveness::is_alive(&self.owners, driver));
        let taken = self.queue.take_over(id, from.as_deref()).await?;
        self.driver.wake_workers();
        Ok(taken)
    }

    /// Waits until the queue holds no message of an ended job, for 3 seconds at most.
    pub async fn drain(&self, id: &JobId) -> Result<(), Fault> {
        self.drain_within(id, DRAIN_TIMEOUT).await.map(drop)
    }

    /// Waits until the queue holds no message of an ended job; false when `limit` passed first.
    /// [`LocalBackend::run`] must be running concurrently.
    pub async fn drain_within(&self, id: &JobId, limit: Duration) -> Result<bool, Fault> {
        let emptied = async {
            self.queue.wake_job(id).await?;
            while !self.queue.release(id).await? {
                self.driver.wake_workers();
                self.app.store.clock.sleep(DRAIN_POLL_INTERVAL).await;
            }
            Ok(true)
        };
        within(self.app.store.clock.as_ref(), limit, emptied).await.unwrap_or(Ok(false))
    }

    /// Publishes events that are stored and unpublished, and sends notices; for commands that do not drive
    /// jobs.
    pub async fn flush(&self) -> Result<(), Fault> {
        relay::relay_own(&self.app.publisher).await?;
        send::flush(&self.app.notices, NOTICE_TIME).await;
        Ok(())
    }
}
