//! The mechanism by itself: form, scope of cursors, the bound on scanning. What each reader sees is tested from outside.

use beepgrid::{ErrorCode, PrincipalKind, QueryInput, Timestamp};
use serde_json::Value;

use super::{Context, Query, query};
use crate::service::actor::{Actor, TokenDigest};
use crate::service::inbox::bed::Bed;
use crate::service::permissions::RulesCache;
use crate::service::presence::Presence;
use crate::service::{Refusal, cursor};

fn code(refusal: &Refusal) -> ErrorCode {
    match refusal {
        Refusal::Conflict { code, .. } => code.clone(),
        Refusal::Invalid { .. } => ErrorCode::InvalidRequest,
        Refusal::NotFound { .. } => ErrorCode::NotFound,
        other => panic!("{other:?}"),
    }
}

fn context() -> Context {
    Context { presence: Presence::default(), cursor_key: cursor::Key::new([7; 32]), workspace: "test".to_owned() }
}

/// Asks as the worker `ins_a` of the agent `agt_1`, which knows nobody unless the test says so.
async fn ask(bed: &Bed, input: QueryInput) -> Result<beepgrid::QueryPage, Refusal> {
    let question = Query::new(input)?;
    bed.store
        .read(move |tx| {
            let actor = Actor::load(tx, &TokenDigest::of("ins_a"), &RulesCache::default())?;
            query(tx, &actor, &question, &context())
        })
        .await
}

/// So many agents, of whom the last may be viewed.
async fn crowd(bed: &Bed, count: i64) {
    bed.store
        .write(move |tx| {
            for at in 0..count {
                tx.execute(
                    "INSERT INTO principals (id, kind, name, external_id, metadata, version, disabled, operator, created_at)
                     VALUES (:id, 'agent', :id, :id, '{}', 1, FALSE, FALSE, 0)",
                    &[("id", &format!("agt_c{at:06}"))],
                )?;
            }
            // A rule for all agents, and a deny for all but the last: nothing can be left out beforehand.
            tx.execute(
                "INSERT INTO directory_groups (id, name, purpose, version, created_at) VALUES ('grp_1', 'Hidden', 'team', 1, 0)",
                &[],
            )?;
            for at in 0..count - 1 {
                tx.execute(
                    "INSERT INTO group_members (group_id, principal_id) VALUES ('grp_1', :id)",
                    &[("id", &format!("agt_c{at:06}"))],
                )?;
            }
            let rules = r#"[{"action":"view","target_kind":"agent","target_id":"*"},
                {"effect":"deny","action":"view","target_kind":"group","target_id":"grp_1"}]"#;
            tx.execute(
                "INSERT INTO contact_policies (subject_id, subject_kind, version, rules) VALUES ('agt_1', 'agent', 1, :rules)",
                &[("rules", &rules)],
            )?;
            Ok(())
        })
        .await
        .unwrap();
}

fn ids(page: &beepgrid::QueryPage) -> Vec<&str> {
    page.items.iter().filter_map(|item| item["id"].as_str()).collect()
}

#[tokio::test]
async fn a_page_scans_five_thousand_rows_and_may_be_empty() {
    for bed in Bed::each().await {
        crowd(&bed, 5_500).await;
        // The reader itself comes first by id.
        let first = ask(&bed, QueryInput::new("agents").limit(2)).await.unwrap();
        assert_eq!(ids(&first), ["agt_1"]);
        let cursor = first.next_cursor.expect("not all rows were looked at");
        let second = ask(&bed, QueryInput::new("agents").limit(2).cursor(cursor)).await.unwrap();
        assert_eq!((ids(&second), &second.next_cursor), (vec!["agt_c005499"], &None));
        // With nothing to show on the first page there is still a next one.
        let search = QueryInput::new("agents").search("C005499");
        let empty = ask(&bed, search.clone()).await.unwrap();
        assert!(empty.items.is_empty());
        let found = ask(&bed, search.cursor(empty.next_cursor.expect("a next page"))).await.unwrap();
        assert_eq!(ids(&found), ["agt_c005499"]);
    }
}

