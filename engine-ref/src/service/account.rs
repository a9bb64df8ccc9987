//! The account: what this engine is limited to, as data.

use beepgrid::{Account, AccountLimits, MAX_EVENT_PAGE, PrincipalKind};

use super::Refusal;
use super::actor::Actor;
use super::limits;
use super::permissions::ACCOUNT;
use crate::store::ReadTx;

/// The limits, for operators and for persons whose rules let them view the account or manage it.
pub(crate) fn account(tx: &ReadTx<'_>, actor: &Actor) -> Result<Account, Refusal> {
    let person = actor.kind == PrincipalKind::Person;
    let allowed = actor.operator || (person && (actor.manages(tx, ACCOUNT)? || actor.rules.views_account(tx, &actor.id)?));
    if !allowed {
        return Err(Refusal::forbidden("needs the right to view the account"));
    }
    Ok(Account { applied: true, limits: applied() })
}

/// Every limit by a name that says its unit.
fn applied() -> AccountLimits {
    let sizes = [
        ("request_bytes", limits::MAX_REQUEST_BYTES),
        ("request_nesting", limits::MAX_NESTING),
        ("body_bytes", limits::MAX_BODY_BYTES),
        ("title_characters", limits::MAX_TITLE_CHARS),
        ("name_characters", limits::MAX_TITLE_CHARS),
        ("external_id_characters", limits::MAX_EXTERNAL_ID_CHARS),
        ("metadata_bytes", limits::MAX_METADATA_BYTES),
        ("progress_bytes", limits::MAX_METADATA_BYTES),
        ("answer_bytes", limits::MAX_ANSWER_BYTES),
        ("result_bytes", limits::MAX_ANSWER_BYTES),
        ("arguments_bytes", limits::MAX_ANSWER_BYTES),
        ("choices", limits::MAX_CHOICES),
        ("choice_characters", limits::MAX_TITLE_CHARS),
        ("mentions", limits::MAX_MENTIONS),
        ("capabilities", limits::MAX_CAPABILITIES),
        ("capability_characters", limits::MAX_CAPABILITY_CHARS),
        ("batch_targets", limits::MAX_BATCH_TARGETS),
        ("chat_members", limits::MAX_CHAT_MEMBERS),
        ("group_members", limits::MAX_GROUP_MEMBERS),
        ("group_recipients", limits::MAX_GROUP_FANOUT),
        ("attachments_per_operation", limits::MAX_ATTACHMENTS),
        ("role_rules", limits::MAX_ROLE_RULES),
        ("policy_rules", limits::MAX_POLICY_RULES),
        ("search_characters", limits::MAX_SEARCH_CHARS),
        ("event_streams_per_principal", limits::MAX_STREAMS),
        ("waiting_reads_per_principal", limits::MAX_WAITING_READS),
        ("inbox_polls_per_instance", limits::MAX_POLLS),
        ("fleet_agents", limits::MAX_FLEET_AGENTS),
    ];
    let counts = [
        ("instances_per_agent", limits::MAX_INSTANCES),
        ("undelivered_per_sender_and_agent", limits::MAX_BACKLOG),
        ("blocking_requests_per_agent", limits::MAX_BLOCKING),
        ("conversation_messages", limits::CONVERSATION_WINDOW),
        ("list_items", limits::MAX_LIST),
        ("page_items", limits::MAX_PAGE),
        ("page_items_default", limits::DEFAULT_PAGE),
        ("page_scan_rows", limits::MAX_SCAN),
        ("event_page_items", MAX_EVENT_PAGE),
        ("lease_items", limits::MAX_LEASE),
        ("wait_milliseconds", limits::MAX_WAIT_MS),
    ];
    let sizes = sizes.into_iter().map(|(name, limit)| (name, i64::try_from(limit).unwrap_or(i64::MAX)));
    let fixed = FIXED.iter().copied();
    AccountLimits(sizes.chain(counts).chain(fixed).map(|(name, limit)| (name.to_owned(), limit)).collect())
}

/// What the contract fixes and other parts of the engine enforce.
const FIXED: &[(&str, i64)] = &[
    ("file_bytes", 5 * 1024 * 1024),
    ("unclaimed_drafts_per_principal", 100),
    ("unclaimed_draft_bytes_per_principal", 100 * 1024 * 1024),
    ("draft_seconds", 86_400),
    ("lease_seconds", 30),
    ("lease_extension_seconds", 300),
    ("lease_total_seconds", 43_200),
    ("release_delay_seconds", 3_600),
    ("delivery_attempts", 20),
    ("delivery_attempts_seconds", 86_400),
    ("redelivery_wait_seconds", 300),
    ("presence_connected_seconds", 45),
    ("presence_stale_seconds", 300),
    ("event_stream_seconds", 900),
    ("cursor_seconds", 86_400),
    ("preview_token_seconds", 600),
    ("request_expiry_seconds", 7_776_000),
    ("answer_validity_seconds", 7_776_000),
    ("credential_default_seconds", 2_592_000),
    ("renewable_lease_seconds", 86_400),
    ("rotation_overlap_seconds", 86_400),
    ("channel_secret_bytes", 4_096),
    ("followup_seconds", 900),
    ("assistance_calls_at_once", 2),
    ("assistance_calls_per_hour", 1_000),
    ("plan_seconds", 900),
];

#[cfg(test)]
mod tests {
    use super::applied;

    #[test]
    fn limits_are_positive_and_named_once() {
        let limits = applied();
        assert!(limits.0.len() > 60, "{}", limits.0.len());
        assert!(limits.0.values().all(|limit| *limit > 0));
        assert_eq!(limits.get("body_bytes"), Some(32_768));
        assert_eq!(limits.get("page_scan_rows"), Some(5_000));
    }
}
