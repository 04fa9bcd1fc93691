//! The pool of parser processes: a limited number, each kept for the document that it has open.
//!
//! A process opens one document only: a file that compromised its parser must not get access to the
//! next person's.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use everypage_core::{ids::TenantId, secret::Secret};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::{
    failed_drawings::FailedDrawings,
    failures::Counters,
    lane::Lane,
    process::ParserProcess,
    slots::{Slot, Slots},
};
use crate::precheck::FileIdentity;

/// A document must not stay open, decrypted, long after its job; the next range is requested sooner.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// MuPDF's caches and heap fragmentation grow slowly; a new process starts in milliseconds.
const MAX_PAGES_PER_PROCESS: u32 = 2_000;

/// Identifies the document that a process has open. Contains a keyed hash instead of the password.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    file: FileIdentity,
    password: Option<u64>,
}

pub(super) struct Pool {
    slots: Arc<Slots>,
    idle: Mutex<Idle>,
    hasher: RandomState,
    pub failures: Counters,
    pub failed_drawings: FailedDrawings,
}

#[derive(Default)]
struct Idle {
    processes: Vec<(u64, Key, ParserProcess)>,
    next_id: u64,
}

impl Pool {
    pub fn new(children: usize) -> Arc<Self> {
        Arc::new(Self {
            slots: Slots::new(children),
            idle: Mutex::default(),
            hasher: RandomState::new(),
            failures: Counters::default(),
            failed_drawings: FailedDrawings::default(),
        })
    }

    pub fn key(&self, file: FileIdentity, password: Option<&Secret>) -> Key {
        Key { file, password: password.map(|secret| self.hasher.hash_one(secret.expose())) }
    }

    /// Waits for a slot.
    pub async fn slot(&self, lane: Lane, tenant: &TenantId) -> Slot {
        self.slots.acquire(lane, tenant).await
    }

    /// Takes an idle process that has this document open, is alive and has no lower priority than the lane; the
    /// caller holds a slot. Without one, it ends idle processes for which there would be no core.
    pub fn take(&self, key: &Key, lane: Lane) -> Option<ParserProcess> {
        let mut idle = self.idle.lock();
        idle.processes.retain_mut(|(_, _, process)| process.is_alive());
        let is_usable = |held: &Key, process: &ParserProcess| held == key && process.nice <= lane.nice();
        match idle.processes.iter().position(|(_, held, process)| is_usable(held, process)) {
            Some(at) => Some(idle.processes.remove(at).2),
            None => {
                let excess = self.slots.excess(idle.processes.len()).min(idle.processes.len());
                idle.processes.drain(..excess);
                None
            }
        }
    }

    /// Puts back a process that has completed all its requests.
    pub fn put_back(self: &Arc<Self>, key: Key, process: ParserProcess) {
        if process.pages_read >= MAX_PAGES_PER_PROCESS {
            return;
        }
        let mut idle = self.idle.lock();
        let id = idle.next_id;
        idle.next_id += 1;
        idle.processes.push((id, key, process));
        drop(idle);
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            let _ = timeout(IDLE_TIMEOUT, std::future::pending::<()>()).await;
            if let Some(pool) = pool.upgrade() {
                pool.idle.lock().processes.retain(|(other, _, _)| *other != id);
            }
        });
    }
}
