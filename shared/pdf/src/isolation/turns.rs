//! Whose turn it is: a pure decision over the requests that run and those that wait.
//!
//! - A lane counts only itself and the lanes before it: a drawing never holds up a text.
//! - A tenant without a running request in a lane may start one beyond the number of cores, so that it never
//!   waits for the slow pages of another tenant; the system then shares the processors.
//! - Among waiting requests of one lane, the tenant with the fewest running ones is next; of those with equally
//!   many, the one whose last turn is longest ago.

use std::collections::HashMap;

use everypage_core::ids::TenantId;

use super::lane::Lane;

/// Running requests of one lane, in multiples of the cores, that the shares of tenants may add up to.
const MAX_SHARES: usize = 2;

pub(super) type Ticket = u64;

struct Waiting {
    ticket: Ticket,
    lane: Lane,
    tenant: TenantId,
}

pub(super) struct Turns {
    cores: usize,
    next_ticket: Ticket,
    /// Requests that wait, in the order of their arrival.
    waiting: Vec<Waiting>,
    running: HashMap<Ticket, (Lane, TenantId)>,
    /// The latest turn of each tenant that runs or waits.
    latest: HashMap<TenantId, Ticket>,
    turns: u64,
}

impl Turns {
    pub fn new(cores: usize) -> Self {
        Self {
            cores: cores.max(1),
            next_ticket: 0,
            waiting: Vec::new(),
            running: HashMap::new(),
            latest: HashMap::new(),
            turns: 0,
        }
    }

    /// Adds a request, which waits until [`Turns::next`] returns its ticket.
    pub fn arrive(&mut self, lane: Lane, tenant: &TenantId) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.push(Waiting { ticket, lane, tenant: tenant.clone() });
        ticket
    }

    /// Removes a request that ended, or that waits no longer.
    pub fn leave(&mut self, ticket: Ticket) {
        self.waiting.retain(|waiting| waiting.ticket != ticket);
        self.running.remove(&ticket);
        let (waiting, running) = (&self.waiting, &self.running);
        self.latest.retain(|tenant, _| {
            waiting.iter().any(|waiting| waiting.tenant == *tenant)
                || running.values().any(|(_, running)| running == tenant)
        });
    }

    /// Starts the request whose turn it is; `None` if all wait or there is none.
    pub fn next(&mut self) -> Option<Ticket> {
        let order = |waiting: &Waiting| {
            let latest = self.latest.get(&waiting.tenant).copied().unwrap_or(0);
            (waiting.lane, self.running_of(waiting.lane, &waiting.tenant), latest, waiting.ticket)
        };
        let can_start = |waiting: &&Waiting| self.can_start(waiting.lane, &waiting.tenant);
        let ticket = self.waiting.iter().filter(can_start).min_by_key(|waiting| order(waiting))?.ticket;
        let at = self.waiting.iter().position(|waiting| waiting.ticket == ticket)?;
        let Waiting { lane, tenant, .. } = self.waiting.remove(at);
        self.turns += 1;
        self.latest.insert(tenant.clone(), self.turns);
        self.running.insert(ticket, (lane, tenant));
        Some(ticket)
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    pub fn cores(&self) -> usize {
        self.cores
    }

    fn can_start(&self, lane: Lane, tenant: &TenantId) -> bool {
        let count = |counts: &dyn Fn(Lane) -> bool| {
            self.running.values().filter(|(running, _)| counts(*running)).count()
        };
        let has_core = count(&|running| running <= lane) < self.cores;
        let has_share =
            self.running_of(lane, tenant) == 0 && count(&|running| running == lane) < MAX_SHARES * self.cores;
        has_core || has_share
    }

    fn running_of(&self, lane: Lane, tenant: &TenantId) -> usize {
        self.running.values().filter(|(running, of)| *running == lane && of == tenant).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pool {
        turns: Turns,
        names: HashMap<Ticket, String>,
    }

    impl Pool {
        fn new(cores: usize) -> Self {
            Self { turns: Turns::new(cores), names: HashMap::new() }
        }

        fn arrive(&mut self, lane: Lane, tenant: &str, name: &str) {
            let ticket = self.turns.arrive(lane, &TenantId::new(tenant));
            self.names.insert(ticket, name.to_owned());
        }

        /// The names of the requests that start now.
        fn started(&mut self) -> Vec<String> {
            std::iter::from_fn(|| self.turns.next()).map(|ticket| self.names[&ticket].clone()).collect()
        }

        fn end(&mut self, name: &str) {
            let ticket = *self.names.iter().find(|(_, found)| *found == name).unwrap().0;
            self.turns.leave(ticket);
        }
    }

    #[test]
    fn text_starts_while_drawings_hold_every_core() {
        let mut pool = Pool::new(2);
        for name in ["d1", "d2", "d3", "d4"] {
            pool.arrive(Lane::Images, "mallory", name);
        }
        assert_eq!(pool.started(), ["d1", "d2"]);
        // Another tenant's text, more than one of it, and mallory's own.
        for (tenant, name) in [("acme", "t1"), ("mallory", "t2")] {
            pool.arrive(Lane::Text, tenant, name);
        }
        assert_eq!(pool.started(), ["t1", "t2"]);
        // Another tenant's drawing has a share too, and only one.
        for name in ["d5", "d6"] {
            pool.arrive(Lane::Images, "acme", name);
        }
        assert_eq!(pool.started(), ["d5"]);
        pool.end("t1");
        assert!(pool.started().is_empty(), "drawings never exceed the cores for one tenant");
    }

    #[test]
    fn slow_texts_of_one_tenant_do_not_hold_up_another() {
        let mut pool = Pool::new(1);
        for name in ["m1", "m2", "m3"] {
            pool.arrive(Lane::Text, "mallory", name);
        }
        assert_eq!(pool.started(), ["m1"]);
        pool.arrive(Lane::Text, "acme", "a1");
        assert_eq!(pool.started(), ["a1"]);
        // With more tenants than shares they take turns, however many each has queued.
        for tenant in ["globex", "initech"] {
            pool.arrive(Lane::Text, tenant, tenant);
        }
        pool.arrive(Lane::Text, "acme", "a2");
        assert!(pool.started().is_empty());
        pool.end("m1");
        assert_eq!(pool.started(), ["globex"]);
        pool.end("a1");
        assert_eq!(pool.started(), ["initech"]);
        pool.end("globex");
        assert_eq!(pool.started(), ["m2"], "its last turn is longest ago");
        pool.end("initech");
        assert_eq!(pool.started(), ["a2"]);
    }

    #[test]
    fn one_tenant_alone_has_every_core() {
        let mut pool = Pool::new(4);
        for number in 0..6 {
            pool.arrive(Lane::Images, "acme", &format!("d{number}"));
        }
        assert_eq!(pool.started(), ["d0", "d1", "d2", "d3"]);
        // A request that waits no longer leaves nothing behind.
        pool.end("d4");
        for number in [0, 1, 2, 3] {
            pool.end(&format!("d{number}"));
        }
        assert_eq!(pool.started(), ["d5"]);
        pool.end("d5");
        assert!(pool.turns.latest.is_empty() && pool.turns.running.is_empty());
    }
}
