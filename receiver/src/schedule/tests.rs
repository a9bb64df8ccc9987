use std::sync::Arc;
use std::time::Duration;

use super::*;

fn now() -> Timestamp {
    Timestamp::from_micros(1_000_000_000)
}

/// A row as `m1@c` says: a message `m1` in conversation `c`; `r` is a result, `w` a withdrawal, `q` a request.
fn row(text: &str) -> Row {
    let (name, conversation) = text.split_once('@').unwrap();
    let order: i64 = name[1..].parse().unwrap();
    let request = Some(RequestId::new(format!("req_{}", &name[1..])));
    let (lane, request) = match &name[..1] {
        "m" => (Lane::Ordinary, None),
        "q" => (Lane::Ordinary, request),
        "r" => (Lane::Result, request),
        "w" => (Lane::Notice, request),
        other => panic!("no row of kind {other}"),
    };
    Row {
        id: DeliveryId::new(name),
        conversation: ConversationId::new(conversation),
        lane,
        is_request: name.starts_with('q'),
        request,
        created_at: Timestamp::from_micros(order),
        phase: Phase::Pending,
        next_attempt_at: None,
        as_input: false,
        refused_at: None,
    }
}

struct Case {
    rows: Vec<Row>,
    host: HostState,
    capabilities: Capabilities,
    mode: BusyMode,
    input_call: bool,
    result_call: bool,
    idle_is_known: bool,
}

fn case(mode: BusyMode, work: Work, rows: &[&str]) -> Case {
    let line = crate::binding::Reporter::new();
    let mut host = line.snapshot(|_| true).host;
    host.work = work;
    let mut capabilities = Capabilities::new();
    capabilities.steer = true;
    capabilities.resume = true;
    capabilities.reports_idle = true;
    let rows = rows.iter().map(|text| row(text)).collect();
    Case { rows, host, capabilities, mode, input_call: false, result_call: false, idle_is_known: true }
}

impl Case {
    fn with(mut self, name: &str, change: impl FnOnce(&mut Row)) -> Self {
        change(self.rows.iter_mut().find(|row| row.id.as_str() == name).unwrap());
        self
    }

    fn phase(self, name: &str, phase: Phase) -> Self {
        self.with(name, |row| row.phase = phase)
    }

    fn able(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        change(&mut self.capabilities);
        self
    }

    fn host(mut self, change: impl FnOnce(&mut HostState)) -> Self {
        change(&mut self.host);
        self
    }

    fn next(&self) -> Action {
        let retry = RetryPolicy::default();
        next(&View {
            rows: &self.rows,
            host: &self.host,
            idle_is_known: self.idle_is_known,
            epoch: 7,
            capabilities: self.capabilities,
            mode: self.mode,
            retry: &retry,
            now: now(),
            input_call: self.input_call,
            result_call: self.result_call,
        })
    }
}

const BUSY: Work = Work::Busy { joinable: true };
const SHUT: Work = Work::Busy { joinable: false };
const BOTH: [BusyMode; 2] = [BusyMode::Steer, BusyMode::Queue];

fn start(id: &str) -> Action {
    Action::Submit(DeliveryId::new(id), BusyMode::Queue)
}

fn steer(id: &str) -> Action {
    Action::Submit(DeliveryId::new(id), BusyMode::Steer)
}

fn resume(id: &str) -> Action {
    Action::Resume(DeliveryId::new(id))
}

fn reconcile(id: &str) -> Action {
    Action::Reconcile(DeliveryId::new(id))
}

#[test]
fn steer_joins_running_work_and_queue_does_not() {
    assert_eq!(case(BusyMode::Steer, BUSY, &["m1@a", "m2@a"]).next(), steer("m1"));
    assert_eq!(case(BusyMode::Queue, BUSY, &["m1@a", "m2@a"]).next(), Action::Nothing);
}

#[test]
fn nothing_joins_work_that_cannot_be_joined_now() {
    assert_eq!(case(BusyMode::Steer, SHUT, &["m1@a"]).next(), Action::Nothing);
}

