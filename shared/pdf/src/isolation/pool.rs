//! The pool of parser processes: a limited number, each kept for the document that it has open.
//!
//! A process opens one document only: a file that compromised its parser must not get access to the
//! next person's.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use everypage_core::secret::Secret;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{failures::Counters, process::ParserProcess};
use crate::precheck::FileIdentity;

/// A document must not stay open, decrypted, long after its job; the next range is requested sooner.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// MuPDF's caches and heap fragmentation grow slowly; a new process starts in milliseconds.
const MAX_PAGES_PER_PROCESS: u32 = 2_000;

/// Identifies the document that a process has open. Contains a keyed hash instead of the password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    file: FileIdentity,
    password: Option<u64>,
}

pub(super) struct Pool {
    slots: Arc<Semaphore>,
    idle: Mutex<Idle>,
    hasher: RandomState,
    pub failures: Counters,
}

#[derive(Default)]
struct Idle {
    processes: Vec<(u64, Key, ParserProcess)>,
    next_id: u64,
}

/// Permission to run one process.
pub(super) struct Slot(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Pool {
    pub fn new(children: usize) -> Arc<Self> {
        Arc::new(Self {
            slots: Arc::new(Semaphore::new(children.max(1))),
            idle: Mutex::default(),
            hasher: RandomState::new(),
            failures: Counters::default(),
        })
    }

    pub fn key(&self, file: FileIdentity, password: Option<&Secret>) -> Key {
        Key { file, password: password.map(|secret| self.hasher.hash_one(secret.expose())) }
    }

    /// Waits for a slot; first come, first served.
    pub async fn slot(&self) -> Option<Slot> {
        Arc::clone(&self.slots).acquire_owned().await.ok().map(Slot)
    }

    /// Takes an idle process that has this document open and is alive; the caller holds a slot. Without
    /// one, it ends the oldest idle process if there would be more processes than slots.
    pub fn take(&self, key: &Key) -> Option<ParserProcess> {
        let mut idle = self.idle.lock();
        idle.processes.retain_mut(|(_, _, process)| process.is_alive());
        match idle.processes.iter().position(|(_, held, _)| held == key) {
            Some(at) => Some(idle.processes.swap_remove(at).2),
            None => {
                if idle.processes.len() > self.slots.available_permits() {
                    drop(idle.processes.remove(0));
                }
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
