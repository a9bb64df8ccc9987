//! The account: what this engine is limited to, as data.

use std::time::Duration;

use beepgrid::{Account, AccountLimits, PrincipalKind};

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
    let sizes = SIZES.iter().map(|(name, limit)| (*name, i64::try_from(*limit).unwrap_or(i64::MAX)));
    let times = TIMES.iter().map(|(name, limit)| (*name, i64::try_from(limit.as_secs()).unwrap_or(i64::MAX)));
    AccountLimits(sizes.chain(COUNTS.iter().copied()).chain(times).map(|(name, limit)| (name.to_owned(), limit)).collect())
}

const SIZES: &[(&str, usize)] = &[
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
    ("plan_agents", limits::MAX_PLAN_SOURCES),
    ("answer_audience", limits::MAX_ANSWER_AUDIENCE),
    ("file_bytes", limits::MAX_ATTACHMENT_BYTES),
    ("file_name_characters", limits::MAX_FILE_NAME_CHARS),
    ("resource_characters", limits::MAX_RESOURCE_CHARS),
    ("address_characters", limits::MAX_ADDRESS_CHARS),
    ("delivery_overrides", limits::MAX_OVERRIDES),
    ("preferred_destinations", limits::MAX_PREFERRED),
    ("channel_secret_bytes", *limits::SECRET_BYTES.end()),
    ("callback_bytes", limits::MAX_CALLBACK_BYTES),
    ("assistance_calls_at_once", limits::MAX_ASSISTANCE_AT_ONCE),
    ("assistance_calls_per_hour", limits::MAX_ASSISTANCE_AN_HOUR),
];

const COUNTS: &[(&str, i64)] = &[
    ("instances_per_agent", limits::MAX_INSTANCES),
    ("undelivered_per_sender_and_agent", limits::MAX_BACKLOG),
    ("blocking_requests_per_agent", limits::MAX_BLOCKING),
    ("conversation_messages", limits::CONVERSATION_WINDOW),
    ("list_items", limits::MAX_LIST),
    ("page_items", limits::MAX_PAGE),
    ("page_items_default", limits::DEFAULT_PAGE),
    ("page_scan_rows", limits::MAX_SCAN),
    ("event_page_items", limits::MAX_EVENTS),
    ("lease_items", limits::MAX_LEASE),
    ("wait_milliseconds", limits::MAX_WAIT_MS),
    ("waiting_callbacks_per_connection", limits::MAX_WAITING_CALLBACKS),
    ("unclaimed_drafts_per_principal", limits::MAX_DRAFTS),
    ("unclaimed_draft_bytes_per_principal", limits::MAX_DRAFT_BYTES),
    ("lease_extension_seconds", limits::MAX_EXTENSION),
    ("release_delay_seconds", limits::MAX_DELAY),
    ("delivery_attempts", limits::PARK_ATTEMPTS),
    ("rotation_overlap_seconds", limits::MAX_OVERLAP),
    ("followup_seconds", *limits::FOLLOWUP_SECONDS.end()),
];

const TIMES: &[(&str, Duration)] = &[
    ("draft_seconds", limits::DRAFT_LIFE),
    ("lease_seconds", limits::LEASE),
    ("lease_total_seconds", limits::LONGEST_LEASE),
    ("delivery_attempts_seconds", limits::PARK_AFTER),
    ("redelivery_wait_seconds", limits::LONGEST_BACKOFF),
    ("presence_connected_seconds", limits::CONNECTED),
    ("presence_stale_seconds", limits::STALE),
    ("event_stream_seconds", limits::STREAM_LIFE),
    ("cursor_seconds", limits::CURSOR_LIFE),
    ("preview_token_seconds", limits::PREVIEW_LIFE),
    ("action_seconds", limits::ACTION_LIFE),
    ("request_expiry_seconds", limits::LONGEST_REQUEST_LIFE),
    ("answer_validity_seconds", limits::LONGEST_VALIDITY),
    ("answer_validity_default_seconds", limits::DEFAULT_VALIDITY),
    ("credential_default_seconds", limits::CREDENTIAL_LIFE),
    ("renewable_lease_seconds", limits::RENEWAL),
    ("plan_seconds", limits::PLAN_LIFE),
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
