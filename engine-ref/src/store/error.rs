//! What can go wrong in the store, sorted by what the caller can do about it.

use std::error::Error;

use crate::service::refusal::Refusal;

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The database can't serve at the moment: disk full, input/output error, locked for too long, server away.
    #[error("the database is not available")]
    Unavailable(#[source] Cause),
    /// A constraint of the schema refused the change.
    #[error("a constraint of the database refused the change")]
    Constraint(#[source] Cause),
    /// The database refused a statement: a fault of this program.
    #[error("the database refused the statement {sql:?}")]
    Statement {
        sql: String,
        #[source]
        source: Cause,
    },
    /// A statement and the values given with it don't fit: a fault of this program.
    #[error("parameter {name:?} of the statement {sql:?}: {problem}")]
    Parameter { name: String, sql: &'static str, problem: &'static str },
    /// `get` found no row.
    #[error("the statement {sql:?} found no row")]
    NoRow { sql: &'static str },
    /// A row has no such column, or one of another type: a fault of this program.
    #[error("column {name:?} is {found}, not {wanted}")]
    Column { name: &'static str, found: &'static str, wanted: &'static str },
    /// A column holds other JSON than this program writes.
    #[error("the column {column:?} does not hold the JSON that belongs there")]
    Json {
        column: &'static str,
        #[source]
        source: serde_json::Error,
    },
    /// A statement followed one that failed in the same piece.
    #[error("an earlier statement of this piece failed")]
    Aborted,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The database can't be opened; the text says why and what to do.
    #[error("{0}")]
    Open(String),
}

/// What the driver or the system said.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

impl StoreError {
    /// A passing failure that no driver reported.
    pub(super) fn unavailable(reason: &'static str) -> Self {
        Self::Unavailable(reason.into())
    }

    /// Whether the same may work a little later.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// The error and everything under it, as one line.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let reason = error.chain();
        match error {
            StoreError::Unavailable(_) | StoreError::Closed | StoreError::Open(_) => Self::Unavailable { reason },
            _ => Self::Internal { reason },
        }
    }
}
