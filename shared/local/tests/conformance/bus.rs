//! Conformance of the event bus inside one process.

use std::sync::Arc;

use async_trait::async_trait;
use everypage_core::event::Event;
use everypage_local::LocalBus;
use everypage_testkit::conformance::bus::{Subject, Subscriber};
use parking_lot::Mutex;
use tokio::sync::broadcast::Receiver;

struct BusReceiver {
    receiver: Mutex<Receiver<Event>>,
    received: Mutex<Vec<Event>>,
}

#[async_trait]
impl Subscriber for BusReceiver {
    /// Does not wait: a published event is received immediately.
    async fn received(&self, _count: usize) -> Vec<Event> {
        let (mut receiver, mut received) = (self.receiver.lock(), self.received.lock());
        received.extend(std::iter::from_fn(|| receiver.try_recv().ok()));
        received.clone()
    }
}

everypage_testkit::bus_conformance!(async {
    let bus = LocalBus::default();
    let subscriber = BusReceiver { receiver: Mutex::new(bus.subscribe()), received: Mutex::default() };
    Subject::new(Arc::new(bus), Arc::new(subscriber))
});
