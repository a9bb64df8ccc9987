//! The table of operations: what each is called, where it goes, and whether it may be sent twice.
//!
//! The client's methods, the engine's routes and its OpenAPI document, the CLI and the tour read the same rows. A new operation begins here.

use std::fmt;

/// One operation, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// Its name in every layer.
    pub name: &'static str,
    /// The part of the API it belongs to; also the name of its source files.
    pub family: Family,
    /// The HTTP method.
    pub method: Method,
    /// The path, with `{…}` where an id goes.
    pub path: &'static str,
    /// Whether it may be sent again when no answer came.
    pub replay: Replay,
    /// The status of a first success. A replayed write answers 200.
    pub status: u16,
}

/// The parts of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// Who am I, enrollment, credentials, the workspace.
    Setup,
    /// Directory, sends, conversations.
    Messages,
    /// Shared chats and their members.
    Chats,
    /// Questions, approvals, tasks.
    Requests,
    /// Bound actions and their reports.
    Executions,
    /// Drafts, uploads, downloads.
    Files,
    /// The worker inbox and presence.
    Workers,
    /// The event stream.
    Events,
    /// Searches, access, status.
    Queries,
    /// People, agents, services, groups, roles, contact rules.
    Identity,
    /// Outside channels.
    Channels,
    /// The Coordinator.
    Coordinator,
}

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Reads.
    Get,
    /// Creates or acts.
    Post,
    /// Replaces whole.
    Put,
    /// Edits.
    Patch,
    /// Deletes.
    Delete,
}

/// Whether an operation may be sent again when the transport failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replay {
    /// Changes nothing: may always be sent again. A key is ignored.
    Read,
    /// A write that an idempotency key protects; the client makes one when none is given.
    Keyed,
    /// A write that takes no key, and is sent once.
    Once,
}

impl Operation {
    /// Whether its answer holds a secret that must not get into an error.
    #[cfg(any(test, feature = "client"))]
    pub(crate) fn answers_with_secret(&self) -> bool {
        matches!(self.name, "enroll" | "create_credential" | "rotate_credential")
    }

    /// Whether it changes something.
    pub fn is_write(&self) -> bool {
        self.replay != Replay::Read
    }
}

impl Family {
    /// The word used in file names and documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Messages => "messages",
            Self::Chats => "chats",
            Self::Requests => "requests",
            Self::Executions => "executions",
            Self::Files => "files",
            Self::Workers => "workers",
            Self::Events => "events",
            Self::Queries => "queries",
            Self::Identity => "identity",
            Self::Channels => "channels",
            Self::Coordinator => "coordinator",
        }
    }
}

