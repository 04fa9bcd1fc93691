//! The doubles sit the same exams as the real adapters.

use std::sync::Arc;

use everypage_core::domain::ids::Priority;
use everypage_testkit::{
    clock::ManualClock,
    memory::{MemoryBlobs, MemoryQueue, MemoryRecords},
    suites::queue::Subject,
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
        Subject::new(Arc::new(MemoryQueue::new(clock.clone())), clock)
    });
}

mod queue_with_a_place_for_the_dead {
    use super::*;
    everypage_testkit::queue_exam!(async {
        let clock = Arc::new(ManualClock::default());
        let queue = Arc::new(MemoryQueue::burying_after(clock.clone(), 9));
        queue.lay_dead(Priority::High, "poison");
        Subject::new(queue, clock).with_a_dead_message()
    });
}
