//! At most so many parser processes at once, kept for the document they have open.
//!
//! A process sees one document and no other: a file that took its parser over must not be shown the
//! next person's.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use everypage_core::domain::secret::Secret;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{losses::Counters, worker::Worker};
use crate::gate::FileIdentity;

/// A document must not stay open, decrypted, long after its job; the next range comes sooner.
const IDLE: Duration = Duration::from_secs(10);
/// MuPDF's caches and the heap's holes grow slowly; a new process starts in milliseconds.
const PAGES_PER_PROCESS: u32 = 2_000;

/// The document that a process has open. Holds no password, only a keyed hash of it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    file: FileIdentity,
    password: Option<u64>,
}

pub(super) struct Pool {
    slots: Arc<Semaphore>,
    idle: Mutex<Idle>,
    hasher: RandomState,
    pub losses: Counters,
}

#[derive(Default)]
struct Idle {
    workers: Vec<(u64, Key, Worker)>,
    next_id: u64,
}

/// The right to have one process.
pub(super) struct Slot(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Pool {
    pub fn new(children: usize) -> Arc<Self> {
        Arc::new(Self {
            slots: Arc::new(Semaphore::new(children.max(1))),
            idle: Mutex::default(),
            hasher: RandomState::new(),
            losses: Counters::default(),
        })
    }

    pub fn key(&self, file: FileIdentity, password: Option<&Secret>) -> Key {
        Key { file, password: password.map(|secret| self.hasher.hash_one(secret.expose())) }
    }

    /// Waits for a slot; first come, first served.
    pub async fn slot(&self) -> Option<Slot> {
        Arc::clone(&self.slots).acquire_owned().await.ok().map(Slot)
    }

    /// A living process with this document open, if one is idle; the caller holds a slot. Otherwise
    /// the oldest idle process makes room, if there would be more of them than slots.
    pub fn take(&self, key: &Key) -> Option<Worker> {
        let mut idle = self.lock();
        idle.workers.retain_mut(|(_, _, worker)| worker.is_alive());
        match idle.workers.iter().position(|(_, held, _)| held == key) {
            Some(at) => Some(idle.workers.swap_remove(at).2),
            None => {
                if idle.workers.len() > self.slots.available_permits() {
                    drop(idle.workers.remove(0));
                }
                None
            }
        }
    }

    /// Keeps a process that has answered all it was asked.
    pub fn keep(self: &Arc<Self>, key: Key, worker: Worker) {
        if worker.pages_read >= PAGES_PER_PROCESS {
            return;
        }
        let mut idle = self.lock();
        let id = idle.next_id;
        idle.next_id += 1;
        idle.workers.push((id, key, worker));
        drop(idle);
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            let _ = timeout(IDLE, std::future::pending::<()>()).await;
            if let Some(pool) = pool.upgrade() {
                pool.lock().workers.retain(|(other, _, _)| *other != id);
            }
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Idle> {
        // A panic elsewhere can't leave the list half changed.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
