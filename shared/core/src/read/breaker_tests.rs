use super::*;
use proptest::prelude::*;

fn at(seconds: u64) -> Timestamp {
    after(Timestamp::UNIX_EPOCH, Duration::from_secs(seconds))
}

fn policy() -> BreakerPolicy {
    BreakerPolicy::default()
}

fn pass(breaker: &Breaker, now: Timestamp) -> Pass {
    match breaker.admit("me", now, &policy()) {
        Admission::Go(pass) => pass,
        other => panic!("expected to pass, got {other:?}"),
    }
}

fn opened_at(seconds: u64) -> Breaker {
    let breaker = Breaker::default();
    breaker.failed(&pass(&breaker, at(seconds)), "503", None, at(seconds), &policy()).unwrap()
}

#[test]
fn one_failure_opens_it_for_half_a_minute() {
    let breaker = opened_at(0);
    assert_eq!(breaker.state, State::Open { until: at(30) });
    assert_eq!(breaker.admit("me", at(29), &policy()), Admission::Refused);
}

#[test]
fn the_calls_in_flight_when_it_opened_count_once() {
    let closed = Breaker::default();
    let passes: Vec<Pass> = (0..20).map(|_| pass(&closed, at(0))).collect();
    let open = closed.failed(&passes[0], "timeout", None, at(3), &policy()).unwrap();
    for late in &passes[1..] {
        assert_eq!(open.failed(late, "timeout", None, at(3), &policy()), None);
        assert_eq!(open.succeeded(late, at(3), &policy()), None);
    }
}

#[test]
fn with_a_higher_threshold_one_wave_of_failures_is_still_one() {
    let policy = BreakerPolicy { failure_threshold: 3, ..policy() };
    let mut breaker = Breaker::default();
    for wave in 0..3 {
        let Admission::Go(pass) = breaker.admit("me", at(wave), &policy) else { panic!("wave {wave}") };
        for _ in 0..20 {
            breaker = breaker.failed(&pass, "503", None, at(wave), &policy).unwrap_or(breaker);
        }
        assert_eq!(breaker.failures, wave as u32 + 1);
    }
    assert!(matches!(breaker.state, State::Open { .. }));
}

#[test]
fn after_the_rest_exactly_one_probe_goes_out() {
    let open = opened_at(0);
    let Admission::Probe { pass, next } = open.admit("a", at(30), &policy()) else { panic!("no probe") };
    assert!(pass.probe);
    assert_eq!(next.admit("b", at(31), &policy()), Admission::Refused);
    // The prober died: once its lease has run out another may probe.
    assert!(matches!(next.admit("b", at(30 + 150), &policy()), Admission::Probe { .. }));
}

#[test]
fn a_good_probe_closes_it_and_a_bad_one_doubles_the_rest() {
    let open = opened_at(0);
    let Admission::Probe { pass, next } = open.admit("a", at(30), &policy()) else { panic!("no probe") };

    let closed = next.succeeded(&pass, at(31), &policy()).unwrap();
    assert_eq!((&closed.state, closed.failures, closed.trips), (&State::Closed, 0, 0));

    let again = next.failed(&pass, "503", None, at(31), &policy()).unwrap();
    assert_eq!(again.state, State::Open { until: at(31 + 60) });
}

#[test]
fn the_providers_own_word_sets_the_rest() {
    let breaker = Breaker::default();
    let open = breaker
        .failed(&pass(&breaker, at(0)), "429", Some(Duration::from_secs(7)), at(0), &policy())
        .unwrap();
    assert_eq!(open.state, State::Open { until: at(7) });
    let silly = breaker
        .failed(&pass(&breaker, at(0)), "429", Some(Duration::from_secs(1 << 40)), at(0), &policy())
        .unwrap();
    assert_eq!(silly.state, State::Open { until: at(3600) });
    // Even though the record is older than ten minutes by then.
    assert_eq!(silly.admit("me", at(3599), &policy()), Admission::Refused);
}

#[test]
fn a_record_left_alone_for_ten_minutes_expires() {
    let open = opened_at(0);
    let fresh = open.current(at(600), &policy());
    assert_eq!((fresh.state, fresh.trips), (State::Closed, 0));
    assert!(fresh.generation > open.generation);
}

#[test]
fn after_a_rest_of_more_than_ten_minutes_there_is_one_probe_too() {
    let breaker = Breaker::default();
    let rest = Some(Duration::from_secs(900));
    let open = breaker.failed(&pass(&breaker, at(0)), "429", rest, at(0), &policy()).unwrap();
    let Admission::Probe { next, .. } = open.admit("a", at(900), &policy()) else { panic!("no probe") };
    assert_eq!(next.admit("b", at(901), &policy()), Admission::Refused);
    assert_eq!(open.current(at(1500), &policy()).state, State::Closed, "not called for ten minutes");
}

#[test]
fn several_good_probes_may_be_asked_for() {
    let policy = BreakerPolicy { half_open_successes: 2, ..policy() };
    let open = opened_at(0);
    let Admission::Probe { pass, next } = open.admit("a", at(30), &policy) else { panic!("no probe") };
    let between = next.succeeded(&pass, at(31), &policy).unwrap();
    assert_eq!(between.state, State::HalfOpen { probe: None, successes: 1 });
    let Admission::Probe { pass, next } = between.admit("b", at(32), &policy) else { panic!("no probe") };
    assert_eq!(next.succeeded(&pass, at(33), &policy).unwrap().state, State::Closed);
}

proptest! {
    /// Any mix of calls, answers and waiting, by several workers over one stored breaker.
    #[test]
    fn never_two_live_probes_and_never_a_call_during_the_cooldown(steps in prop::collection::vec((0u8..4, 0usize..5, 0u64..90), 1..200)) {
        let policy = policy();
        let mut breaker = Breaker::default();
        let mut held: Vec<Option<Pass>> = vec![None; 5];
        let mut now = 0u64;
        for (action, worker, wait) in steps {
            match action {
                0 => now += wait,
                1 => {
                    let is_open = matches!(breaker.current(at(now), &policy).state, State::Open { until } if at(now) < until);
                    match breaker.admit(&worker.to_string(), at(now), &policy) {
                        Admission::Go(pass) => { prop_assert!(!is_open); held[worker] = Some(pass); }
                        Admission::Probe { pass, next } => {
                            prop_assert!(!is_open);
                            if let State::HalfOpen { probe: Some(lease), .. } = &breaker.state {
                                prop_assert!(!lease.is_valid(at(now)));
                            }
                            breaker = next;
                            held[worker] = Some(pass);
                        }
                        Admission::Refused => {}
                    }
                }
                2 => if let Some(pass) = held[worker].take() {
                    breaker = breaker.succeeded(&pass, at(now), &policy).unwrap_or(breaker);
                },
                _ => if let Some(pass) = held[worker].take() {
                    let before = breaker.current(at(now), &policy);
                    if let Some(next) = breaker.failed(&pass, "503", None, at(now), &policy) {
                        prop_assert!(next.generation > before.generation);
                        breaker = next;
                    }
                },
            }
        }
    }
}
