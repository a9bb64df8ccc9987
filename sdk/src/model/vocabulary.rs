//! Closed vocabularies: enums that keep a word they do not know, so that a newer engine breaks no older client.

macro_rules! vocabulary {
    ($($(#[doc = $doc:literal])+ $name:ident { $($(#[$vdoc:meta])+ $variant:ident = $word:literal,)+ })+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$vdoc])+ $variant,)+
            /// A word this version does not know; written back as it came.
            Other(String),
        }

        impl $name {
            /// The words of this version, in the contract's order.
            pub const KNOWN: &'static [&'static str] = &[$($word),+];

            /// The word on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }

            /// Whether this version knows the word.
            pub fn is_known(&self) -> bool {
                !matches!(self, Self::Other(_))
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                super::schema::vocabulary(generator, concat!($($doc),+), Self::KNOWN)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Ok(Self::from(&*word))
            }
        }
    )+};
}

vocabulary! {
    /// What a target or rule points at.
    TargetKind {
        /// A human participant.
        Person = "person",
        /// A logical agent; one of its instances gets each delivery.
        Agent = "agent",
        /// A software service.
        Service = "service",
        /// One exact runtime connection.
        Instance = "instance",
        /// The present members of a directory group.
        Group = "group",
    }
    /// The kind of a principal.
    PrincipalKind {
        /// A human participant.
        Person = "person",
        /// A software participant with worker instances.
        Agent = "agent",
        /// An application or launcher.
        Service = "service",
    }
    /// Which decision a request asks for.
    RequestKind {
        /// Ends as `answered`.
        Question = "question",
        /// Ends as `approved` or `denied`.
        Approval = "approval",
        /// Ends as `completed`, `failed` or `rejected`.
        Task = "task",
    }
    /// Where a request stands; all but `open` are final.
    RequestState {
        /// Waiting for a decision.
        Open = "open",
        /// Decided; see the response.
        Resolved = "resolved",
        /// Withdrawn by its requester.
        Cancelled = "cancelled",
        /// Its time ran out.
        Expired = "expired",
        /// Replaced or retired by its requester.
        Superseded = "superseded",
    }
    /// A typed decision.
    Outcome {
        /// A question was answered.
        Answered = "answered",
        /// An approval was given.
        Approved = "approved",
        /// An approval was refused.
        Denied = "denied",
        /// A task was done.
        Completed = "completed",
        /// A task was tried and failed.
        Failed = "failed",
        /// A task was refused.
        Rejected = "rejected",
    }
    /// Where an execution stands. The executor reports all but `authorized`; `succeeded` and `failed` are final.
    ExecutionState {
        /// Redeemed; nothing was reported yet.
        Authorized = "authorized",
        /// The executor is at it.
        Running = "running",
        /// The executor saw it succeed.
        Succeeded = "succeeded",
        /// The executor saw it fail.
        Failed = "failed",
        /// The executor can't tell; may be followed by what it finds out.
        Unknown = "unknown",
    }
    /// What a plan of the Coordinator does.
    PlanOperation {
        /// Answers from what is known; sends nothing.
        Status = "status",
        /// Sends messages.
        Message = "message",
        /// Asks questions.
        Question = "question",
        /// Gives tasks.
        Task = "task",
    }
    /// What an event tells of.
    EventKind {
        /// A message was stored.
        MessageCreated = "message.created",
        /// Somebody was asked.
        RequestCreated = "request.created",
        /// A request was decided.
        RequestResolved = "request.resolved",
        /// A request was withdrawn.
        RequestCancelled = "request.cancelled",
        /// A request's time ran out.
        RequestExpired = "request.expired",
        /// A request was replaced or retired.
        RequestSuperseded = "request.superseded",
        /// Something else about a request changed.
        RequestUpdated = "request.updated",
        /// A conversation was opened.
        ConversationCreated = "conversation.created",
        /// A conversation's title changed.
        ConversationUpdated = "conversation.updated",
        /// Somebody joined a chat.
        MemberAdded = "conversation.member_added",
        /// Somebody left a chat or was removed; the removed one's last event of it.
        MemberRemoved = "conversation.member_removed",
        /// A file was added.
        AttachmentCreated = "attachment.created",
        /// A bound action may be executed.
        ExecutionAuthorized = "execution.authorized",
        /// An execution was reported on.
        ExecutionUpdated = "execution.updated",
        /// An answer became reusable.
        AnswerPublished = "answer.published",
        /// An answer is reusable no longer.
        AnswerInvalidated = "answer.invalidated",
        /// A delivery was parked or requeued.
        DeliveryUpdated = "delivery.updated",
        /// A plan was made.
        PlanCreated = "plan.created",
        /// A plan's messages were sent.
        PlanDispatched = "plan.dispatched",
        /// A plan was summed up.
        PlanSummarized = "plan.summarized",
        /// A person, agent or service was made or changed.
        IdentityUpdated = "identity.updated",
    }
    /// What a delivery carries.
    DeliveryKind {
        /// A message to read.
        Message = "message",
        /// A request to decide.
        Request = "request",
        /// A request of one's own left `open`.
        RequestResult = "request_result",
        /// A request put to one left `open` without one.
        RequestWithdrawn = "request_withdrawn",
    }
    /// How recently a runtime was heard of.
    Presence {
        /// Within 45 seconds.
        Connected = "connected",
        /// Within five minutes.
        Stale = "stale",
        /// Longer ago.
        Offline = "offline",
    }
    /// What a rule does.
    Effect {
        /// Grants; the default.
        Allow = "allow",
        /// Blocks, and wins over every allow.
        Deny = "deny",
    }
    /// What a rule is about.
    RuleAction {
        /// See that the target exists.
        View = "view",
        /// Send it messages.
        Message = "message",
        /// Put requests to it.
        Ask = "ask",
        /// Decide its requests (denies only take this away).
        Decide = "decide",
        /// Manage a kind of resource.
        Manage = "manage",
    }
    /// The kind of a credential.
    CredentialKind {
        /// Operator authority.
        Owner = "owner",
        /// Bound to one instance of an agent.
        Worker = "worker",
        /// A principal, optionally under a ceiling.
        Api = "api",
        /// A launcher, restricted to an external id prefix.
        Enrollment = "enrollment",
    }
    /// A part of the API that a credential may be limited to.
    Permission {
        /// Every read, and events.
        Read = "read",
        /// Send, batch, chats, membership, files.
        Message = "message",
        /// Ask, replace, cancel, supersede, blocking.
        Request = "request",
        /// Respond.
        Respond = "respond",
        /// Redeem and report.
        Execute = "execute",
        /// Manage what the identity may manage.
        Manage = "manage",
    }
    /// What a directory group is for.
    GroupPurpose {
        /// A reusable audience.
        Contacts = "contacts",
        /// People.
        Team = "team",
        /// Agents of one role.
        AgentRole = "agent_role",
    }
    /// Who a role is bound to.
    SubjectKind {
        /// A person, agent or service.
        Principal = "principal",
        /// A directory group: its present members.
        Group = "group",
    }
    /// A change of a shared chat.
    MembershipOperation {
        /// Add members.
        Add = "add",
        /// Remove members.
        Remove = "remove",
        /// Change the title.
        Rename = "rename",
        /// Leave the chat oneself.
        Leave = "leave",
    }
    /// The stable codes of API errors.
    ErrorCode {
        /// 400: the input is wrong; the message names the field and the limit.
        InvalidRequest = "invalid_request",
        /// 400: a cursor that is foreign, changed or beyond the end.
        InvalidCursor = "invalid_cursor",
        /// 401: no valid token.
        Unauthorized = "unauthorized",
        /// 403: seen, but not allowed.
        Forbidden = "forbidden",
        /// 404: not there, or not visible.
        NotFound = "not_found",
        /// 405: the path exists, the method does not.
        MethodNotAllowed = "method_not_allowed",
        /// 409: it changed since it was read.
        VersionConflict = "version_conflict",
        /// 409: the request is final.
        RequestClosed = "request_closed",
        /// 409: the key was used for another request.
        IdempotencyConflict = "idempotency_conflict",
        /// 409: the lease is no longer this one.
        StaleGeneration = "stale_generation",
        /// 409: audience or routes changed since the preview.
        PreviewStale = "preview_stale",
        /// 409: the draft was used already.
        AttachmentClaimed = "attachment_claimed",
        /// 409: the execution's report is final.
        ExecutionFinal = "execution_final",
        /// 409: the request is not approved.
        NotApproved = "not_approved",
        /// 409: another action than the approved one.
        ActionMismatch = "action_mismatch",
        /// 409: something with that name or key exists.
        AlreadyExists = "already_exists",
        /// 409: a chat with members needs a manager.
        ManagerRequired = "manager_required",
        /// 409: the last operator can't go.
        LastOperator = "last_operator",
        /// 409: the credential is not a renewable lease.
        NotRenewable = "not_renewable",
        /// 410: the cursor is too old.
        CursorExpired = "cursor_expired",
        /// 413: larger than allowed.
        TooLarge = "too_large",
        /// 415: the body is not JSON.
        UnsupportedMediaType = "unsupported_media_type",
        /// 429: too much at once; see `Retry-After`.
        RateLimited = "rate_limited",
        /// 500: a fault of the engine.
        Internal = "internal",
        /// 502: a provider failed.
        ProviderFailed = "provider_failed",
        /// 503: try again later; see `Retry-After`.
        Unavailable = "unavailable",
        /// 504: a provider took too long.
        ProviderTimeout = "provider_timeout",
    }
}

impl From<PrincipalKind> for TargetKind {
    fn from(kind: PrincipalKind) -> Self {
        Self::from(kind.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_written_back() {
        let state: RequestState = serde_json::from_str("\"paused\"").unwrap();
        assert_eq!(state, RequestState::Other("paused".into()));
        assert_eq!(serde_json::to_string(&state).unwrap(), "\"paused\"");
        assert!(!state.is_known());
    }

    #[test]
    fn every_known_word_reads_as_its_variant() {
        for word in ErrorCode::KNOWN {
            assert!(ErrorCode::from(*word).is_known());
            assert_eq!(ErrorCode::from(*word).as_str(), *word);
        }
    }
}
