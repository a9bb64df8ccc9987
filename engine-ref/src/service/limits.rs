//! Every limit of the contract that the engine enforces, in one place.

pub(crate) use beepgrid::{
    MAX_ANSWER_BYTES, MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS, MAX_BATCH_TARGETS, MAX_BODY_BYTES, MAX_CHOICES,
    MAX_EXTERNAL_ID_CHARS, MAX_LEASE, MAX_MENTIONS, MAX_METADATA_BYTES, MAX_POLICY_RULES, MAX_ROLE_RULES, MAX_TITLE_CHARS,
    MAX_WAIT_MS,
};

/// Bytes of one JSON request.
pub(crate) const MAX_REQUEST_BYTES: usize = 4 * 1024 * 1024;
/// Levels of nesting of a JSON request; the outermost value is 1.
pub(crate) const MAX_NESTING: usize = 64;
/// Code points of an id or key in a path or member.
pub(crate) const MAX_ID_CHARS: usize = 200;
/// Current members of a shared chat.
pub(crate) const MAX_CHAT_MEMBERS: usize = 100;
/// Members that a fan-out to a group reaches.
pub(crate) const MAX_GROUP_FANOUT: usize = 1_000;
/// Undelivered messages of one sender to one agent.
pub(crate) const MAX_BACKLOG: i64 = 10_000;
/// Inbox polls that one runtime connection may hold at a time.
pub(crate) const MAX_POLLS: usize = 4;
/// Live runtime connections of one agent.
pub(crate) const MAX_INSTANCES: i64 = 1_000;
/// Declared capabilities of a runtime, and code points of one.
pub(crate) const MAX_CAPABILITIES: usize = 50;
/// Code points of one capability.
pub(crate) const MAX_CAPABILITY_CHARS: usize = 100;
/// Messages and requests that a conversation shows.
pub(crate) const CONVERSATION_WINDOW: i64 = 200;
/// Items of a bare list.
pub(crate) const MAX_LIST: i64 = 1_000;
/// Days that a credential lasts when nothing else is said.
pub(crate) const DEFAULT_CREDENTIAL_DAYS: u64 = 30;
/// Open blocking requests of one agent.
pub(crate) const MAX_BLOCKING: i64 = 100;
/// Members of a directory group.
pub(crate) const MAX_GROUP_MEMBERS: usize = 10_000;
/// Directory and query pages: default and most.
pub(crate) const DEFAULT_PAGE: i64 = 50;
/// The largest page.
pub(crate) const MAX_PAGE: i64 = 200;
/// Code points of a search.
pub(crate) const MAX_SEARCH_CHARS: usize = 200;
/// Rows that one page scans.
pub(crate) const MAX_SCAN: i64 = 5_000;
/// Events of one page, unless asked for fewer.
pub(crate) const DEFAULT_EVENTS: i64 = 100;
/// Events of the largest page.
pub(crate) const MAX_EVENTS: i64 = 500;
/// Event streams that one principal may hold open.
pub(crate) const MAX_STREAMS: usize = 8;
/// Reads of one principal that wait for the end of a request.
pub(crate) const MAX_WAITING_READS: usize = 16;
/// Unclaimed drafts of one principal.
pub(crate) const MAX_DRAFTS: i64 = 100;
/// Bytes of all unclaimed drafts of one principal.
pub(crate) const MAX_DRAFT_BYTES: i64 = 100 * 1024 * 1024;
/// How long a draft waits to be claimed.
pub(crate) const DRAFT_LIFE: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);
/// Code points of a file's name.
pub(crate) const MAX_FILE_NAME_CHARS: usize = 200;
/// Bytes of a file's media type.
pub(crate) const MAX_MEDIA_TYPE_BYTES: usize = 200;
/// Agents that a fleet status shows.
pub(crate) const MAX_FLEET_AGENTS: usize = 1_000;
/// Agents that a plan may choose from.
pub(crate) const MAX_PLAN_SOURCES: usize = 100;
/// How long a plan can be confirmed.
pub(crate) const PLAN_LIFE: std::time::Duration = std::time::Duration::from_secs(15 * 60);
/// Calls of the Coordinator's model at once, in one process.
pub(crate) const MAX_ASSISTANCE_AT_ONCE: usize = 2;
/// Calls of the Coordinator's model an hour, in one process.
pub(crate) const MAX_ASSISTANCE_AN_HOUR: usize = 1_000;
