//! One exam per port. Each case is a function over the port; one macro lists them all, so no
//! adapter can leave one out.

pub mod blobs;
pub mod queue;
pub mod records;

/// Makes one test per case of a suite. `$make` is an expression that builds the subject anew and
/// may be awaited.
#[macro_export]
macro_rules! exam {
    ($suite:ident, $make:expr, $($case:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $case() {
                $crate::suites::$suite::$case(&$make.await).await;
            }
        )+
    };
}

/// Every case of the records exam.
#[macro_export]
macro_rules! records_exam {
    ($make:expr) => {
        $crate::exam!(
            records,
            $make,
            what_was_written_is_read_back,
            a_condition_that_does_not_hold_writes_nothing,
            a_batch_is_whole_or_absent,
            a_stale_version_is_refused_and_shown_what_is_there,
            of_many_writers_exactly_one_wins,
            versions_count_up_and_deleting_needs_the_current_one,
            a_partition_is_listed_in_order_and_in_pages,
            an_index_lists_only_what_is_entered_and_forgets_what_left,
            many_are_read_in_the_order_asked,
        );
    };
}

#[macro_export]
macro_rules! queue_exam {
    ($make:expr) => {
        $crate::exam!(
            queue,
            $make,
            a_message_is_hidden_while_it_is_worked_on_and_comes_back,
            a_deleted_message_is_gone_and_a_void_receipt_deletes_nothing,
            extending_keeps_a_message_and_zero_gives_it_back,
            higher_lanes_go_first_and_lower_ones_do_not_starve,
            receives_are_counted,
            a_message_keeps_its_id_over_deliveries,
            the_dead_lie_until_they_are_deleted,
            a_lane_is_as_deep_as_it_has_messages_that_are_not_done,
        );
    };
}

#[macro_export]
macro_rules! blobs_exam {
    ($make:expr) => {
        $crate::exam!(
            blobs,
            $make,
            a_blob_is_written_once,
            of_many_writers_of_one_key_exactly_one_creates_it,
            a_file_is_taken_in_and_opened_again,
            what_is_not_there_is_none,
            one_blob_is_deleted_and_no_other,
            a_prefix_is_deleted_whole_and_nothing_else,
            a_key_cannot_leave_its_place,
        );
    };
}
