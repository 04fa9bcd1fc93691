use super::*;
use proptest::prelude::*;

fn at(seconds: u64) -> Timestamp {
    after(Timestamp::UNIX_EPOCH, Duration::from_secs(seconds))
}

fn policy() -> BreakerPolicy {
    BreakerPolicy::default()
}

fn pass(breaker: &Breaker, now: Timestamp) -> Pass {
    match breaker.admit("me", Urgency::Normal, now, &policy()) {
        Admission::Go(pass) => pass,
        other => panic!("expected to pass, got {other:?}"),
    }
}

/// The breaker after one more failure.
fn failed(breaker: &Breaker, pass: &Pass, now: Timestamp) -> Option<Breaker> {
    breaker.failed(pass, FailureKind::Transient, "503", now, &policy())
}

fn opened_at(seconds: u64) -> Breaker {
    let mut breaker = Breaker::default();
    for _ in 0..3 {
        breaker = failed(&breaker, &pass(&breaker, at(seconds)), at(seconds)).unwrap();
    }
    breaker
}

#[test]
fn three_failures_in_a_row_open_it_for_half_a_minute() {
    let mut breaker = Breaker::default();
    for failures in 1..3 {
        breaker = failed(&breaker, &pass(&breaker, at(0)), at(0)).unwrap();
        assert_eq!((&breaker.state, breaker.failures), (&State::Closed, failures));
    }
    let breaker = opened_at(0);
    assert_eq!(breaker.state, State::Open { until: at(30) });
    assert_eq!(breaker.admit("me", Urgency::Normal, at(29), &policy()), Admission::Refused);
    assert_eq!(breaker.available_at(Urgency::Normal, at(29), &policy()), Some(at(30)));
}

#[test]
fn a_success_between_failures_clears_the_count() {
    let mut breaker = Breaker::default();
    for _ in 0..10 {
        breaker = failed(&breaker, &pass(&breaker, at(0)), at(0)).unwrap();
        breaker = failed(&breaker, &pass(&breaker, at(0)), at(0)).unwrap();
        breaker = breaker.succeeded(&pass(&breaker, at(0)), at(0), &policy()).unwrap();
        assert_eq!((&breaker.state, breaker.failures), (&State::Closed, 0));
    }
}

#[test]
fn the_calls_in_flight_when_it_opened_belong_to_the_same_outage() {
    let closed = Breaker::default();
    let passes: Vec<Pass> = (0..20).map(|_| pass(&closed, at(0))).collect();
    let mut breaker = closed;
    for pass in &passes[..3] {
        breaker = failed(&breaker, pass, at(3)).unwrap();
    }
    assert_eq!(breaker.state, State::Open { until: at(33) });
    for late in &passes[3..] {
        assert_eq!(failed(&breaker, late, at(9)), None);
        assert_eq!(breaker.succeeded(late, at(9), &policy()), None);
    }
}

#[test]
fn a_bad_key_opens_it_immediately_and_no_time_repairs_it() {
    let breaker = Breaker::default();
    let kind = FailureKind::Configuration(Certainty::Certain);
    let open = breaker.failed(&pass(&breaker, at(0)), kind, "401", at(0), &policy()).unwrap();
    assert_eq!(open.state, State::Open { until: at(30) });
    assert!(open.misconfigured);
}

/// Seconds at which a model that is down from 0 on is probed for pages with this urgency.
fn probes(urgency: Urgency, kind: FailureKind, end: u64) -> Vec<u64> {
    let (mut breaker, mut probes) = (Breaker::default(), vec![]);
    for _ in 0..3 {
        let pass = pass(&breaker, at(0));
        breaker = breaker.failed(&pass, kind, "down", at(0), &policy()).unwrap();
        if breaker.state != State::Closed {
            break;
        }
    }
    for now in 1..end {
        if let Admission::Probe { pass, next } = breaker.admit("a", urgency, at(now), &policy()) {
            probes.push(now);
            breaker = next.failed(&pass, kind, "down", at(now), &policy()).unwrap();
        }
    }
    probes
}

