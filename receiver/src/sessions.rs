//! Several native sessions behind one inbox: which conversation belongs to which, remembered on disk, and a dispatcher of its own for each.
//!
//! A host that keeps one session for each conversation (or for each customer, or project) gives the receiver a [`SessionRoute`] instead of one
//! binding. Every session has its own binding, its own idle and busy, its own order; none waits for another. A conversation stays with the session
//! it was first given to, over restarts, whatever the route would say later.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::future::Future;
use std::sync::Arc;

use beepgrid::ConversationId;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::binding::{InputBinding, Reporter, Settled};
use crate::dispatch::{Dispatcher, Parts, Shared};
use crate::inbox::InboxStore;
use crate::status::Part;

/// Why a route could not name or open a session; shown, and tried again after a while.
pub type RouteError = Box<dyn StdError + Send + Sync>;

/// Which native session a conversation belongs to, and the way into each session.
///
/// ```
/// # use beepgrid::ConversationId;
/// # use beepgrid_receiver::{InputBinding, RouteError, SessionRoute};
/// struct OneForEach<F>(F);
///
/// impl<B: InputBinding, F: Fn(&str) -> B + Send + Sync + 'static> SessionRoute for OneForEach<F> {
///     type Binding = B;
///
///     async fn session(&self, conversation: &ConversationId) -> Result<String, RouteError> {
///         Ok(format!("thread-of-{conversation}"))
///     }
///
///     async fn open(&self, session: &str) -> Result<B, RouteError> {
///         Ok((self.0)(session))
///     }
/// }
/// ```
pub trait SessionRoute: Send + Sync + 'static {
    /// The way into one session.
    type Binding: InputBinding;

    /// Names the session of a conversation that has none yet; may make one in the runtime.
    ///
    /// The answer is stored before anything is handed over. After a crash in between the question comes again, so the same conversation
    /// should get the same answer, or a session that was made for nothing is left behind.
    fn session(&self, conversation: &ConversationId) -> impl Future<Output = Result<String, RouteError>> + Send;

    /// The way into a session: asked once in each run, when the first input for it is there.
    fn open(&self, session: &str) -> impl Future<Output = Result<Self::Binding, RouteError>> + Send;
}

impl<R: SessionRoute> SessionRoute for Arc<R> {
    type Binding = R::Binding;

    fn session(&self, conversation: &ConversationId) -> impl Future<Output = Result<String, RouteError>> + Send {
        R::session(self, conversation)
    }

    fn open(&self, session: &str) -> impl Future<Output = Result<Self::Binding, RouteError>> + Send {
        R::open(self, session)
    }
}

/// Gives every conversation its session, and runs a dispatcher for each session that has input.
pub(crate) struct Sessions<I, R> {
    shared: Shared<I>,
    route: R,
    running: BTreeSet<String>,
    dispatchers: JoinSet<()>,
    lines: Vec<Reporter>,
    failures: u32,
}

impl<I: InboxStore, R: SessionRoute> Sessions<I, R> {
    pub(crate) fn new(shared: Shared<I>, route: R) -> Self {
        Self { shared, route, running: BTreeSet::new(), dispatchers: JoinSet::new(), lines: Vec::new(), failures: 0 }
    }

    /// Works until `cancel` fires and every dispatcher has ended.
    pub(crate) async fn run(mut self, cancel: &CancellationToken) {
        let mut changes = self.shared.signals.changed.subscribe();
        while !cancel.is_cancelled() {
            changes.mark_unchanged();
            let settled = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                settled = self.assign(cancel) => settled,
            };
            self.failures = if settled { 0 } else { self.failures.saturating_add(1) };
            let again = self.shared.config.reconnect.delay(self.failures);
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                _ = changes.changed() => {}
                () = tokio::time::sleep(again), if !settled => {}
            }
        }
        while self.dispatchers.join_next().await.is_some() {}
    }

    /// One look at the inbox; whether everything there has a session and a dispatcher.
    async fn assign(&mut self, cancel: &CancellationToken) -> bool {
        let open = match self.shared.inbox.open().await {
            Ok(open) => open,
            Err(error) => {
                self.shared.status.failed(Part::Inbox, "reading the inbox", &error);
                return false;
            }
        };
        // One decision for each conversation, in order of creation.
        let mut sessions: BTreeMap<ConversationId, Option<String>> = BTreeMap::new();
        let mut order = Vec::new();
        for input in open {
            if !sessions.contains_key(&input.conversation_id) {
                order.push(input.conversation_id.clone());
            }
            sessions.insert(input.conversation_id, input.session);
        }
        let mut settled = true;
        for conversation in order {
            let known = sessions.remove(&conversation).flatten();
            let session = match known {
                Some(session) => Some(session),
                None => self.route(&conversation).await,
            };
            settled &= match session {
                Some(session) => self.dispatch(session, cancel).await,
                None => false,
            };
        }
        settled
    }

    /// Asks the route and stores its answer; the one that was stored first stands.
    async fn route(&self, conversation: &ConversationId) -> Option<String> {
        let session = match self.route.session(conversation).await {
            Ok(session) => session,
            Err(error) => {
                self.shared.status.failed(Part::Binding, "naming a session", error.as_ref());
                return None;
            }
        };
        match self.shared.inbox.remember_session(conversation.clone(), session, self.shared.clock.now()).await {
            Ok(session) => {
                // Its dispatcher has not seen the rows as its own yet.
                crate::dispatch::Signals::raise(&self.shared.signals.changed);
                Some(session)
            }
            Err(error) => {
                self.shared.status.failed(Part::Inbox, "remembering a session", &error);
                None
            }
        }
    }

    async fn dispatch(&mut self, session: String, cancel: &CancellationToken) -> bool {
        if self.running.contains(&session) {
            return true;
        }
        let binding = match self.route.open(&session).await {
            Ok(binding) => binding,
            Err(error) => {
                self.shared.status.failed(Part::Binding, "opening a session", error.as_ref());
                return false;
            }
        };
        let line = Reporter::new();
        let capabilities = binding.attach(line.clone());
        if let Err(error) = self.shared.config.suits(binding.name(), capabilities) {
            self.shared.status.failed(Part::Binding, "opening a session", &error);
            line.settle(Settled::Ended);
            return false;
        }
        self.shared.status.works(Part::Binding);
        let parts = Parts { binding: Arc::new(binding), line: line.clone(), capabilities, session: Some(session.clone()) };
        let dispatcher = Dispatcher::new(self.shared.clone(), parts);
        let cancel = cancel.clone();
        self.dispatchers.spawn(async move { dispatcher.run(&cancel).await });
        self.lines.push(line);
        self.running.insert(session);
        true
    }
}

impl<I, R> Drop for Sessions<I, R> {
    fn drop(&mut self) {
        // Also of a run that was dropped in the middle: a host that waits must not wait for ever.
        for line in &self.lines {
            line.settle(Settled::Ended);
        }
    }
}
