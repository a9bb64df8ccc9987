//! Ids: opaque texts of at most 64 characters, a newtype per kind, so that one can't be passed for another.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])+ $name:ident, $prefix:literal;)+) => {$(
        $(#[$doc])+
        ///
        /// Time-ordered: ascending ids are in order of creation. Treat the text as opaque.
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// What ids of this kind start with when the engine made them.
            pub const PREFIX: &'static str = $prefix;

            /// Wraps an id that the engine returned.
            pub fn new(id: impl Into<String>) -> Self {
                Self(id.into())
            }

            /// The id as it goes over the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether there is no id (the wire's empty text).
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self::new(id)
            }
        }

        impl From<String> for $name {
            fn from(id: String) -> Self {
                Self::new(id)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                super::schema::id(generator)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    )+

        /// Every prefix that the engine gives to ids; an external id may start with none of them.
        pub const ID_PREFIXES: &[&str] = &["per_", "svc_", $($prefix),+];
    };
}

ids! {
    /// A person (`per_`), an agent (`agt_`) or a service (`svc_`).
    PrincipalId, "agt_";
    /// One connected process of an agent.
    InstanceId, "ins_";
    /// A directory group.
    GroupId, "grp_";
    /// A named set of permission rules.
    RoleId, "rol_";
    /// A role bound to a principal or a group.
    RoleBindingId, "rbd_";
    /// A credential's metadata; never its token.
    CredentialId, "crd_";
    /// A direct conversation or a shared chat.
    ConversationId, "cnv_";
    /// A message.
    MessageId, "msg_";
    /// A typed request: question, approval or task.
    RequestId, "req_";
    /// A worker delivery, stable across lease generations.
    DeliveryId, "dlv_";
    /// A file: a private draft or part of a conversation.
    AttachmentId, "att_";
    /// An authorised action's execution record.
    ExecutionId, "exe_";
    /// A published reusable answer.
    AnswerId, "ans_";
    /// A configured channel connection.
    ConnectionId, "con_";
    /// A delivery destination of a person.
    DestinationId, "dst_";
    /// A link between a person and a provider account.
    AccountLinkId, "lnk_";
    /// A Coordinator plan.
    PlanId, "pln_";
    /// An event.
    EventId, "evt_";
}
