//! The exam of the bus inside one process.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use everypage_core::domain::event::Event;
use everypage_local::LocalBus;
use everypage_testkit::suites::bus::{Listener, Subject};
use tokio::sync::broadcast::Receiver;

struct Inside {
    receiver: Mutex<Receiver<Event>>,
    heard: Mutex<Vec<Event>>,
}

#[async_trait]
impl Listener for Inside {
    /// What was published is there at once.
    async fn heard(&self, _count: usize) -> Vec<Event> {
        let (mut receiver, mut heard) = (self.receiver.lock().unwrap(), self.heard.lock().unwrap());
        heard.extend(std::iter::from_fn(|| receiver.try_recv().ok()));
        heard.clone()
    }
}

everypage_testkit::bus_exam!(async {
    let bus = LocalBus::default();
    let listener = Inside { receiver: Mutex::new(bus.subscribe()), heard: Mutex::default() };
    Subject::new(Arc::new(bus), Arc::new(listener))
});
