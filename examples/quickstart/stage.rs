//! The stage: an engine, an owner, two agents that may reach each other and nobody else, and Builder's receiver.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use beepgrid::{
    Client, EnrollInput, PermissionRule, PrincipalId, RoleBindingInput, RoleInput, RuleAction, SendInput, Session, Target,
};
use beepgrid_engine_ref::Engine;
use beepgrid_receiver::checkpoint::{self, Host, Options};
use beepgrid_receiver::{BusyMode, InboxStore, Receiver, Reconciled, RunError, SqliteInbox, Status};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::timeline::{Timeline, within};

/// Everything that the scenes need.
pub(crate) struct Stage {
    pub(crate) timeline: Timeline,
    pub(crate) billing: Client,
    pub(crate) builder: Client,
    pub(crate) builder_id: PrincipalId,
    pub(crate) billing_id: PrincipalId,
    folder: tempfile::TempDir,
    engine: Engine,
}

impl Stage {
    pub(crate) async fn set() -> anyhow::Result<Self> {
        let timeline = Timeline::start();
        let folder = tempfile::tempdir()?;
        let engine = Engine::builder().sqlite(folder.path().join("engine.db")).workspace("quickstart").start().await?;
        let owner = engine.owner();
        timeline.scene("Setting the stage");
        timeline.line("engine", format_args!("serves workspace {:?} at {}", owner.workspace().await?.scope, engine.url()));
        let builder = owner.enroll(EnrollInput::new("quickstart/builder", "Builder 7")).await?;
        let billing = owner.enroll(EnrollInput::new("quickstart/billing", "Billing 2")).await?;
        let (builder_id, billing_id) = (builder.agent.id.clone(), billing.agent.id.clone());
        for (from, to) in [(&builder, &billing), (&billing, &builder)] {
            let rules = [RuleAction::View, RuleAction::Message, RuleAction::Ask]
                .map(|action| PermissionRule::allow(action, &Target::agent(&to.agent.id)));
            let role =
                owner.create_role(RoleInput::new(format!("{} to {}", from.agent.name, to.agent.name), rules.to_vec())).await?;
            owner.bind_role(RoleBindingInput::principal(&role.id, &from.agent.id)).await?;
            timeline.line(
                "owner",
                format_args!("enrolled {}; it may view, message and ask {} alone", from.agent.name, to.agent.name),
            );
        }
        let client = |session: &Session| Client::new(engine.url(), session.token.as_str());
        let (builder, billing) = (client(&builder)?, client(&billing)?);
        Ok(Self { timeline, billing, builder, builder_id, billing_id, folder, engine })
    }

    /// The file in which the host remembers what is in its model's context.
    pub(crate) fn history(&self) -> History {
        History(self.folder.path().join("history"))
    }

    /// Billing sends Builder a message.
    pub(crate) async fn billing_says(&self, body: &str) -> anyhow::Result<beepgrid::SendResult> {
        let sent = self.billing.send(SendInput::to(Target::agent(&self.builder_id), body)).await?;
        self.timeline.line("Billing", format_args!("sends {body:?}"));
        Ok(sent)
    }

    /// Starts Builder's receiver on its inbox, which outlives it.
    pub(crate) async fn receive(&self, mode: BusyMode) -> anyhow::Result<Running> {
        let inbox = Arc::new(SqliteInbox::open(self.folder.path().join("inbox")).await?);
        let history = self.history();
        let options = Options::new().history(move |id| {
            let known = history.holds(id.as_str());
            async move { if known { Reconciled::Accepted } else { Reconciled::Retry } }
        });
        let (binding, host) = checkpoint::channel(options);
        let receiver = Receiver::builder(self.builder.clone(), Arc::clone(&inbox), binding).mode(mode).build()?;
        let (status, cancel) = (receiver.status(), CancellationToken::new());
        let task = tokio::spawn(receiver.run(cancel.clone()));
        self.timeline.line("receiver", format_args!("runs in {mode} mode"));
        Ok(Running { host, inbox, status, cancel, task })
    }

    pub(crate) async fn strike(self) {
        self.engine.stop().await;
    }
}

/// Builder's receiver while it runs.
pub(crate) struct Running {
    pub(crate) host: Host,
    pub(crate) inbox: Arc<SqliteInbox>,
    status: watch::Receiver<Status>,
    cancel: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    /// Waits until the inbox is in the state that a scene needs.
    pub(crate) async fn until(&mut self, what: &str, wanted: impl FnMut(&Status) -> bool) -> anyhow::Result<Status> {
        Ok(within(what, self.status.wait_for(wanted)).await??.clone())
    }

    /// Stops the receiver and gives its inbox up.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.cancel.cancel();
        within("the receiver's end", self.task).await???;
        self.inbox.close().await?;
        Ok(())
    }
}

/// What the host has in its model's context, on disk: one delivery id a line.
#[derive(Clone)]
pub(crate) struct History(PathBuf);

impl History {
    fn lines(path: &Path) -> BTreeSet<String> {
        std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    pub(crate) fn holds(&self, id: &str) -> bool {
        Self::lines(&self.0).contains(id)
    }

    pub(crate) fn add(&self, id: &str) -> std::io::Result<()> {
        let mut ids = Self::lines(&self.0);
        ids.insert(id.to_owned());
        std::fs::write(&self.0, ids.into_iter().collect::<Vec<_>>().join("\n"))
    }
}
