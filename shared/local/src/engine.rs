//! The whole of Everypage in one process over one data folder.

use std::{
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use everypage_core::{
    app::{App, Outside, Ports, Stop},
    config::Settings,
    domain::{ids::JobId, job::Job, target::Tier},
    ports::{
        Fault,
        clock::{Clock, within},
        ids::Ids,
    },
    store::{healing, jobs, pages, slots},
    usecases::{heal, purchase, relay, webhooks},
};
use everypage_system::{SystemClock, UlidIds};
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::{
    blobs::FolderBlobs,
    bus::LocalBus,
    database::Database,
    driver::Driver,
    flow::LocalFlow,
    notifier::LogNotifier,
    owner::{self, Owner},
    queue::SqliteQueue,
    records::SqliteRecords,
    vault::FileVault,
};

/// How often jobs are looked for whose process has died.
const LOOK_FOR_ORPHANS: Duration = Duration::from_secs(15);
/// How often it is tried to let go of an ended job.
const LET_GO: Duration = Duration::from_millis(100);
/// How long leftover messages of ended jobs may take to be worked off.
const DRAIN: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the data folder {folder} can't be used: {error}; set EVERYPAGE_DATA to a folder that can be written to"
    )]
    Folder { folder: String, error: std::io::Error },
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Which living process brings a job forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrivenBy {
    ThisProcess,
    AnotherProcess,
}

pub struct Engine {
    pub app: Arc<App>,
    pub bus: Arc<LocalBus>,
    flow: Arc<LocalFlow>,
    queue: Arc<SqliteQueue>,
    driver: Arc<Driver>,
    database: Database,
    folder: PathBuf,
    owners: PathBuf,
    /// Held while this process stores events or drives jobs.
    owner: std::sync::Mutex<Option<Owner>>,
    /// Whether it has taken over what dead ones left.
    adopted: AtomicBool,
}