#[tokio::test]
async fn a_full_page_has_a_next_one_only_for_something_visible() {
    let bed = Bed::memory().await;
    crowd(&bed, 20).await;
    let page = ask(&bed, QueryInput::new("agents").limit(2)).await.unwrap();
    assert_eq!((ids(&page), &page.next_cursor), (vec!["agt_1", "agt_c000019"], &None));
    let page = ask(&bed, QueryInput::new("agents").limit(1)).await.unwrap();
    assert_eq!(ids(&page), ["agt_1"]);
    let next = ask(&bed, QueryInput::new("agents").limit(1).cursor(page.next_cursor.unwrap())).await.unwrap();
    assert_eq!((ids(&next), &next.next_cursor), (vec!["agt_c000019"], &None));
    bed.sql("INSERT INTO group_members (group_id, principal_id) VALUES ('grp_1', 'agt_c000019')").await;
    let alone = ask(&bed, QueryInput::new("agents").limit(1)).await.unwrap();
    assert_eq!((ids(&alone), &alone.next_cursor), (vec!["agt_1"], &None), "the hidden ones leave no trace");
}

#[tokio::test]
async fn a_cursor_belongs_to_its_query() {
    let bed = Bed::memory().await;
    crowd(&bed, 3).await;
    let asked = QueryInput::new("agents").limit(1);
    let cursor = ask(&bed, asked.clone()).await.unwrap().next_cursor.unwrap();
    ask(&bed, asked.clone().cursor(&cursor)).await.unwrap();
    let other = [
        QueryInput::new("people").limit(1),
        QueryInput::new("agents").limit(2),
        asked.clone().search("c"),
        asked.clone().filter("disabled", "false"),
    ];
    for input in other {
        assert_eq!(code(&ask(&bed, input.cursor(&cursor)).await.unwrap_err()), ErrorCode::InvalidCursor);
    }
    bed.advance(24 * 60 * 60 + 1);
    assert_eq!(code(&ask(&bed, asked.cursor(&cursor)).await.unwrap_err()), ErrorCode::CursorExpired);
}

#[test]
fn what_a_collection_does_not_take_is_refused() {
    let refused = [
        QueryInput::new("everything"),
        QueryInput::new(""),
        QueryInput::new("people").filter("presence", "connected"),
        QueryInput::new("people").filter("name", "x"),
        QueryInput::new("people").filter("disabled", "yes"),
        QueryInput::new("agents").filter("presence", "there"),
        QueryInput::new("groups").filter("purpose", "fun"),
        QueryInput::new("requests").filter("state", "done"),
        QueryInput::new("messages"),
        QueryInput::new("attachments").filter("id", "att_1"),
        QueryInput::new("deliveries").search("x"),
        QueryInput::new("people").limit(0),
        QueryInput::new("people").limit(201),
        QueryInput::new("people").search("x".repeat(201)),
        QueryInput::new("people").filter("project", "x".repeat(201)),
    ];
    for input in refused {
        assert_eq!(code(&Query::new(input.clone()).unwrap_err()), ErrorCode::InvalidRequest, "{input:?}");
    }
    for limit in [1, 200] {
        Query::new(QueryInput::new("people").limit(limit).search("x".repeat(200))).unwrap();
    }
}

#[tokio::test]
async fn metadata_filters_compare_text_members_only() {
    let bed = Bed::memory().await;
    bed.sql("UPDATE principals SET metadata = '{\"project\":\"x\",\"type\":7,\"department\":{\"a\":\"b\"}}'").await;
    let found = |name: &'static str, value: &'static str| {
        let bed = &bed;
        async move { ask(bed, QueryInput::new("agents").filter(name, value)).await.unwrap().items.len() }
    };
    assert_eq!(found("project", "x").await, 1);
    assert_eq!(found("project", "X").await, 0);
    assert_eq!(found("type", "7").await, 0);
    assert_eq!(found("department", "b").await, 0);
    assert_eq!(found("manager_id", "x").await, 0);
    assert_eq!(found("id", "agt_1").await, 1);
}

#[tokio::test]
async fn kinds_do_not_mix() {
    let bed = Bed::memory().await;
    let of = |collection: &'static str| {
        let bed = &bed;
        async move { ask(bed, QueryInput::new(collection).filter("id", "agt_1")).await.unwrap().items }
    };
    let agents: Vec<Value> = of("agents").await;
    assert_eq!(agents[0]["external_id"], "one");
    assert!(of("people").await.is_empty() && of("services").await.is_empty());
    assert_eq!(PrincipalKind::from("agent"), PrincipalKind::Agent);
    assert!(agents[0]["created_at"].as_str().unwrap().parse::<Timestamp>().is_ok());
}
