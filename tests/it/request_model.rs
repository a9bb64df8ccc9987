//! The request's state machine against a small reference model: random operations by several callers, right and wrong versions,
//! and time that passes.

use beepgrid_tests::raw::{Answer, Members};
use beepgrid_tests::stores::Kind;
use beepgrid_tests::world::World;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

#[derive(Clone, Copy, Debug)]
enum Who {
    Requester,
    Decider,
    Outsider,
    Operator,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Respond(&'static str),
    Cancel,
    Replace,
    Pass(u64),
}

#[derive(Clone, Debug)]
struct Step {
    who: Who,
    op: Op,
    right_version: bool,
}

/// What the request must look like.
#[derive(Clone, Copy, Debug)]
struct Model {
    state: &'static str,
    version: i64,
    seconds_left: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = prop_oneof![2 => Just(Who::Requester), 3 => Just(Who::Decider), 1 => Just(Who::Outsider), 1 => Just(Who::Operator)];
    let op = prop_oneof![
        3 => prop_oneof![Just("approved"), Just("denied"), Just("answered"), Just("completed")].prop_map(Op::Respond),
        1 => Just(Op::Cancel),
        1 => Just(Op::Replace),
        2 => prop_oneof![Just(1_u64), Just(30), Just(59), Just(60)].prop_map(Op::Pass),
    ];
    let step = (who, op, prop::bool::weighted(0.6)).prop_map(|(who, op, right_version)| Step { who, op, right_version });
    prop::collection::vec(step, 1..9)
}

impl Model {
    /// The code that the contract fixes for this step, in its order of refusals; empty when it succeeds.
    fn expect(&mut self, step: &Step) -> &'static str {
        let valid = |outcome: &str| matches!(outcome, "approved" | "denied");
        let may = match (step.op, step.who) {
            (Op::Pass(seconds), _) => {
                self.seconds_left = self.seconds_left.saturating_sub(seconds);
                if self.seconds_left == 0 && self.state == "open" {
                    (self.state, self.version) = ("expired", self.version + 1);
                }
                return "";
            }
            (_, Who::Outsider) => return "not_found",
            (Op::Respond(_), who) => matches!(who, Who::Decider),
            (Op::Cancel, who) => matches!(who, Who::Requester | Who::Operator),
            (Op::Replace, who) => matches!(who, Who::Requester),
        };
        if !may {
            return "forbidden";
        }
        if self.state != "open" {
            return "request_closed";
        }
        if !step.right_version {
            return "version_conflict";
        }
        let next = match step.op {
            Op::Respond(outcome) if !valid(outcome) => return "invalid_request",
            Op::Respond(_) => "resolved",
            Op::Cancel => "cancelled",
            Op::Replace | Op::Pass(_) => "superseded",
        };
        (self.state, self.version) = (next, self.version + 1);
        ""
    }
}

async fn perform(w: &World, id: &str, at: usize, step: &Step, version: i64) -> Option<Answer> {
    let api = match step.who {
        Who::Requester => &w.builder.api,
        Who::Decider => &w.ann.api,
        Who::Outsider => &w.bob.api,
        Who::Operator => &w.owner.api,
    };
    let version = if step.right_version { version } else { version + 7 };
    Some(match step.op {
        Op::Respond(outcome) => {
            api.post(&format!("/requests/{id}/respond"), json!({"outcome": outcome, "version": version})).await
        }
        Op::Cancel => api.post(&format!("/requests/{id}/cancel"), json!({"version": version})).await,
        Op::Replace => {
            let body = json!({"version": version, "body": "anew"});
            api.post(&format!("/requests/{id}/replace"), body).key(&format!("{id}-{at}")).await
        }
        Op::Pass(seconds) => {
            w.advance(seconds);
            return None;
        }
    })
}

async fn agree(w: &World, steps: &[Step]) {
    let body = json!({"target": w.ann.target(), "body": "q", "kind": "approval", "expires_at": w.after(60).to_string()});
    let id = w.builder.api.post("/requests", body).await.created().id();
    let mut model = Model { state: "open", version: 1, seconds_left: 60 };
    for (at, step) in steps.iter().enumerate() {
        let before = model;
        let code = model.expect(step);
        let answer = perform(w, &id, at, step, before.version).await;
        if let Some(answer) = answer {
            // A wrong outcome of the right kind of caller may be refused before or after the state and version are looked at.
            let early = matches!(step.op, Op::Respond("answered" | "completed"))
                && !matches!(step.who, Who::Outsider)
                && answer.code() == "invalid_request";
            assert!(early || answer.code() == code, "step {at} {step:?} at {before:?}: {code:?} expected, got {}", answer.text);
            assert_eq!(early || !code.is_empty(), answer.status >= 400);
        }
        let seen = w.builder.api.get(&format!("/requests/{id}")).await.ok();
        assert_eq!(
            (seen["state"].as_str(), seen.n("version")),
            (Some(model.state), model.version),
            "after {at} {step:?} at {before:?}"
        );
        assert_eq!(seen.get("response").is_some(), model.state == "resolved");
        assert_eq!(seen.get("closed_at").is_some(), model.state != "open");
    }
}

fn run(kind: Kind, cases: u32) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if runtime.block_on(beepgrid_tests::stores::is_missing(kind)) {
        return;
    }
    let world = runtime.block_on(World::open(kind));
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&steps(), |steps| {
            runtime.block_on(agree(&world, &steps));
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_request_follows_its_state_machine_on_sqlite() {
    run(Kind::Sqlite, 150);
}

#[test]
fn a_request_follows_its_state_machine_on_postgres() {
    run(Kind::Postgres, 40);
}
