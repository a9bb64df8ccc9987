//! A receiver with the ACP binding on a scripted agent, over an inbox on disk.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use beepgrid_receiver::acp::{AcpBinding, Options};
use beepgrid_receiver::{BusyMode, InboxStore, InputState, LiveInput, Receiver, RetryPolicy, RunError, SqliteInbox};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::acp::{FakeAgent, Kind};
use super::engine::FakeEngine;
use super::until;

pub(crate) struct World {
    pub(crate) engine: FakeEngine,
    pub(crate) fake: FakeAgent,
    pub(crate) folder: TempDir,
}

pub(crate) struct Running {
    pub(crate) engine: FakeEngine,
    pub(crate) fake: FakeAgent,
    pub(crate) inbox: Arc<SqliteInbox>,
    pub(crate) binding: AcpBinding,
    pub(crate) handle: beepgrid_receiver::Handle<Arc<SqliteInbox>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), RunError>>,
}

impl World {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { engine: FakeEngine::new(), fake: FakeAgent::new(kind), folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) async fn run(&self, mode: BusyMode) -> Running {
        self.run_with(mode, self.fake.options()).await
    }

    pub(crate) async fn run_with(&self, mode: BusyMode, options: Options) -> Running {
        let inbox = Arc::new(SqliteInbox::open(self.folder.path().join("inbox")).await.unwrap());
        let binding = AcpBinding::start(options).await.unwrap();
        let receiver = Receiver::builder(self.engine.clone(), Arc::clone(&inbox), binding.clone())
            .mode(mode)
            .call_deadline(Duration::from_secs(2))
            .retry(RetryPolicy { first_delay: Duration::from_millis(20), ..RetryPolicy::default() })
            .build()
            .unwrap();
        let (cancel, handle) = (CancellationToken::new(), receiver.handle());
        Running {
            engine: self.engine.clone(),
            fake: self.fake.clone(),
            inbox,
            binding,
            handle,
            cancel: cancel.clone(),
            task: tokio::spawn(receiver.run(cancel)),
        }
    }
}

impl Running {
    pub(crate) fn deliver(&self, input: LiveInput) {
        self.engine.deliver(input);
    }

    pub(crate) async fn accepted(&self, id: &str) {
        until(&format!("{id} is accepted"), async || {
            self.inbox.get(id.into()).await.unwrap().is_some_and(|row| row.state == InputState::Accepted)
        })
        .await;
    }

    pub(crate) async fn held(&self, id: &str) {
        until(&format!("{id} is held"), async || self.inbox.get(id.into()).await.unwrap().is_some_and(|row| row.held.is_some()))
            .await;
    }

    pub(crate) async fn arrived(&self, id: &str, times: usize) {
        until(&format!("{id} arrived {times} times"), async || self.fake.arrived(id) == times).await;
    }

    /// The agent has it in memory, and the receiver knows.
    pub(crate) async fn taken(&self, id: &str) {
        until(&format!("{id} is taken"), async || {
            let row = self.inbox.get(id.into()).await.unwrap();
            self.fake.arrived(id) > 0 && row.is_some_and(|row| row.attempt.is_some_and(|attempt| attempt.turn.is_some()))
        })
        .await;
    }

    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
        self.inbox.close().await.unwrap();
        self.binding.stop().await;
    }

    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap().unwrap();
        self.inbox.close().await.unwrap();
        self.binding.stop().await;
    }
}
