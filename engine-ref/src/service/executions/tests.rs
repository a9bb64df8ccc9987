//! The reports of an execution as a state machine.

use beepgrid::Timestamp;
use proptest::prelude::*;

use super::*;

fn execution(state: ExecutionState, result: Value) -> ExecutionRow {
    ExecutionRow {
        id: "exe_1".into(),
        request_id: "req_1".into(),
        executor_id: "agt_1".into(),
        operation_key: "op".into(),
        action: Action::new("deploy", &"agt_1".into(), "staging", "op"),
        state,
        result,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    }
}

fn reports() -> impl Strategy<Value = Vec<ReportInput>> {
    let one = (prop::sample::select(REPORTS), 0..2_i64);
    prop::collection::vec(one.prop_map(|(state, result)| ReportInput::new(state.into()).result(result)), 0..12)
}

proptest! {
    #[test]
    fn nothing_but_itself_follows_a_final_report(reports in reports()) {
        let mut row = execution(ExecutionState::Authorized, Value::Null);
        for report in reports {
            let is_final = matches!(row.state, ExecutionState::Succeeded | ExecutionState::Failed);
            let same = (&row.state, &row.result) == (&report.state, &report.result);
            match after(&row, &report) {
                Ok(Change::None) => prop_assert!(same),
                Ok(Change::Stored) => {
                    prop_assert!(!same && !is_final);
                    row = execution(report.state, report.result);
                }
                Err(refusal) => {
                    prop_assert!(!same && is_final);
                    let is_right = matches!(refusal, Refusal::Conflict { code: ErrorCode::ExecutionFinal, .. });
                    prop_assert!(is_right);
                }
            }
        }
    }

    #[test]
    fn an_action_matches_itself_and_nothing_that_differs(field in 0..6_usize, n in -5..5_i64) {
        let approved = Action::new("deploy", &"agt_1".into(), "staging", "op")
            .resource_version("7")
            .arguments(serde_json::from_value(json!({"n": n, "deep": {"a": [1, 2], "b": null}})).unwrap());
        must_match(&approved, &approved.clone()).unwrap();
        let mut other = approved.clone();
        match field {
            0 => other.name.push('x'),
            1 => other.executor_id = "agt_2".into(),
            2 => other.resource.push(' '),
            3 => other.resource_version.clear(),
            4 => { other.arguments.insert("n".to_owned(), Value::from(f64::from(i32::try_from(n).unwrap()))); }
            _ => other.operation_key.push('1'),
        }
        let refused = matches!(must_match(&approved, &other), Err(Refusal::Conflict { code: ErrorCode::ActionMismatch, .. }));
        prop_assert!(refused);
    }
}

#[test]
fn only_what_an_executor_may_say_is_a_report() {
    for word in REPORTS {
        check_report(&ReportInput::new((*word).into())).unwrap();
    }
    for word in ["authorized", "done", ""] {
        assert!(matches!(check_report(&ReportInput::new(word.into())), Err(Refusal::Invalid { field, .. }) if field == "state"));
    }
    let long = ReportInput::new(ExecutionState::Running).result("x".repeat(MAX_ANSWER_BYTES));
    assert!(matches!(check_report(&long), Err(Refusal::Invalid { field, .. }) if field == "result"));
}
