//! Values that go into statements and rows that come out, the same for both databases.

use std::sync::Arc;

use beepgrid::Timestamp;

use super::StoreError;

/// One value, as both databases know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Value {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Text(_) => "text",
            Self::Blob(_) => "a blob",
        }
    }
}

/// What can be given to a statement.
pub(crate) trait ToValue {
    fn to_value(&self) -> Value;
}

impl ToValue for Value {
    fn to_value(&self) -> Value {
        self.clone()
    }
}

impl ToValue for str {
    fn to_value(&self) -> Value {
        Value::Text(self.to_owned())
    }
}

impl ToValue for String {
    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl ToValue for i64 {
    fn to_value(&self) -> Value {
        Value::Int(*self)
    }
}

impl ToValue for bool {
    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }
}

impl ToValue for [u8] {
    fn to_value(&self) -> Value {
        Value::Blob(self.to_vec())
    }
}

impl<const N: usize> ToValue for [u8; N] {
    fn to_value(&self) -> Value {
        Value::Blob(self.to_vec())
    }
}

impl ToValue for Vec<u8> {
    fn to_value(&self) -> Value {
        Value::Blob(self.clone())
    }
}

impl ToValue for Timestamp {
    fn to_value(&self) -> Value {
        Value::Int(self.as_micros())
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value {
        (**self).to_value()
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, ToValue::to_value)
    }
}

macro_rules! text_values {
    ($($name:ident),+ $(,)?) => {$(
        impl ToValue for beepgrid::$name {
            fn to_value(&self) -> Value {
                Value::Text(self.as_str().to_owned())
            }
        }
    )+};
}

text_values!(
    PrincipalId,
    InstanceId,
    GroupId,
    RoleId,
    RoleBindingId,
    CredentialId,
    ConversationId,
    MessageId,
    RequestId,
    DeliveryId,
    AttachmentId,
    ExecutionId,
    AnswerId,
    ConnectionId,
    DestinationId,
    AccountLinkId,
    PlanId,
    EventId,
);

/// One row of an answer. Columns are read by name; a wrong name or type is an error, never a default.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    columns: Arc<[String]>,
    values: Vec<Value>,
}

macro_rules! columns {
    ($($get:ident, $find:ident, $type:ty, $wanted:literal, $($pattern:pat => $value:expr),+;)+) => {$(
        #[doc = concat!("The column `name` as ", $wanted, ".")]
        pub(crate) fn $get(&self, name: &'static str) -> Result<$type, StoreError> {
            match self.value(name, $wanted)? {
                $($pattern => Ok($value),)+
                other => Err(StoreError::Column { name, found: other.kind(), wanted: $wanted }),
            }
        }

        #[doc = concat!("The column `name` as ", $wanted, ", or `None` for null.")]
        #[allow(dead_code, reason = "each type has both forms, whether or not a table needs them today")]
        pub(crate) fn $find(&self, name: &'static str) -> Result<Option<$type>, StoreError> {
            match self.value(name, $wanted)? {
                Value::Null => Ok(None),
                _ => self.$get(name).map(Some),
            }
        }
    )+};
}

impl Row {
    pub(super) fn new(columns: Arc<[String]>, values: Vec<Value>) -> Self {
        Self { columns, values }
    }

    fn value(&self, name: &'static str, wanted: &'static str) -> Result<&Value, StoreError> {
        let position = self.columns.iter().position(|column| column == name);
        position.and_then(|position| self.values.get(position)).ok_or(StoreError::Column { name, found: "not there", wanted })
    }

    columns! {
        text, opt_text, String, "text", Value::Text(text) => text.clone();
        int, opt_int, i64, "an integer", Value::Int(int) => *int;
        // SQLite has no booleans: it stores and returns 0 and 1.
        bool, opt_bool, bool, "a boolean", Value::Bool(bool) => *bool, Value::Int(int @ (0 | 1)) => *int == 1;
        blob, opt_blob, Vec<u8>, "a blob", Value::Blob(blob) => blob.clone();
    }
}
