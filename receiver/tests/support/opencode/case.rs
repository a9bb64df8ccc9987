//! A receiver with the opencode binding, a scripted server behind it, and what the tests wait for.

use std::path::Path;
use std::time::Duration;

use beepgrid_receiver::opencode::Server;
use beepgrid_receiver::{
    BusyMode, Handle, InputState, LiveInput, Receiver, RetryPolicy, RunError, SqliteInbox, Status, StoredInput,
};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Opencode, SESSION};
use crate::support::engine::FakeEngine;
use crate::support::until;

pub(crate) struct Running {
    pub(crate) engine: FakeEngine,
    pub(crate) handle: Handle<SqliteInbox>,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) task: JoinHandle<Result<(), RunError>>,
}

pub(crate) async fn receive(mode: BusyMode, at: &Server, engine: &FakeEngine, folder: &Path) -> Running {
    let inbox = SqliteInbox::open(folder.join("inbox")).await.unwrap();
    let receiver = Receiver::builder(engine.clone(), inbox, at.session(SESSION).unwrap())
        .mode(mode)
        .retry(RetryPolicy { attempts: 3, first_delay: Duration::from_millis(20), max_delay: Duration::from_millis(100) })
        .call_deadline(Duration::from_secs(5))
        .build()
        .unwrap();
    let (handle, status) = (receiver.handle(), receiver.status());
    Running { engine: engine.clone(), handle, status, task: tokio::spawn(receiver.run(CancellationToken::new())) }
}

pub(crate) struct Case {
    pub(crate) server: Opencode,
    pub(crate) folder: TempDir,
    pub(crate) engine: FakeEngine,
    pub(crate) running: Option<Running>,
}

impl Case {
    pub(crate) async fn new(mode: BusyMode) -> Self {
        let mut case = Self::without_receiver().await;
        case.receive(mode).await;
        case
    }

    pub(crate) async fn without_receiver() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { server: Opencode::start().await, folder, engine: FakeEngine::new(), running: None }
    }

    pub(crate) fn at(&self) -> Server {
        Server::at(self.server.url()).timeout(Duration::from_millis(500))
    }

    pub(crate) async fn receive(&mut self, mode: BusyMode) {
        self.running = Some(receive(mode, &self.at(), &self.engine, self.folder.path()).await);
    }

    /// As after a kill of the receiver: nothing more is recorded.
    pub(crate) async fn kill_receiver(&mut self) {
        let Running { task, handle, .. } = self.running.take().unwrap();
        task.abort();
        let _ = task.await;
        drop(handle);
    }

    pub(crate) fn deliver(&self, inputs: impl IntoIterator<Item = LiveInput>) {
        inputs.into_iter().for_each(|input| self.engine.deliver(input));
    }

    pub(crate) async fn stored(&self, id: &str) -> Option<StoredInput> {
        self.running.as_ref().unwrap().handle.get(&id.into()).await.unwrap()
    }

    pub(crate) async fn accepted(&self, id: &str) {
        let is = async || self.stored(id).await.is_some_and(|stored| stored.state == InputState::Accepted);
        until(&format!("{id} is accepted"), is).await;
    }

    pub(crate) async fn seen(&self, ids: &[&str]) {
        until(&format!("the model sees {ids:?}, not {:?}", self.server.seen()), async || self.server.seen() == ids).await;
    }

    pub(crate) async fn shows_trouble(&self) {
        let status = self.running.as_ref().unwrap().status.clone();
        until("the trouble is shown", async || status.borrow().last_error.is_some()).await;
    }

    pub(crate) async fn connected(&self) {
        let status = self.running.as_ref().unwrap().status.clone();
        until("no trouble is left", async || status.borrow().last_error.is_none() && self.server.streams() > 0).await;
    }

    pub(crate) async fn waits_unharmed(&self, id: &str) {
        let unharmed = async || {
            self.stored(id)
                .await
                .is_some_and(|stored| stored.state == InputState::Pending && stored.held.is_none() && stored.attempts == 0)
        };
        until(&format!("{id} waits"), unharmed).await;
    }
}
