//! Every limit of the contract that the engine enforces, in one place.

use std::ops::RangeInclusive;
use std::time::Duration;

pub(crate) use beepgrid::{
    MAX_ANSWER_AUDIENCE, MAX_ANSWER_BYTES, MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS, MAX_BATCH_TARGETS, MAX_BODY_BYTES, MAX_CHOICES,
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
pub(crate) const DRAFT_LIFE: Duration = days(1);
/// Code points of a file's name.
pub(crate) const MAX_FILE_NAME_CHARS: usize = 200;
/// Bytes of a file's media type.
pub(crate) const MAX_MEDIA_TYPE_BYTES: usize = 200;
/// Agents that a fleet status shows.
pub(crate) const MAX_FLEET_AGENTS: usize = 1_000;
/// Agents that a plan may choose from.
pub(crate) const MAX_PLAN_SOURCES: usize = 100;
/// How long a plan can be confirmed.
pub(crate) const PLAN_LIFE: Duration = minutes(15);
/// Calls of the Coordinator's model at once, in one process.
pub(crate) const MAX_ASSISTANCE_AT_ONCE: usize = 2;
/// Calls of the Coordinator's model an hour, in one process.
pub(crate) const MAX_ASSISTANCE_AN_HOUR: usize = 1_000;

/// Code points of the resource that an action names; it may be a path or an address.
pub(crate) const MAX_RESOURCE_CHARS: usize = 1_000;
/// Bytes of a preview token: far more than one has.
pub(crate) const MAX_PREVIEW_TOKEN_BYTES: usize = 4_096;
/// Code points of a destination's address.
pub(crate) const MAX_ADDRESS_CHARS: usize = 2_000;
/// The last priority of a destination.
pub(crate) const MAX_PRIORITY: i64 = 1_000;
/// Senders with a delivery policy of their own, for one person.
pub(crate) const MAX_OVERRIDES: usize = 100;
/// Destinations of one delivery policy.
pub(crate) const MAX_PREFERRED: usize = 20;
/// Bytes of a connection's secret.
pub(crate) const SECRET_BYTES: RangeInclusive<usize> = 8..=4_096;
/// Seconds until a question goes to the next destination, where it does.
pub(crate) const FOLLOWUP_SECONDS: RangeInclusive<i64> = 5..=900;
/// Bytes of a provider's callback.
pub(crate) const MAX_CALLBACK_BYTES: usize = 256 * 1024;
/// Callbacks of one connection that nobody has looked at.
pub(crate) const MAX_WAITING_CALLBACKS: i64 = 1_000;

/// How far sequences and generations go on ahead after a restore: nobody has seen those numbers.
pub(crate) const RESTORE_GAP: i64 = 1_000_000;

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

const fn days(days: u64) -> Duration {
    minutes(days * 24 * 60)
}

/// How long a lease lasts unless it is extended.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// No lease is extended beyond this, counted from its beginning.
pub(crate) const LONGEST_LEASE: Duration = minutes(12 * 60);
/// Deliveries of one lease when nothing else is said.
pub(crate) const DEFAULT_LEASE_ITEMS: i64 = 10;
/// Seconds that one extension may last.
pub(crate) const MAX_EXTENSION: i64 = 300;
/// Seconds that a released delivery may be held back.
pub(crate) const MAX_DELAY: i64 = 3_600;
/// The longest wait before a redelivery.
pub(crate) const LONGEST_BACKOFF: Duration = minutes(5);
/// How often a delivery is leased at least before it is parked.
pub(crate) const PARK_ATTEMPTS: i64 = 20;
/// How long after its first lease a delivery is parked at the earliest.
pub(crate) const PARK_AFTER: Duration = days(1);
/// A runtime that was heard of within this time is `connected`.
pub(crate) const CONNECTED: Duration = Duration::from_secs(45);
/// One that was heard of within this time is `stale`; any other is `offline`.
pub(crate) const STALE: Duration = minutes(5);
/// An event stream ends cleanly after this; its reader comes again with its position.
pub(crate) const STREAM_LIFE: Duration = minutes(15);
/// How long a cursor works.
pub(crate) const CURSOR_LIFE: Duration = days(1);
/// How long a preview's token works.
pub(crate) const PREVIEW_LIFE: Duration = minutes(10);
/// How long an approval that binds an action stays open when nothing else is said.
pub(crate) const ACTION_LIFE: Duration = days(7);
/// How far away the explicit deadline of a request may be.
pub(crate) const LONGEST_REQUEST_LIFE: Duration = days(90);
/// How long an answer is reused when nothing else is said.
pub(crate) const DEFAULT_VALIDITY: Duration = days(1);
/// How far away the explicit end of an answer may be.
pub(crate) const LONGEST_VALIDITY: Duration = days(90);
/// How long a credential lasts when nothing else is said.
pub(crate) const CREDENTIAL_LIFE: Duration = days(30);
/// How long one stretch of a renewable credential lasts.
pub(crate) const RENEWAL: Duration = days(1);
/// Seconds that a rotated token may go on working.
pub(crate) const MAX_OVERLAP: i64 = 86_400;