#[test]
fn an_idle_host_starts_with_the_oldest_of_all_conversations_in_either_mode() {
    for mode in BOTH {
        assert_eq!(case(mode, Work::Idle, &["m1@b", "m2@a", "m3@b"]).next(), start("m1"));
    }
}

#[test]
fn a_host_that_never_says_whether_it_works_is_steered_into() {
    let mut unknown = case(BusyMode::Steer, Work::Idle, &["m1@a"]);
    unknown.idle_is_known = false;
    assert_eq!(unknown.next(), steer("m1"));
}

#[test]
fn one_submit_at_a_time() {
    for mode in BOTH {
        let mut one = case(mode, Work::Idle, &["m1@a", "m2@b"]).phase("m1", Phase::Calling);
        one.input_call = true;
        assert_eq!(one.next(), Action::Nothing);
    }
}

#[test]
fn doubt_is_settled_before_anything_else() {
    for mode in BOTH {
        for work in [Work::Idle, BUSY, SHUT] {
            let doubt = case(mode, work, &["m1@a", "r2@a", "m3@b"]).phase("m3", Phase::Undecided { asked: None });
            assert_eq!(doubt.next(), reconcile("m3"));
        }
    }
}

#[test]
fn an_undecided_row_blocks_its_conversation_and_no_other() {
    let held = case(BusyMode::Queue, Work::Idle, &["m1@a", "m2@a", "m3@b"]).phase("m1", Phase::Undecided { asked: Some(0) });
    assert_eq!(held.next(), start("m3"));
}

#[test]
fn an_undecided_row_is_asked_about_again_when_a_turn_has_ended() {
    let held = case(BusyMode::Queue, BUSY, &["m1@a"]).phase("m1", Phase::Undecided { asked: Some(3) });
    assert_eq!(held.next(), Action::Nothing);
    assert_eq!(held.host(|host| host.turn = 4).next(), reconcile("m1"));
}

#[test]
fn a_row_without_proof_is_reconciled_once_its_turn_is_over() {
    let taken = case(BusyMode::Queue, Work::Idle, &["m1@a", "m2@a"]).phase("m1", Phase::Taken { turn: 0 });
    assert_eq!(taken.host(|host| host.turn = 1).next(), reconcile("m1"));
}

#[test]
fn a_row_held_after_too_many_attempts_lets_its_conversation_go_on() {
    assert_eq!(case(BusyMode::Queue, Work::Idle, &["m1@a", "m2@a"]).phase("m1", Phase::Parked).next(), start("m2"));
}

#[test]
fn a_retry_that_is_not_due_blocks_its_conversation_and_wakes_the_schedule() {
    let at = now().plus(Duration::from_secs(3));
    let waiting =
        || case(BusyMode::Queue, Work::Idle, &["m1@a", "m2@a", "m3@b"]).with("m1", |row| row.next_attempt_at = Some(at));
    assert_eq!(waiting().next(), start("m3"));
    assert_eq!(waiting().phase("m3", Phase::Parked).next(), Action::WaitUntil(at));
    assert_eq!(waiting().with("m1", |row| row.next_attempt_at = Some(now())).next(), start("m1"));
}

#[test]
fn what_was_refused_for_now_waits_for_the_next_report() {
    assert_eq!(case(BusyMode::Queue, Work::Idle, &["m1@a"]).with("m1", |row| row.refused_at = Some(7)).next(), Action::Nothing);
    assert_eq!(case(BusyMode::Queue, Work::Idle, &["m1@a"]).with("m1", |row| row.refused_at = Some(6)).next(), start("m1"));
}

#[test]
fn a_later_row_follows_a_taken_one_only_where_order_is_promised() {
    let taken = || case(BusyMode::Steer, BUSY, &["m1@a", "m2@a"]).phase("m1", Phase::Taken { turn: 0 });
    assert_eq!(taken().next(), Action::Nothing);
    assert_eq!(taken().able(|able| able.ordered = true).next(), steer("m2"));
}

