use crate::model::*;

#[test]
fn the_vocabularies_have_the_published_words() {
    assert_eq!(TargetKind::KNOWN, ["person", "agent", "service", "instance", "group"]);
    assert_eq!(PrincipalKind::KNOWN, ["person", "agent", "service"]);
    assert_eq!(RequestKind::KNOWN, ["question", "approval", "task"]);
    assert_eq!(RequestState::KNOWN, ["open", "resolved", "cancelled", "expired", "superseded"]);
    assert_eq!(Outcome::KNOWN, ["answered", "approved", "denied", "completed", "failed", "rejected"]);
    assert_eq!(ExecutionState::KNOWN, ["authorized", "running", "succeeded", "failed", "unknown"]);
    assert_eq!(DeliveryKind::KNOWN, ["message", "request", "request_result", "request_withdrawn"]);
    assert_eq!(Presence::KNOWN, ["connected", "stale", "offline"]);
    assert_eq!(Effect::KNOWN, ["allow", "deny"]);
    assert_eq!(RuleAction::KNOWN, ["view", "message", "ask", "decide", "manage"]);
    assert_eq!(CredentialKind::KNOWN, ["owner", "worker", "api", "enrollment"]);
    assert_eq!(Permission::KNOWN, ["read", "message", "request", "respond", "execute", "manage"]);
    assert_eq!(GroupPurpose::KNOWN, ["contacts", "team", "agent_role"]);
    assert_eq!(SubjectKind::KNOWN, ["principal", "group"]);
    assert_eq!(MembershipOperation::KNOWN, ["add", "remove", "rename", "leave"]);
}

#[test]
fn the_error_codes_are_those_of_the_contract() {
    assert_eq!(
        ErrorCode::KNOWN,
        [
            "invalid_request",
            "invalid_cursor",
            "unauthorized",
            "forbidden",
            "not_found",
            "method_not_allowed",
            "version_conflict",
            "request_closed",
            "idempotency_conflict",
            "stale_generation",
            "preview_stale",
            "attachment_claimed",
            "execution_final",
            "not_approved",
            "action_mismatch",
            "already_exists",
            "manager_required",
            "last_operator",
            "not_renewable",
            "cursor_expired",
            "too_large",
            "unsupported_media_type",
            "rate_limited",
            "internal",
            "provider_failed",
            "unavailable",
            "provider_timeout",
        ]
    );
}

#[test]
fn ids_are_plain_texts_with_the_published_prefixes() {
    assert_eq!(serde_json::to_string(&ConversationId::new("cnv_1")).unwrap(), "\"cnv_1\"");
    let mut prefixes = ID_PREFIXES.to_vec();
    prefixes.sort_unstable();
    let mut published = vec![
        "per_", "agt_", "svc_", "ins_", "grp_", "rol_", "rbd_", "crd_", "cnv_", "msg_", "req_", "dlv_", "att_", "exe_", "ans_",
        "con_", "dst_", "lnk_", "pln_", "evt_",
    ];
    published.sort_unstable();
    assert_eq!(prefixes, published);
}

#[test]
fn times_keep_their_microseconds_and_read_any_offset() {
    for (given, kept) in [
        ("2026-11-30T12:00:00Z", "2026-11-30T12:00:00Z"),
        ("2026-11-30T12:00:00.1Z", "2026-11-30T12:00:00.1Z"),
        ("2026-11-30T12:00:00.12+00:00", "2026-11-30T12:00:00.12Z"),
        ("2026-11-30T12:00:00.123456+03:00", "2026-11-30T09:00:00.123456Z"),
        ("2026-11-30T12:00:00.123456999Z", "2026-11-30T12:00:00.123456Z"),
        ("9999-01-01T00:00:00Z", "9999-01-01T00:00:00Z"),
    ] {
        let at: Timestamp = serde_json::from_str(&format!("\"{given}\"")).unwrap();
        assert_eq!(serde_json::to_string(&at).unwrap(), format!("\"{kept}\""));
    }
    for wrong in ["2026-11-30", "2026-11-30T12:00:00", "2026-13-30T12:00:00Z", "2026-11-30T25:00:00Z", "", "now"] {
        assert!(serde_json::from_str::<Timestamp>(&format!("\"{wrong}\"")).is_err(), "{wrong}");
    }
    assert!(serde_json::from_str::<Timestamp>("1764504000").is_err());
}

#[test]
fn a_lone_surrogate_is_a_decode_error() {
    for text in [r#""\ud800""#, r#""\udc00""#, r#""\ud83d x""#] {
        assert!(serde_json::from_str::<MessageId>(text).is_err(), "{text}");
    }
}
