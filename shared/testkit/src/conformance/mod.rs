//! One conformance suite per port. Each case is a function over the port; one macro lists them all, so
//! no adapter can leave one out. Where a port sends something, the suite also needs its receiving end:
//! it declares a trait for that, which each adapter's tests implement.

pub mod blobs;
pub mod bus;
pub mod flow;
pub mod notifier;
pub mod payments;
pub mod queue;
pub mod records;
pub mod vault;

/// Makes one test per case of a suite. `$make` is an expression that builds a fresh subject and may be
/// awaited.
#[macro_export]
macro_rules! conformance_suite {
    ($suite:ident, $make:expr, $($case:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $case() {
                $crate::conformance::$suite::$case(&$make.await).await;
            }
        )+
    };
}

/// Every case of the records suite.
#[macro_export]
macro_rules! records_conformance {
    ($make:expr) => {
        $crate::conformance_suite!(
            records,
            $make,
            what_was_written_is_read_back,
            a_condition_that_does_not_hold_writes_nothing,
            a_batch_is_written_completely_or_not_at_all,
            a_stale_version_is_refused_with_the_current_record,
            exactly_one_of_many_writers_wins,
            versions_count_up_and_a_delete_needs_the_current_one,
            a_partition_is_listed_in_order_and_in_pages,
            an_index_lists_only_current_entries,
            get_many_returns_records_in_the_requested_order,
        );
    };
}

#[macro_export]
macro_rules! queue_conformance {
    ($make:expr) => {
        $crate::conformance_suite!(
            queue,
            $make,
            a_received_message_is_hidden_and_becomes_visible_again,
            a_stale_receipt_deletes_nothing,
            extending_keeps_a_message_hidden_and_zero_returns_it,
            higher_lanes_go_first_and_lower_lanes_do_not_starve,
            receives_are_counted,
            a_message_keeps_its_id_over_deliveries,
            dead_letters_stay_until_they_are_deleted,
            the_depth_of_a_lane_counts_its_undeleted_messages,
        );
    };
}

#[macro_export]
macro_rules! blobs_conformance {
    ($make:expr) => {
        $crate::conformance_suite!(
            blobs,
            $make,
            a_blob_is_written_once,
            exactly_one_of_many_writers_creates_a_blob,
            a_stored_file_can_be_opened,
            a_missing_blob_is_none,
            delete_removes_exactly_one_blob,
            delete_all_removes_exactly_one_prefix,
            a_key_cannot_escape_the_store,
        );
    };
}

#[macro_export]
macro_rules! flow_conformance {
    ($make:expr) => {
        $crate::conformance_suite!(
            flow,
            $make,
            a_running_flow_is_not_started_again,
            a_redriven_job_gets_a_new_flow,
            settled_pages_signal_only_their_own_flow,
            a_signal_that_comes_twice_is_no_error,
            a_wake_reaches_only_the_waiting_flow,
            a_reminder_wakes_a_flow_that_missed_a_change,
            a_wake_without_a_waiting_flow_is_no_error,
        );
    };
}

#[macro_export]
macro_rules! bus_conformance {
    ($make:expr) => {
        $crate::conformance_suite!(
            bus,
            $make,
            an_event_is_received_as_it_was_stored,
            a_trail_is_received_in_order,
            every_kind_of_trail_is_received,
            more_events_than_fit_in_one_call_are_all_received,
            publishing_nothing_sends_nothing,
            a_repeated_publish_is_received_at_least_once,
        );
    };
}

#[macro_export]
macro_rules! notifier_conformance {
    ($make:expr) => {
        $crate::conformance_suite!(
            notifier,
            $make,
            a_notice_arrives_with_its_subject_and_body,
            a_notice_names_its_tenant_and_responsible_person,
            a_long_body_arrives_complete,
            a_long_subject_arrives,
            a_subject_of_many_lines_arrives,
            a_notice_without_a_subject_arrives,
        );
    };
}

#[macro_export]
macro_rules! vault_conformance {
    ($make:expr) => {
        $crate::conformance_suite!(
            vault,
            $make,
            a_sealed_secret_can_be_opened,
            a_sealed_text_reveals_nothing_of_the_secret,
            another_process_can_open_a_sealed_secret,
            a_secret_sealed_twice_opens_from_both,
            a_text_that_was_never_sealed_does_not_open,
            a_changed_sealed_text_does_not_open,
            another_vault_cannot_open_a_sealed_secret,
        );
    };
}

#[macro_export]
macro_rules! payments_conformance {
    ($make:expr) => {
        $crate::conformance_suite!(
            payments,
            $make,
            a_charge_is_taken_once_per_key,
            a_declined_charge_differs_from_a_missing_reply,
            a_repeated_refund_is_made_once,
            a_charge_refunded_in_advance_is_never_taken,
        );
    };
}
