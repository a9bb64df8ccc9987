//! The life of a request as a pure function: `open` until one operation ends it, and nothing after that.

use beepgrid::{ErrorCode, RequestState, Timestamp};

use crate::service::Refusal;

/// Where a request stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) state: RequestState,
    pub(crate) version: i64,
}

/// What can end a request. Whoever decides or edits says which version it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Respond { version: i64 },
    Cancel { version: i64 },
    Supersede { version: i64 },
    Expire,
}

/// Why an operation changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is final.
    Closed,
    /// It is open, but not at the version that was read.
    Changed { current: i64 },
}

impl Standing {
    /// Where it stands at `now`: what is due is expired, whether or not the sweeper has come by.
    pub(crate) fn at(&self, expires_at: Timestamp, now: Timestamp) -> Self {
        if self.is_open() && is_due(expires_at, now) {
            return Self { state: RequestState::Expired, version: self.version.saturating_add(1) };
        }
        self.clone()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state == RequestState::Open
    }

    /// Where it stands after `operation`. A final state is reported before a stale version.
    pub(crate) fn after(&self, operation: Operation) -> Result<Self, Refused> {
        if !self.is_open() {
            return Err(Refused::Closed);
        }
        let (read, state) = match operation {
            Operation::Respond { version } => (version, RequestState::Resolved),
            Operation::Cancel { version } => (version, RequestState::Cancelled),
            Operation::Supersede { version } => (version, RequestState::Superseded),
            Operation::Expire => (self.version, RequestState::Expired),
        };
        if read != self.version {
            return Err(Refused::Changed { current: self.version });
        }
        Ok(Self { state, version: self.version.saturating_add(1) })
    }
}

/// Whether the deadline has come. Never is never.
pub(crate) fn is_due(expires_at: Timestamp, now: Timestamp) -> bool {
    expires_at != Timestamp::NEVER && expires_at <= now
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Closed => Self::conflict(ErrorCode::RequestClosed, "the request is final; read it to see how it ended"),
            Refused::Changed { current } => Self::version_conflict(current),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            (0..4_i64).prop_map(|version| Operation::Respond { version }),
            (0..4_i64).prop_map(|version| Operation::Cancel { version }),
            (0..4_i64).prop_map(|version| Operation::Supersede { version }),
            Just(Operation::Expire),
        ]
    }

    fn fits(operation: Operation, current: i64) -> bool {
        match operation {
            Operation::Respond { version } | Operation::Cancel { version } | Operation::Supersede { version } => {
                version == current
            }
            Operation::Expire => true,
        }
    }

    proptest! {
        #[test]
        fn exactly_the_first_fitting_operation_ends_a_request(operations in prop::collection::vec(operation(), 0..12)) {
            let mut standing = Standing { state: RequestState::Open, version: 1 };
            for operation in operations {
                match standing.after(operation) {
                    Ok(next) => {
                        prop_assert!(standing.is_open() && fits(operation, standing.version));
                        prop_assert!(!next.is_open());
                        prop_assert_eq!(next.version, standing.version + 1);
                        standing = next;
                    }
                    Err(Refused::Closed) => prop_assert!(!standing.is_open()),
                    Err(Refused::Changed { current }) => {
                        prop_assert!(standing.is_open() && !fits(operation, current));
                        prop_assert_eq!(current, standing.version);
                    }
                }
            }
        }

        #[test]
        fn a_read_and_the_sweeper_agree_about_the_deadline(expires in 0..100_i64, now in 0..100_i64, version in 1..9_i64) {
            let open = Standing { state: RequestState::Open, version };
            let read = open.at(Timestamp::from_micros(expires), Timestamp::from_micros(now));
            if expires <= now {
                prop_assert_eq!(&read, &open.after(Operation::Expire).unwrap());
                prop_assert_eq!(read.after(Operation::Respond { version }), Err(Refused::Closed));
            } else {
                prop_assert_eq!(read, open);
            }
        }

        #[test]
        fn time_changes_nothing_that_is_final(now in 0..i64::MAX, version in 1..9_i64) {
            let resolved = Standing { state: RequestState::Resolved, version };
            prop_assert_eq!(resolved.at(Timestamp::from_micros(0), Timestamp::from_micros(now)), resolved);
        }
    }

    #[test]
    fn never_does_not_come() {
        let open = Standing { state: RequestState::Open, version: 1 };
        assert_eq!(open.at(Timestamp::NEVER, Timestamp::MAX), open);
    }
}