impl Engine {
    /// Opens the data folder, making it if need be. Nothing is driven until [`Engine::run`].
    pub async fn open(folder: &Path, settings: Settings, outside: Outside) -> Result<Self, OpenError> {
        // It holds documents and their text: for this user's eyes only.
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| OpenError::Folder { folder: folder.display().to_string(), error })?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let database = Database::open(&folder.join("everypage.db"))?;
        let records = Arc::new(SqliteRecords::new(database.clone()));
        records.drop_expired(clock.now()).await?;
        let node = UlidIds.fresh();
        let queue = Arc::new(SqliteQueue::new(database.clone(), clock.clone(), node.clone()));
        let Outside { pdf, vision, hooks, payments, traces } = outside;
        let (flow, bus) = (Arc::new(LocalFlow::default()), Arc::new(LocalBus::default()));
        let ports = Ports {
            records,
            blobs: Arc::new(FolderBlobs::new(folder.join("blobs"))?),
            queue: queue.clone(),
            flow: flow.clone(),
            pdf,
            vision,
            bus: bus.clone(),
            notifier: Arc::new(LogNotifier),
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
            driver,
            database,
            folder: folder.to_owned(),
            owners: folder.join("owners"),
            owner: Default::default(),
            adopted: AtomicBool::default(),
        })
    }

    /// A folder for documents on their way in, on the same disk as those that have come. What dead
    /// processes left in theirs is removed.
    pub fn spool(&self) -> Result<PathBuf, OpenError> {
        let all = self.folder.join("spool");
        let made = || {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(all.join(&self.app.node))?;
            for entry in std::fs::read_dir(&all)?.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name != self.app.node && !owner::is_alive(&self.owners, &name) {
                    let _ = std::fs::remove_dir_all(entry.path());
                }
            }
            Ok(all.join(&self.app.node))
        };
        made().map_err(|error| OpenError::Folder { folder: all.display().to_string(), error })
    }

    /// Commits of this process to its database so far: what durable work is measured by.
    pub fn commits(&self) -> u64 {
        self.database.commits()
    }

    /// Drives every job that is started here or whose process has died, for ever. Dropping the
    /// future at any moment is safe.
    pub async fn run(&self) -> Result<(), OpenError> {
        self.run_until(&Stop::default()).await
    }

    /// The same until `stop` is asked for. Then no page is begun, and it ends when those in hand
    /// are settled; jobs that are still open go on in the next process.
    pub async fn run_until(&self, stop: &Stop) -> Result<(), OpenError> {
        if !self.adopted.load(Ordering::Relaxed) {
            self.adopt().await?;
        }
        let mut driven = JoinSet::new();
        let drive = async {
            let mut look = self.app.clock.sleep(LOOK_FOR_ORPHANS);
            loop {
                tokio::select! {
                    biased;
                    id = self.flow.next_started() => match self.queue.take_over(&id, None).await {
                        // Somebody else has it and is alive.
                        Ok(false) => self.flow.unwatch(&id),
                        Ok(true) => self.spawn(&mut driven, id),
                        Err(fault) => {
                            warn!(%fault, job = %id, "job not started yet");
                            self.flow.unwatch(&id);
                            self.app.clock.sleep(Duration::from_secs(1)).await;
                            self.flow.begin(&id);
                        }
                    },
                    Some(_) = driven.join_next() => {}
                    () = &mut look => {
                        match self.adopt_orphans().await {
                            Err(fault) => warn!(%fault, "orphans not looked for"),
                            Ok(found) => for id in found {
                                self.flow.begin(&id);
                            },
                        }
                        look = self.app.clock.sleep(LOOK_FOR_ORPHANS);
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = self.driver.work_until(stop) => {}
            () = relay::run(&self.app) => {}
            () = heal::run(&self.app) => {}
            () = webhooks::run(&self.app) => {}
            () = purchase::run(&self.app) => {}
            () = drive => {}
        }
        Ok(())
    }

    /// Makes this process known before it stores events: should it die, the next one publishes them.
    pub fn enlist(&self) -> Result<(), OpenError> {
        let mut owner = self.owner();
        if owner.is_none() {
            let registered = Owner::register(&self.owners, &self.app.node);
            let failed = |error| OpenError::Folder { folder: self.owners.display().to_string(), error };
            *owner = Some(registered.map_err(failed)?);
        }
        Ok(())
    }

    /// Makes this process one that drives and takes over what dead ones left, for [`Engine::run`]
    /// to go on with; answers with the unfinished jobs among it.
    pub async fn adopt(&self) -> Result<Vec<JobId>, OpenError> {
        self.enlist()?;
        self.adopted.store(true, Ordering::Relaxed);
        let mut unfinished = Vec::new();
        for id in self.adopt_orphans().await? {
            self.flow.begin(&id);
            if jobs::find(&self.app, &id).await?.is_some_and(|kept| !kept.value.state.is_terminal()) {
                unfinished.push(id);
            }
        }
        Ok(unfinished)
    }

    /// Does a living process, this one or another, drive the job?
    pub async fn driver_of(&self, id: &JobId) -> Result<Option<DrivenBy>, Fault> {
        let driver = self.queue.driver_of(id).await?;
        Ok(driver.and_then(|driver| {
            if driver == self.app.node {
                Some(DrivenBy::ThisProcess)
            } else {
                owner::is_alive(&self.owners, &driver).then_some(DrivenBy::AnotherProcess)
            }
        }))
    }

    fn owner(&self) -> std::sync::MutexGuard<'_, Option<Owner>> {
        self.owner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn spawn(&self, driven: &mut JoinSet<()>, id: JobId) {
        let (driver, queue, app) = (self.driver.clone(), self.queue.clone(), self.app.clone());
        // Messages may have waited for somebody to take the job on.
        driver.announce();
        driven.spawn(async move {
            driver.drive(&id).await;
            // Its messages may outlive the job; they are worked off before it is let go of.
            while !queue.let_go(&id).await.unwrap_or(false) {
                app.clock.sleep(LET_GO).await;
            }
        });
    }

    /// Takes over what dead processes left: open jobs without a driver, and everything they held.
    async fn adopt_orphans(&self) -> Result<Vec<JobId>, Fault> {
        let mut adopted = Vec::new();
        for (job, driver) in self.queue.drives().await? {
            if driver == self.app.node || owner::is_alive(&self.owners, &driver) {
                continue;
            }
            if self.queue.take_over(&job, Some(&driver)).await? {
                info!(%job, from = driver, "job taken over");
                self.free(&job, &driver).await?;
                relay::relay(&self.app, &driver).await?;
                adopted.push(job);
            }
        }
        // Somebody sent pages of an ended job once more and died before anybody was to work on them.
        let mut undriven = self.queue.undriven().await?;
        undriven.extend(jobs::open(&self.app).await?.into_iter().map(|job| job.id));
        for job in undriven {
            if self.queue.driver_of(&job).await?.is_none() && self.queue.take_over(&job, None).await? {
                adopted.push(job);
            }
        }
        for name in owner::dead(&self.owners) {
            // The last events of jobs that it ended may not have gone out.
            relay::relay(&self.app, &name).await?;
            owner::forget(&self.owners, &name);
        }
        Ok(adopted)
    }

    /// The dead need their leases and slots no longer: nobody should wait for them to run out.
    async fn free(&self, job: &JobId, dead: &str) -> Result<(), Fault> {
        pages::free_all_of(&self.app, job, dead).await?;
        healing::free_all_of(&self.app, job, dead).await?;
        for tier in [Tier::Primary, Tier::Fast, Tier::Secondary] {
            for target in self.app.settings.roster().steps(tier) {
                slots::free_all_of(&self.app, &target, dead).await?;
            }
        }
        Ok(())
    }

    /// Waits until the job has ended, whoever drives it.
    pub async fn wait_for(&self, id: &JobId) -> Result<Job, Fault> {
        loop {
            if let Some(kept) = jobs::find(&self.app, id).await?
                && kept.value.state.is_terminal()
            {
                return Ok(kept.value);
            }
            self.app.clock.sleep(Duration::from_millis(100)).await;
        }
    }

    /// Has whoever drives here work off what was just sent for a job that may have ended, such as
    /// the messages that heal it, and let go of the job then.
    pub fn attend(&self, id: &JobId) {
        self.flow.begin(id);
    }

    /// Makes messages of a job that has ended come to this process before any is sent, and holds the
    /// job until [`Engine::drain_within`]: for a command that waits for what becomes of them.
    pub async fn take_on(&self, id: &JobId) -> Result<bool, Fault> {
        let driver = self.queue.driver_of(id).await?;
        let from = driver.filter(|driver| !owner::is_alive(&self.owners, driver));
        let taken = self.queue.take_over(id, from.as_deref()).await?;
        self.driver.announce();
        Ok(taken)
    }

    /// Waits until nothing of an ended job is left in the queue, for a while at most.
    pub async fn drain(&self, id: &JobId) -> Result<(), Fault> {
        self.drain_within(id, DRAIN).await.map(drop)
    }

    /// The same with a limit of the caller's; false when that was reached first. Somebody must
    /// [`Engine::run`] beside it.
    pub async fn drain_within(&self, id: &JobId, limit: Duration) -> Result<bool, Fault> {
        let emptied = async {
            while !self.queue.let_go(id).await? {
                self.driver.announce();
                self.app.clock.sleep(Duration::from_millis(20)).await;
            }
            Ok(true)
        };
        within(self.app.clock.as_ref(), limit, emptied).await.unwrap_or(Ok(false))
    }

    /// Publishes what was stored and not yet published; for commands that do not drive.
    pub async fn flush(&self) -> Result<(), Fault> {
        relay::relay_own(&self.app).await
    }
}
