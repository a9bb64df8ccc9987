//! The collections: what each may be narrowed by, and how it is ordered.

use super::page::{Look, Page, walk};
use super::{
    answers, attachments, attempts, connections, conversations, credentials, deliveries, destinations, executions, groups,
    instances, messages, plans, principals, requests, roles,
};
use crate::service::Refusal;
use crate::service::channels::PROVIDERS;

/// One collection.
#[derive(Debug)]
pub(super) struct Collection {
    pub(super) name: &'static str,
    /// Besides `id`, which every collection has.
    pub(super) filters: &'static [Filter],
    pub(super) order: &'static str,
    /// Whether its records have text of their own to look in.
    pub(super) searchable: bool,
    pub(super) page: fn(&Look<'_>, String) -> Result<Page, Refusal>,
}

/// What a collection may be narrowed by.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) name: &'static str,
    pub(super) required: bool,
    /// The words it takes; any when empty.
    pub(super) words: &'static [&'static str],
}

const BY_ID: &str = "id ascending";
const STATES: &[&str] = &["open", "resolved", "cancelled", "expired", "superseded"];
const EXECUTION_STATES: &[&str] = &["authorized", "running", "succeeded", "failed", "unknown"];
const DELIVERY_STATES: &[&str] =
    &["ready", "leased", "acked", "parked", "withdrawn", "queued", "sending", "accepted", "failed", "unknown"];

const fn any(name: &'static str) -> Filter {
    Filter { name, required: false, words: &[] }
}

const fn required(name: &'static str) -> Filter {
    Filter { name, required: true, words: &[] }
}

const fn word(name: &'static str, words: &'static [&'static str]) -> Filter {
    Filter { name, required: false, words }
}

const IDENTITY: [Filter; 9] = [
    word("disabled", &["true", "false"]),
    any("project"),
    any("type"),
    any("parent_id"),
    any("enrolled_by"),
    any("department"),
    any("manager_id"),
    any("group_id"),
    any("role_id"),
];
const AGENTS: [Filter; 10] = {
    let [disabled, project, kind, parent, enrolled, department, manager, group, role] = IDENTITY;
    let presence = word("presence", &["connected", "stale", "offline"]);
    [disabled, project, kind, parent, enrolled, department, manager, group, role, presence]
};

macro_rules! collections {
    ($($name:literal: $source:ty, $order:expr, $searchable:literal, $filters:expr;)+) => {
        const COLLECTIONS: &[Collection] = &[$(Collection {
            name: $name,
            filters: $filters,
            order: $order,
            searchable: $searchable,
            page: walk::<$source>,
        }),+];
    };
}

collections! {
    "people": principals::Principals, BY_ID, true, &IDENTITY;
    "agents": principals::Principals, BY_ID, true, &AGENTS;
    "services": principals::Principals, BY_ID, true, &IDENTITY;
    "groups": groups::Groups, BY_ID, true, &[word("purpose", &["contacts", "team", "agent_role"]), any("member_id")];
    "roles": roles::Roles, BY_ID, true, &[];
    "connections": connections::Connections, BY_ID, true, &[word("kind", PROVIDERS)];
    "destinations": destinations::Destinations, BY_ID, false, &[any("connection_id"), any("principal_id")];
    "credentials": credentials::Credentials, BY_ID, true,
        &[word("kind", &["owner", "worker", "api", "enrollment"]), any("principal_id")];
    "instances": instances::Instances, BY_ID, false, &[any("agent_id")];
    "requests": requests::Requests, BY_ID, true, &[
        any("conversation_id"), word("state", STATES), word("kind", &["question", "approval", "task"]), any("recipient_id"),
        any("requester_id"),
    ];
    "conversations": conversations::Conversations, "recent activity descending", true, &[any("participant_id")];
    "messages": messages::Messages, "created ascending", true, &[required("conversation_id")];
    "answers": answers::Answers, BY_ID, true, &[];
    "executions": executions::Executions, BY_ID, false, &[word("state", EXECUTION_STATES), any("request_id")];
    "deliveries": deliveries::Deliveries, BY_ID, false,
        &[word("state", DELIVERY_STATES), any("connection_id"), any("operation_id"), any("request_id")];
    "delivery_attempts": attempts::Attempts, "created ascending", false, &[required("delivery_id")];
    "overseer_plans": plans::Plans, "created descending", true, &[];
    "attachments": attachments::Attachments, BY_ID, true, &[required("conversation_id")];
}

/// The collection of this name.
pub(super) fn find(name: &str) -> Option<&'static Collection> {
    COLLECTIONS.iter().find(|collection| collection.name == name)
}

/// The names of all collections.
pub(super) fn names() -> Vec<&'static str> {
    COLLECTIONS.iter().map(|collection| collection.name).collect()
}