#[test]
fn a_result_resumes_its_waiter_in_either_mode_past_everything() {
    for mode in BOTH {
        for work in [Work::Idle, BUSY, SHUT] {
            assert_eq!(case(mode, work, &["m1@a", "m2@a", "r3@a"]).next(), resume("r3"));
        }
    }
}

#[test]
fn a_result_does_not_wait_for_a_submit_that_hangs() {
    let mut hanging = case(BusyMode::Queue, Work::Idle, &["m1@a", "r2@a"]).phase("m1", Phase::Calling);
    hanging.input_call = true;
    assert_eq!(hanging.next(), resume("r2"));
}

#[test]
fn one_stuck_result_stops_no_other() {
    let stuck = case(BusyMode::Queue, SHUT, &["r1@a", "r2@a"]).phase("r1", Phase::Undecided { asked: Some(0) });
    assert_eq!(stuck.next(), resume("r2"));
}

#[test]
fn without_resume_a_result_goes_in_as_input_before_ordinary_rows() {
    for mode in BOTH {
        let plain = |work| case(mode, work, &["m1@a", "r2@a"]).able(|able| able.resume = false);
        assert_eq!(plain(Work::Idle).next(), start("r2"));
        assert_eq!(plain(BUSY).next(), steer("r2"));
        assert_eq!(plain(SHUT).next(), Action::Nothing);
        assert_eq!(case(mode, BUSY, &["r2@a"]).with("r2", |row| row.as_input = true).next(), steer("r2"));
    }
}

#[test]
fn a_result_that_nobody_waits_for_opens_a_turn_or_joins_if_the_host_wants_that() {
    let unclaimed = |work| {
        case(BusyMode::Queue, work, &["m1@a", "r2@a"]).host(|host| {
            host.waiters = Waiters::Only(Arc::new(BTreeSet::new()));
            host.results_join = false;
        })
    };
    assert_eq!(unclaimed(Work::Idle).next(), start("r2"));
    assert_eq!(unclaimed(BUSY).next(), Action::Nothing);
    assert_eq!(unclaimed(BUSY).host(|host| host.results_join = true).next(), steer("r2"));
    let awaited = BTreeSet::from([RequestId::new("req_2")]);
    assert_eq!(unclaimed(SHUT).host(|host| host.waiters = Waiters::Only(Arc::new(awaited))).next(), resume("r2"));
}

#[test]
fn a_withdrawal_never_overtakes_its_request() {
    let both = |phase| case(BusyMode::Steer, BUSY, &["q1@a", "w1@a"]).phase("q1", phase);
    assert_eq!(both(Phase::Taken { turn: 0 }).next(), Action::Nothing);
    assert_eq!(case(BusyMode::Steer, BUSY, &["w1@a", "m2@a"]).next(), steer("w1"));
    assert_eq!(case(BusyMode::Queue, BUSY, &["w1@a", "m2@a"]).next(), steer("w1"));
}

#[test]
fn a_durable_queue_of_the_runtime_is_used_while_it_works() {
    let queue = case(BusyMode::Queue, SHUT, &["m1@a"]).able(|able| able.durable_queue = true);
    assert_eq!(queue.next(), start("m1"));
}

#[test]
fn a_runtime_that_cannot_be_reached_is_left_alone() {
    let mut case =
        case(BusyMode::Steer, Work::Idle, &["m1@a", "r2@b"]).with("m1", |row| row.phase = Phase::Undecided { asked: None });
    case.host.trouble = Some("nobody listens".to_owned());
    assert_eq!(case.next(), Action::Nothing);
    case.host.trouble = None;
    assert_eq!(case.next(), Action::Reconcile("m1".into()));
}

#[test]
fn where_steering_starts_turns_a_steering_receiver_does_nothing_else() {
    let mut case = case(BusyMode::Steer, Work::Idle, &["m1@a"]);
    case.capabilities.steer_starts = true;
    assert_eq!(case.next(), Action::Submit("m1".into(), BusyMode::Steer));
    case.mode = BusyMode::Queue;
    assert_eq!(case.next(), Action::Submit("m1".into(), BusyMode::Queue));
}