#[test]
fn pages_without_another_model_probe_when_the_outage_has_lasted_an_eighth_longer() {
    use FailureKind::*;
    assert_eq!(probes(Urgency::Normal, Transient, 300), [30, 90, 210]);
    let early = probes(Urgency::NoOtherModel, Transient, 300);
    assert_eq!(early[..12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15]);
    assert!(early.last() > Some(&289) && early.len() < 50, "{early:?}");
    // One early probe confirms that the settings are wrong.
    assert_eq!(probes(Urgency::NoOtherModel, Configuration(Certainty::Certain), 200), [5, 65, 185]);
    // Where the provider's words may have another cause, it takes half a minute of them.
    let doubtful = probes(Urgency::NoOtherModel, Configuration(Certainty::Doubtful), 400);
    assert_eq!(doubtful, [5, 10, 15, 20, 25, 30, 330]);
}

#[test]
fn wrong_settings_are_confirmed_by_a_probe() {
    let (breaker, kind) = (Breaker::default(), FailureKind::Configuration(Certainty::Certain));
    let open = breaker.failed(&pass(&breaker, at(0)), kind, "401", at(0), &policy()).unwrap();
    assert!(!open.is_confirmed_misconfigured());
    let Admission::Probe { pass, next } = open.admit("a", Urgency::NoOtherModel, at(5), &policy()) else {
        panic!("no probe")
    };
    assert!(!next.is_confirmed_misconfigured(), "the probe's result decides");
    assert!(next.failed(&pass, kind, "401", at(5), &policy()).unwrap().is_confirmed_misconfigured());
}

#[test]
fn after_the_cooldown_exactly_one_probe_goes_out() {
    let open = opened_at(0);
    let Admission::Probe { pass, next } = open.admit("a", Urgency::Normal, at(30), &policy()) else {
        panic!("no probe")
    };
    assert!(pass.probe);
    assert_eq!(next.admit("b", Urgency::Normal, at(31), &policy()), Admission::Refused);
    // The prober died: once its lease has run out another may probe.
    assert!(matches!(next.admit("b", Urgency::Normal, at(30 + 150), &policy()), Admission::Probe { .. }));
}

#[test]
fn a_good_probe_closes_it_and_a_bad_one_doubles_the_cooldown() {
    let open = opened_at(0);
    let Admission::Probe { pass, next } = open.admit("a", Urgency::Normal, at(30), &policy()) else {
        panic!("no probe")
    };

    let closed = next.succeeded(&pass, at(31), &policy()).unwrap();
    assert_eq!((&closed.state, closed.failures, closed.trips), (&State::Closed, 0, 0));

    let again = failed(&next, &pass, at(31)).unwrap();
    assert_eq!(again.state, State::Open { until: at(31 + 60) });
}

#[test]
fn a_record_left_alone_for_ten_minutes_expires() {
    let open = opened_at(0);
    let fresh = open.current(at(600), &policy());
    assert_eq!((fresh.state, fresh.trips), (State::Closed, 0));
    assert!(fresh.generation > open.generation);
}

#[test]
fn after_a_cooldown_of_more_than_ten_minutes_there_is_one_probe_too() {
    let cooldown = Duration::from_secs(900);
    let policy =
        BreakerPolicy { base_cooldown: cooldown, max_cooldown: cooldown, failure_threshold: 1, ..policy() };
    let breaker = Breaker::default();
    let kind = FailureKind::Transient;
    let open = breaker.failed(&pass(&breaker, at(0)), kind, "503", at(0), &policy).unwrap();
    let Admission::Probe { next, .. } = open.admit("a", Urgency::Normal, at(900), &policy) else {
        panic!("no probe")
    };
    assert_eq!(next.admit("b", Urgency::Normal, at(901), &policy), Admission::Refused);
    assert_eq!(open.current(at(1500), &policy).state, State::Closed, "not called for ten minutes");
}

#[test]
fn several_good_probes_may_be_asked_for() {
    let policy = BreakerPolicy { half_open_successes: 2, ..policy() };
    let open = opened_at(0);
    let Admission::Probe { pass, next } = open.admit("a", Urgency::Normal, at(30), &policy) else {
        panic!("no probe")
    };
    let between = next.succeeded(&pass, at(31), &policy).unwrap();
    assert_eq!(between.state, State::HalfOpen { probe: None, successes: 1 });
    let Admission::Probe { pass, next } = between.admit("b", Urgency::Normal, at(32), &policy) else {
        panic!("no probe")
    };
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
                    match breaker.admit(&worker.to_string(), Urgency::Normal, at(now), &policy) {
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
                    if let Some(next) = failed(&breaker, &pass, at(now)) {
                        let is_open = matches!(next.state, State::Open { .. });
                        prop_assert!(next.generation > before.generation || !is_open);
                        breaker = next;
                    }
                },
            }
        }
    }
}
