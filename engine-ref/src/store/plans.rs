//! No query of a page looks through a table that grows: SQLite's plans for each of them.

use std::fmt::Write as _;

use super::{
    Database, Store, StoreConfig, answers, attachments, channels, conversations, coordinator, credentials, deliveries,
    executions, groups, instances, messages, policies, principals, requests, transports,
};
use crate::clock::Clock;

/// Every page, and the step that has to be in its plan.
const PAGES: &[(&str, &str)] = &[
    (principals::pages::OF_GROUP, "group_members_1 (group_id=? AND principal_id>? AND principal_id<?)"),
    (principals::pages::OF_ROLE, "role_bindings_once (role_id=?"),
    (groups::pages::ALL, "directory_groups_1 (id>?)"),
    (groups::pages::OF_MEMBER, "group_members_principal (principal_id=? AND group_id>?)"),
    (policies::pages::ALL, "roles_1 (id>?)"),
    (policies::pages::REACHING, "role_bindings_subject (subject_id=?"),
    (credentials::pages::ALL, "credentials_1 (id>?)"),
    (credentials::pages::OF_PRINCIPAL, "credentials_principal (principal_id=? AND id>?)"),
    (instances::pages::ALL, "instances_1 (id>?)"),
    (instances::pages::OF_AGENT, "instances_agent (agent_id=? AND id>?)"),
    (instances::pages::LIVE_OF_AGENT, "instances_agent (agent_id=?)"),
    (conversations::pages::OF_PARTICIPANT, "participants_recent (principal_id=? AND (last_sequence,conversation_id)<(?,?))"),
    (conversations::pages::ALL, "conversations_recent ((last_sequence,id)<(?,?))"),
    (messages::pages::AFTER, "messages_conversation (conversation_id=? AND sequence>?)"),
    (requests::pages::ALL, "requests_1 (id>?)"),
    (requests::pages::OF_REQUESTER, "requests_requester (requester_id=? AND id>?)"),
    (requests::pages::OF_RECIPIENT, "request_audience_principal (principal_id=? AND request_id>?)"),
    (requests::pages::OF_EXECUTOR, "requests_executor (executor_id=? AND id>?)"),
    (requests::pages::IN_CONVERSATION, "request_audience_conversation (conversation_id=? AND request_id>?)"),
    (requests::pages::NEXT_IN_CHATS, "participants_shared (principal_id=?)"),
    (requests::pages::NEXT_IN_CHATS, "request_audience_conversation (conversation_id=? AND request_id>?)"),
    (requests::pages::WAITING, "requests_blocking (requester_id=?)"),
    (answers::pages::ALL, "answers_1 (id>?)"),
    (answers::pages::OF, "answer_audience_principal (principal_id=? AND answer_id>?)"),
    (answers::pages::OF, "answers_publisher (publisher_id=? AND id>?)"),
    (executions::pages::ALL, "executions_1 (id>?)"),
    (executions::pages::OF, "item_readers_1 (reader=? AND item_id>? AND item_id<?)"),
    (deliveries::pages::ALL, "deliveries_1 (id>?)"),
    (deliveries::pages::PARKED, "deliveries_set_aside (id>?)"),
    (deliveries::pages::OF_REQUEST, "deliveries_request (request_id=?)"),
    (deliveries::pages::OF, "item_readers_1 (reader=? AND item_id>? AND item_id<?)"),
    (deliveries::pages::OF, "deliveries_set_aside_of (agent_id=? AND id>?)"),
    (coordinator::OF_PERSON, "plans_person (person_id=? AND id<?)"),
    (attachments::pages::IN_CONVERSATION, "attachments_ids (conversation_id=? AND id>?)"),
    (transports::pages::ALL, "transports_1 (id>?)"),
    (transports::pages::OF_CONNECTION, "transports_connection (connection_id=? AND id>?)"),
    (transports::pages::OF_OPERATION, "transports_operation (operation_id=? AND id>?)"),
    (transports::pages::OF_REQUEST, "transports_request (request_id=? AND id>?)"),
    (transports::pages::ATTEMPTS, "delivery_attempts_1 (delivery_id=? AND number>?)"),
    (channels::pages::OF_CONNECTION, "destinations_connection (connection_id=? AND id>?)"),
    (channels::pages::OF_PRINCIPAL, "destinations_principal (principal_id=?)"),
];

#[tokio::test]
async fn every_page_is_the_near_end_of_an_index() {
    let store = Store::open(StoreConfig::new(Database::Memory), Clock::system()).await.unwrap();
    let mut wrong = String::new();
    for (sql, step) in PAGES {
        let steps = plan(&store, sql).await;
        // What was found by an index first may be walked through; a table may not.
        let scans = steps
            .iter()
            .any(|line| line.starts_with("SCAN") && !["found", "heard", "own", "asked"].iter().any(|name| line.contains(name)));
        if scans || !steps.iter().any(|line| line.contains(step)) {
            writeln!(wrong, "{sql}\n  wants {step}\n  has {steps:#?}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The steps of a plan, as SQLite tells them, with any value for each parameter.
async fn plan(store: &Store, sql: &'static str) -> Vec<String> {
    let names = [
        "after",
        "end",
        "limit",
        "owner",
        "member",
        "subject",
        "principal",
        "agent",
        "now",
        "sequence",
        "id",
        "conversation",
        "of",
        "reader",
        "requester",
        "request",
    ];
    let explained: &'static str = Box::leak(format!("EXPLAIN QUERY PLAN {sql}").into_boxed_str());
    store
        .read(move |tx| {
            let values: Vec<(&'static str, &dyn super::ToValue)> = names
                .into_iter()
                .filter(|name| {
                    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    let token = format!(":{name}");
                    explained.match_indices(&token).any(|(at, _)| !explained[at + token.len()..].starts_with(word))
                })
                .map(|name| (name, &0_i64 as &dyn super::ToValue))
                .collect();
            tx.query(explained, &values)?.iter().map(|row| Ok(row.text("detail")?)).collect()
        })
        .await
        .unwrap()
}
