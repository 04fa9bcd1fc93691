//! One exam per port. Each case is a function over the port; one macro lists them all, so no
//! adapter can leave one out. Where a port speaks to somebody, the exam has to look at the other side: a
//! suite says by a trait what it must see there, and whoever sits the exam shows it.

pub mod blobs;
pub mod bus;
pub mod flow;
pub mod notifier;
pub mod payments;
pub mod queue;
pub mod records;
pub mod vault;

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

#[macro_export]
macro_rules! flow_exam {
    ($make:expr) => {
        $crate::exam!(
            flow,
            $make,
            a_flow_that_goes_on_is_not_started_again,
            a_redriven_job_has_a_flow_anew,
            a_settled_page_is_told_to_its_flow_alone,
            settling_a_page_again_concerns_no_other,
            a_flow_that_has_ended_takes_no_pages,
            what_is_no_token_is_stale,
            a_wake_is_told_to_the_flow_that_listens,
            a_flow_that_was_not_told_is_reminded,
            a_wake_that_nobody_waits_for_is_no_error,
        );
    };
}

#[macro_export]
macro_rules! bus_exam {
    ($make:expr) => {
        $crate::exam!(
            bus,
            $make,
            an_event_is_heard_as_it_was_stored,
            a_trail_is_heard_in_order,
            every_kind_of_trail_is_heard,
            more_than_a_call_can_carry_is_heard_whole,
            publishing_nothing_tells_nobody,
            what_is_published_again_is_heard_at_least_once,
        );
    };
}

#[macro_export]
macro_rules! notifier_exam {
    ($make:expr) => {
        $crate::exam!(
            notifier,
            $make,
            a_notice_says_what_happened_and_what_can_be_done,
            a_notice_names_its_tenant_and_who_is_responsible,
            a_body_is_told_whole,
            a_subject_is_told_however_long_it_is,
            a_subject_of_many_lines_is_told,
            a_notice_without_a_subject_is_told,
        );
    };
}

#[macro_export]
macro_rules! vault_exam {
    ($make:expr) => {
        $crate::exam!(
            vault,
            $make,
            what_is_sealed_opens_again,
            a_sealed_text_shows_nothing_of_the_secret,
            another_process_opens_it,
            what_is_sealed_twice_opens_from_both,
            what_was_never_sealed_does_not_open,
            a_seal_that_was_changed_does_not_open,
            another_vault_does_not_open_it,
        );
    };
}

#[macro_export]
macro_rules! payments_exam {
    ($make:expr) => {
        $crate::exam!(
            payments,
            $make,
            money_is_taken_as_it_was_asked_for_and_once_per_key,
            a_no_is_told_from_no_answer,
            money_is_given_back_however_often_that_is_asked,
            what_was_given_back_before_it_came_is_never_taken,
        );
    };
}
