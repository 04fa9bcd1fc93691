//! The test doubles run the same conformance suites as the real adapters.

use std::{fs, path::Path, sync::Arc};

use async_trait::async_trait;
use everypage_core::{event::Event, ids::Priority, ports::notifier::Notice};
use everypage_testkit::{
    clock::ManualClock,
    conformance,
    memory::{
        MemoryBlobs, MemoryFlow, MemoryPayments, MemoryQueue, MemoryRecords, PlainVault, RecordingBus,
        RecordingNotifier,
    },
};

mod records {
    use super::*;
    everypage_testkit::records_conformance!(async { MemoryRecords::default() });
}

mod blobs {
    use super::*;
    everypage_testkit::blobs_conformance!(async { MemoryBlobs::default() });
}

mod queue {
    use super::*;
    everypage_testkit::queue_conformance!(async {
        let clock = Arc::new(ManualClock::default());
        conformance::queue::Subject::new(Arc::new(MemoryQueue::new(clock.clone())), clock)
    });
}

mod queue_with_a_dead_letter_queue {
    use super::*;
    everypage_testkit::queue_conformance!(async {
        let clock = Arc::new(ManualClock::default());
        let queue = Arc::new(MemoryQueue::with_dead_letter_queue(clock.clone(), 9));
        queue.put_dead_letter(Priority::High, "poison");
        conformance::queue::Subject::new(queue, clock).with_dead_letter_queue()
    });
}

mod flow {
    use super::*;
    everypage_testkit::flow_conformance!(async {
        let flow = Arc::new(MemoryFlow::default());
        conformance::flow::Subject::new(flow.clone(), flow)
    });
}

mod bus {
    use super::*;

    struct Recorded(Arc<RecordingBus>);

    #[async_trait]
    impl conformance::bus::Subscriber for Recorded {
        async fn received(&self, _count: usize) -> Vec<Event> {
            self.0.events()
        }
    }

    everypage_testkit::bus_conformance!(async {
        let bus = Arc::new(RecordingBus::default());
        conformance::bus::Subject::new(bus.clone(), Arc::new(Recorded(bus)))
    });
}

mod notifier {
    use super::*;

    struct Recorded(Arc<RecordingNotifier>);

    #[async_trait]
    impl conformance::notifier::Recipient for Recorded {
        async fn notices(&self, _count: usize) -> Vec<Notice> {
            self.0.notices()
        }
    }

    everypage_testkit::notifier_conformance!(async {
        let notifier = Arc::new(RecordingNotifier::default());
        conformance::notifier::Subject::new(notifier.clone(), Arc::new(Recorded(notifier)))
    });
}

mod vault {
    use super::*;
    everypage_testkit::vault_conformance!(async {
        let [one, again, other] =
            ["key", "key", "another key"].map(|key| Arc::new(PlainVault::with_key(key)));
        conformance::vault::Subject::new(one, again, other)
    });
}

mod payments {
    use super::*;
    everypage_testkit::payments_conformance!(async {
        let payments = Arc::new(MemoryPayments::default());
        conformance::payments::Subject::new(payments.clone(), payments)
    });
}

#[test]
fn every_case_is_listed_in_the_macro_of_its_suite() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance");
    let listed = fs::read_to_string(folder.join("mod.rs")).unwrap();
    let mut suites = 0;
    for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let suite = file.file_stem().unwrap().to_str().unwrap().to_owned();
        if suite == "mod" {
            continue;
        }
        suites += 1;
        let listed = listed.split(&format!("macro_rules! {suite}_conformance ")).nth(1).unwrap();
        let listed = listed.split("macro_rules!").next().unwrap();
        let source = fs::read_to_string(&file).unwrap();
        for case in source.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
            let name = case.split('(').next().unwrap();
            assert!(listed.contains(&format!(" {name},")), "{suite}: {name} is in no macro");
        }
    }
    assert_eq!(suites, 8);
}
