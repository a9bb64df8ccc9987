//! What can go wrong with an inbox.

use std::error::Error as StdError;
use std::fmt;

/// The kinds of trouble that a caller tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InboxErrorKind {
    /// Another receiver owns this inbox.
    InUse,
    /// Others may read the folder or a file in it, or it is not a plain file or folder.
    NotPrivate,
    /// A newer version of this crate wrote it.
    Newer,
    /// The file is damaged, or no inbox.
    Corrupt,
    /// No room on the disk; nothing was changed.
    Full,
    /// Somebody else held the database longer than the busy limit; nothing was changed.
    Busy,
    /// The lock or the database file was removed or replaced under the owner, which therefore stopped.
    LockLost,
    /// The inbox was closed.
    Closed,
    /// No input has this id.
    NotFound,
    /// The input does not wait for a person.
    NotHeld,
    /// Reading or writing failed for another reason; see the source.
    Storage,
}

/// Why an inbox could not do something. Whatever the kind, nothing is half done.
pub struct InboxError(Box<Inner>);

struct Inner {
    kind: InboxErrorKind,
    about: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl InboxError {
    /// An error of a kind, with what it is about: a path, an id, a step.
    pub fn new(kind: InboxErrorKind, about: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, about: about.into(), cause: None }))
    }

    /// The same with its cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// The kind of trouble.
    pub fn kind(&self) -> InboxErrorKind {
        self.0.kind
    }
}

impl fmt::Display for InboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = &self.0.about;
        match self.0.kind {
            InboxErrorKind::InUse => write!(f, "the inbox {about} is in use by another receiver"),
            InboxErrorKind::NotPrivate => write!(f, "the inbox is not private: {about}"),
            InboxErrorKind::Newer => write!(f, "the inbox was written by a newer version: {about}"),
            InboxErrorKind::Corrupt => write!(f, "the inbox {about} is damaged or no inbox"),
            InboxErrorKind::Full => write!(f, "{about}: the disk is full"),
            InboxErrorKind::Busy => write!(f, "{about}: another program keeps the inbox locked"),
            InboxErrorKind::LockLost => write!(f, "ownership of the inbox is lost: {about}"),
            InboxErrorKind::Closed => write!(f, "{about}: the inbox is closed"),
            InboxErrorKind::NotFound => write!(f, "no input {about}"),
            InboxErrorKind::NotHeld => write!(f, "the input {about} does not wait for a person"),
            InboxErrorKind::Storage => write!(f, "{about}: the inbox could not be read or written"),
        }
    }
}

impl fmt::Debug for InboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboxError")
            .field("kind", &self.0.kind)
            .field("about", &self.0.about)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl StdError for InboxError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.as_ref().map(|cause| &**cause as _)
    }
}
