//! A receiver with the Claude binding on a scripted Claude, over an inbox on disk.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::sync::Arc;

use beepgrid_receiver::claude::{ClaudeBinding, Options};
use beepgrid_receiver::{BusyMode, InboxStore, InputState, LiveInput, Receiver, RunError, SqliteInbox};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::claude::FakeClaude;
use super::engine::FakeEngine;
use super::until;

pub(crate) struct World {
    pub(crate) engine: FakeEngine,
    pub(crate) fake: FakeClaude,
    pub(crate) folder: TempDir,
}

pub(crate) struct Running {
    pub(crate) engine: FakeEngine,
    pub(crate) fake: FakeClaude,
    pub(crate) inbox: Arc<SqliteInbox>,
    pub(crate) binding: ClaudeBinding,
    pub(crate) cancel: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), RunError>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { engine: FakeEngine::new(), fake: FakeClaude::new(folder.path()), folder }
    }

    pub(crate) async fn run(&self, mode: BusyMode) -> Running {
        self.run_with(mode, self.fake.options()).await
    }

    pub(crate) async fn run_with(&self, mode: BusyMode, options: Options) -> Running {
        let inbox = Arc::new(SqliteInbox::open(self.folder.path().join("inbox")).await.unwrap());
        let binding = ClaudeBinding::start(options).unwrap();
        let receiver = Receiver::builder(self.engine.clone(), Arc::clone(&inbox), binding.clone()).mode(mode).build().unwrap();
        let cancel = CancellationToken::new();
        Running {
            engine: self.engine.clone(),
            fake: self.fake.clone(),
            inbox,
            binding,
            cancel: cancel.clone(),
            task: tokio::spawn(receiver.run(cancel)),
        }
    }
}

impl Running {
    pub(crate) fn deliver(&self, input: LiveInput) {
        self.engine.deliver(input);
    }

    pub(crate) async fn state(&self, id: &str) -> Option<InputState> {
        self.inbox.get(id.into()).await.unwrap().map(|row| row.state)
    }

    pub(crate) async fn accepted(&self, id: &str) {
        until(&format!("{id} is accepted"), async || self.state(id).await == Some(InputState::Accepted)).await;
    }

    pub(crate) async fn arrived(&self, id: &str, times: usize) {
        let mark = format!("[beepgrid end {id}]");
        until(&format!("{id} arrived {times} times"), async || {
            let inputs = self.fake.inputs();
            inputs.iter().filter(|input| input["message"]["content"][0]["text"].as_str().unwrap().contains(&mark)).count()
                == times
        })
        .await;
    }

    pub(crate) async fn taken(&self, id: &str) {
        self.arrived(id, 1).await;
        until(&format!("{id} is noted as taken"), async || {
            let row = self.inbox.get(id.into()).await.unwrap().unwrap();
            row.attempt.is_some_and(|attempt| attempt.native_id.is_some())
        })
        .await;
    }

    pub(crate) async fn replied(&self, ask: &str) -> serde_json::Value {
        until(&format!("{ask} is answered"), async || self.fake.reply(ask).is_some()).await;
        self.fake.reply(ask).unwrap()["response"].clone()
    }

    /// The host dies: nothing of it is wound down.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
        self.inbox.close().await.unwrap();
    }

    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap().unwrap();
        self.inbox.close().await.unwrap();
        self.binding.stop().await;
    }
}
