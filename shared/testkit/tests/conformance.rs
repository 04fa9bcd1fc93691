//! The doubles sit the same exams as the real adapters.

use std::{fs, path::Path, sync::Arc};

use async_trait::async_trait;
use everypage_core::{
    domain::{event::Event, ids::Priority},
    ports::notifier::Notice,
};
use everypage_testkit::{
    clock::ManualClock,
    memory::{
        MemoryBlobs, MemoryFlow, MemoryPayments, MemoryQueue, MemoryRecords, PlainVault, RecordingBus,
        RecordingNotifier,
    },
    suites,
};

mod records {
    use super::*;
    everypage_testkit::records_exam!(async { MemoryRecords::default() });
}

mod blobs {
    use super::*;
    everypage_testkit::blobs_exam!(async { MemoryBlobs::default() });
}

mod queue {
    use super::*;
    everypage_testkit::queue_exam!(async {
        let clock = Arc::new(ManualClock::default());
        suites::queue::Subject::new(Arc::new(MemoryQueue::new(clock.clone())), clock)
    });
}

mod queue_with_a_place_for_the_dead {
    use super::*;
    everypage_testkit::queue_exam!(async {
        let clock = Arc::new(ManualClock::default());
        let queue = Arc::new(MemoryQueue::burying_after(clock.clone(), 9));
        queue.lay_dead(Priority::High, "poison");
        suites::queue::Subject::new(queue, clock).with_a_dead_message()
    });
}

mod flow {
    use super::*;
    everypage_testkit::flow_exam!(async {
        let flow = Arc::new(MemoryFlow::default());
        suites::flow::Subject::new(flow.clone(), flow)
    });
}

mod bus {
    use super::*;

    struct Recorded(Arc<RecordingBus>);

    #[async_trait]
    impl suites::bus::Listener for Recorded {
        async fn heard(&self, _count: usize) -> Vec<Event> {
            self.0.events()
        }
    }

    everypage_testkit::bus_exam!(async {
        let bus = Arc::new(RecordingBus::default());
        suites::bus::Subject::new(bus.clone(), Arc::new(Recorded(bus)))
    });
}

mod notifier {
    use super::*;

    struct Recorded(Arc<RecordingNotifier>);

    #[async_trait]
    impl suites::notifier::Reader for Recorded {
        async fn told(&self, _count: usize) -> Vec<Notice> {
            self.0.notices()
        }
    }

    everypage_testkit::notifier_exam!(async {
        let notifier = Arc::new(RecordingNotifier::default());
        suites::notifier::Subject::new(notifier.clone(), Arc::new(Recorded(notifier)))
    });
}

mod vault {
    use super::*;
    everypage_testkit::vault_exam!(async {
        let [one, again, other] =
            ["key", "key", "another key"].map(|key| Arc::new(PlainVault::with_key(key)));
        suites::vault::Subject::new(one, again, other)
    });
}

mod payments {
    use super::*;
    everypage_testkit::payments_exam!(async {
        let payments = Arc::new(MemoryPayments::default());
        suites::payments::Subject::new(payments.clone(), payments)
    });
}

#[test]
fn every_case_is_in_the_exam_of_its_suite() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/suites");
    let listed = fs::read_to_string(folder.join("mod.rs")).unwrap();
    let mut suites = 0;
    for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let suite = file.file_stem().unwrap().to_str().unwrap().to_owned();
        if suite == "mod" {
            continue;
        }
        suites += 1;
        let exam = listed.split(&format!("macro_rules! {suite}_exam ")).nth(1).unwrap();
        let exam = exam.split("macro_rules!").next().unwrap();
        let source = fs::read_to_string(&file).unwrap();
        for case in source.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
            let name = case.split('(').next().unwrap();
            assert!(exam.contains(&format!(" {name},")), "{suite}: {name} is in no exam");
        }
    }
    assert_eq!(suites, 8);
}