impl Method {
    /// The method as HTTP writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! operations {
    ($(#[$doc:meta])+ $table:ident; $($row:ident: $name:literal, $family:ident, $method:ident $path:literal, $replay:ident, $status:literal;)+) => {
        $(
            pub(crate) const $row: Operation = Operation {
                name: $name,
                family: Family::$family,
                method: Method::$method,
                path: $path,
                replay: Replay::$replay,
                status: $status,
            };
        )+

        $(#[$doc])+
        pub const $table: &[Operation] = &[$($row),+];
    };
}

operations! {
    /// Every operation that this version has a method for.
    OPERATIONS;

    ME: "me", Setup, Get "/api/v1/me", Read, 200;
    ENROLL: "enroll", Setup, Post "/api/v1/enroll", Once, 201;
    WORKSPACE: "workspace", Setup, Get "/api/v1/workspace", Read, 200;
    CREDENTIALS: "credentials", Setup, Get "/api/v1/credentials", Read, 200;
    CREATE_CREDENTIAL: "create_credential", Setup, Post "/api/v1/credentials", Once, 201;
    EDIT_CREDENTIAL: "edit_credential", Setup, Patch "/api/v1/credentials/{id}", Keyed, 200;
    ROTATE_CREDENTIAL: "rotate_credential", Setup, Post "/api/v1/credentials/{id}/rotate", Once, 200;
    REVOKE_CREDENTIAL: "revoke_credential", Setup, Post "/api/v1/credentials/{id}/revoke", Keyed, 200;
    RENEW_CREDENTIAL: "renew_credential", Setup, Post "/api/v1/credentials/renew", Once, 200;

    DIRECTORY: "directory", Messages, Get "/api/v1/directory", Read, 200;
    SEND: "send", Messages, Post "/api/v1/messages", Keyed, 201;
    SEND_MINIMAL: "send_minimal", Messages, Post "/api/v1/messages", Keyed, 201;
    SEND_BATCH: "send_batch", Messages, Post "/api/v1/messages/batch", Keyed, 201;
    DISPATCH_PREVIEW: "dispatch_preview", Messages, Post "/api/v1/dispatch/preview", Read, 200;
    CONVERSATION: "conversation", Messages, Get "/api/v1/conversations/{id}", Read, 200;

    START_CHAT: "start_chat", Chats, Post "/api/v1/chats", Keyed, 201;
    CHANGE_CHAT_MEMBERSHIP: "change_chat_membership", Chats, Post "/api/v1/conversations/{id}/membership", Keyed, 200;

    ASK: "ask", Requests, Post "/api/v1/requests", Keyed, 201;
    ASK_BATCH: "ask_batch", Requests, Post "/api/v1/requests/batch", Keyed, 201;
    GET_REQUEST: "get_request", Requests, Get "/api/v1/requests/{id}", Read, 200;
    WAIT: "wait", Requests, Get "/api/v1/requests/{id}", Read, 200;
    RESPOND: "respond", Requests, Post "/api/v1/requests/{id}/respond", Keyed, 200;
    CANCEL: "cancel", Requests, Post "/api/v1/requests/{id}/cancel", Keyed, 200;
    REPLACE_REQUEST: "replace_request", Requests, Post "/api/v1/requests/{id}/replace", Keyed, 201;
    SUPERSEDE: "supersede", Requests, Post "/api/v1/requests/{id}/supersede", Keyed, 200;
    SET_REQUEST_BLOCKING: "set_request_blocking", Requests, Post "/api/v1/requests/{id}/blocking", Keyed, 200;
    REQUEST_TRACE: "request_trace", Requests, Get "/api/v1/requests/{id}/trace", Read, 200;
    ANSWERS: "answers", Requests, Get "/api/v1/answers", Read, 200;
    PUBLISH_ANSWER: "publish_answer", Requests, Post "/api/v1/answers", Keyed, 201;
    INVALIDATE_ANSWER: "invalidate_answer", Requests, Post "/api/v1/answers/{id}/invalidate", Keyed, 200;
    ANSWER_AND_SHARE: "answer_and_share", Requests, Post "/api/v1/requests/{id}/answer-and-share", Keyed, 201;

    REDEEM: "redeem", Executions, Post "/api/v1/requests/{id}/redeem", Keyed, 201;
    REPORT_EXECUTION: "report_execution", Executions, Post "/api/v1/executions/{id}/report", Keyed, 200;

    ATTACHMENTS: "attachments", Files, Get "/api/v1/conversations/{id}/attachments", Read, 200;
    STAGE_ATTACHMENT: "stage_attachment", Files, Post "/api/v1/attachments", Once, 201;
    UPLOAD_ATTACHMENT: "upload_attachment", Files, Post "/api/v1/conversations/{id}/attachments", Once, 201;
    ATTACHMENT: "attachment", Files, Get "/api/v1/attachments/{id}", Read, 200;
    DOWNLOAD_ATTACHMENT: "download_attachment", Files, Get "/api/v1/attachments/{id}/content", Read, 200;

    INBOX: "inbox", Workers, Post "/api/v1/inbox/lease", Once, 200;
    ACK: "ack", Workers, Post "/api/v1/inbox/{id}/ack", Once, 200;
    ACK_MANY: "ack_many", Workers, Post "/api/v1/inbox/ack", Once, 200;
    EXTEND: "extend", Workers, Post "/api/v1/inbox/{id}/extend", Once, 200;
    RELEASE: "release", Workers, Post "/api/v1/inbox/{id}/release", Once, 200;
    REQUEUE_DELIVERY: "requeue_delivery", Workers, Post "/api/v1/deliveries/{id}/requeue", Keyed, 200;
    REQUEUE_DELIVERIES: "requeue_deliveries", Workers, Post "/api/v1/deliveries/requeue", Keyed, 200;
    HEARTBEAT: "heartbeat", Workers, Post "/api/v1/heartbeat", Once, 200;

    LIST_EVENTS: "list_events", Events, Get "/api/v1/events", Read, 200;
    EVENTS: "events", Events, Get "/api/v1/events", Read, 200;

    CREATE_PERSON: "create_person", Identity, Post "/api/v1/people", Keyed, 201;
    EDIT_PERSON: "edit_person", Identity, Patch "/api/v1/people/{id}", Keyed, 200;
    SET_PERSON_STATUS: "set_person_status", Identity, Post "/api/v1/people/{id}/status", Keyed, 200;
    CREATE_AGENT: "create_agent", Identity, Post "/api/v1/agents", Keyed, 201;
    EDIT_AGENT: "edit_agent", Identity, Patch "/api/v1/agents/{id}", Keyed, 200;
    SET_AGENT_STATUS: "set_agent_status", Identity, Post "/api/v1/agents/{id}/status", Keyed, 200;
    CREATE_SERVICE: "create_service", Identity, Post "/api/v1/services", Keyed, 201;
    EDIT_SERVICE: "edit_service", Identity, Patch "/api/v1/services/{id}", Keyed, 200;
    SET_SERVICE_STATUS: "set_service_status", Identity, Post "/api/v1/services/{id}/status", Keyed, 200;
    CREATE_GROUP: "create_group", Identity, Post "/api/v1/groups", Keyed, 201;
    EDIT_GROUP: "edit_group", Identity, Patch "/api/v1/groups/{id}", Keyed, 200;
    DELETE_GROUP: "delete_group", Identity, Delete "/api/v1/groups/{id}", Keyed, 200;
    CREATE_ROLE: "create_role", Identity, Post "/api/v1/roles", Keyed, 201;
    EDIT_ROLE: "edit_role", Identity, Patch "/api/v1/roles/{id}", Keyed, 200;
    DELETE_ROLE: "delete_role", Identity, Delete "/api/v1/roles/{id}", Keyed, 200;
    BIND_ROLE: "bind_role", Identity, Post "/api/v1/role-bindings", Keyed, 201;
    UNBIND_ROLE: "unbind_role", Identity, Delete "/api/v1/role-bindings/{id}", Keyed, 200;
    ROLE_BINDINGS: "role_bindings", Identity, Get "/api/v1/role-bindings", Read, 200;
    PREVIEW_ROLE: "preview_role", Identity, Post "/api/v1/roles/preview", Read, 200;
    EXPLAIN_PERMISSION: "explain_permission", Identity, Post "/api/v1/permissions/explain", Read, 200;
    SAVE_CONTACT_PERMISSIONS: "save_contact_permissions", Identity, Put "/api/v1/contact-permissions", Keyed, 200;

    QUERY: "query", Queries, Post "/api/v1/query", Read, 200;
    ACCOUNT: "account", Queries, Get "/api/v1/account", Read, 200;
    PROVIDER_CATALOG: "provider_catalog", Queries, Get "/api/v1/providers", Read, 200;
    FLEET_STATUS: "fleet_status", Queries, Get "/api/v1/fleet/status", Read, 200;
    ACCESS: "access", Queries, Get "/api/v1/access", Read, 200;
    CAPABILITIES: "capabilities", Queries, Post "/api/v1/capabilities", Read, 200;
    PREVIEW_CONTACT_PERMISSIONS: "preview_contact_permissions", Queries, Post "/api/v1/contact-permissions/preview", Read, 200;

    CREATE_CONNECTION: "create_connection", Channels, Post "/api/v1/connections", Keyed, 201;
    EDIT_CONNECTION: "edit_connection", Channels, Patch "/api/v1/connections/{id}", Keyed, 200;
    DELETE_CONNECTION: "delete_connection", Channels, Delete "/api/v1/connections/{id}", Keyed, 200;
    CONNECTION_SETUP: "connection_setup", Channels, Get "/api/v1/connections/{id}/setup", Read, 200;
    CONNECTION_DIAGNOSTICS: "connection_diagnostics", Channels, Get "/api/v1/connections/{id}/diagnostics", Read, 200;
    TEST_CONNECTION: "test_connection", Channels, Post "/api/v1/connections/{id}/test", Keyed, 201;
    CREATE_DESTINATION: "create_destination", Channels, Post "/api/v1/destinations", Keyed, 201;
    EDIT_DESTINATION: "edit_destination", Channels, Patch "/api/v1/destinations/{id}", Keyed, 200;
    DELETE_DESTINATION: "delete_destination", Channels, Delete "/api/v1/destinations/{id}", Keyed, 200;
    CREATE_ACCOUNT_LINK: "create_account_link", Channels, Post "/api/v1/account-links", Keyed, 201;
    DELETE_ACCOUNT_LINK: "delete_account_link", Channels, Delete "/api/v1/account-links/{id}", Keyed, 200;
    PREVIEW_ROUTE: "preview_route", Channels, Post "/api/v1/routes/preview", Read, 200;
    DELIVERY_PREFERENCES: "delivery_preferences", Channels, Get "/api/v1/people/{id}/delivery-preferences", Read, 200;
    SAVE_DELIVERY_PREFERENCES: "save_delivery_preferences", Channels, Put "/api/v1/people/{id}/delivery-preferences", Keyed, 200;

    ASSISTANCE: "assistance", Coordinator, Get "/api/v1/assistance", Read, 200;
    UPDATE_ASSISTANCE: "update_assistance", Coordinator, Patch "/api/v1/assistance", Keyed, 200;
    PLAN_OVERSEER: "plan_overseer", Coordinator, Post "/api/v1/fleet/plan", Keyed, 201;
    OVERSEER_PLANS: "overseer_plans", Coordinator, Get "/api/v1/fleet/plans", Read, 200;
    OVERSEER_PLAN: "overseer_plan", Coordinator, Get "/api/v1/fleet/plans/{id}", Read, 200;
    CONFIRM_OVERSEER: "confirm_overseer", Coordinator, Post "/api/v1/fleet/command", Keyed, 200;
    SUMMARIZE_OVERSEER: "summarize_overseer", Coordinator, Post "/api/v1/fleet/plans/{id}/summary", Keyed, 200;
    COORDINATE: "coordinate", Coordinator, Post "/api/v1/fleet/coordinate", Keyed, 201;
}

// Calls to routes that are newer than this version, see `Client::call`.
#[cfg(feature = "client")]
pub(crate) const CALL_READ: Operation =
    Operation { name: "call", family: Family::Setup, method: Method::Get, path: "", replay: Replay::Read, status: 200 };
#[cfg(feature = "client")]
pub(crate) const CALL_KEYED: Operation = Operation { replay: Replay::Keyed, ..CALL_READ };
#[cfg(feature = "client")]
pub(crate) const CALL_ONCE: Operation = Operation { replay: Replay::Once, ..CALL_READ };

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_in_snake_case() {
        let names: BTreeSet<_> = OPERATIONS.iter().map(|operation| operation.name).collect();
        assert_eq!(names.len(), OPERATIONS.len());
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase())));
    }

    #[test]
    fn reads_are_the_gets_and_the_questions_by_post() {
        let questions = ["/query", "/capabilities", "/permissions/explain", "/preview"];
        for operation in OPERATIONS {
            let question = questions.iter().any(|end| operation.path.ends_with(end));
            assert_eq!(operation.replay == Replay::Read, operation.method == Method::Get || question, "{}", operation.name);
        }
    }

    #[test]
    fn what_returns_a_secret_and_what_is_under_inbox_takes_no_key() {
        for operation in OPERATIONS {
            let unkeyed = operation.answers_with_secret()
                || operation.path.starts_with("/api/v1/inbox")
                || matches!(operation.name, "heartbeat" | "renew_credential" | "stage_attachment" | "upload_attachment");
            assert_eq!(operation.replay == Replay::Once, unkeyed, "{}", operation.name);
        }
    }

    #[test]
    fn operations_on_one_route_agree_on_everything_else() {
        for a in OPERATIONS {
            for b in OPERATIONS.iter().filter(|b| (b.method, b.path) == (a.method, a.path)) {
                assert_eq!((a.replay, a.status, a.family), (b.replay, b.status, b.family), "{} {}", a.name, b.name);
            }
        }
    }
}
