//! Where a starter runs: at the engine that the environment names, or at one of its own with a peer to practise with.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use beepgrid::{
    Client, EnrollInput, PermissionRule, PrincipalId, PrincipalKind, RoleBindingInput, RoleInput, RuleAction, Target, read_token,
    save_token,
};
use beepgrid_engine_ref::Engine;

/// No step of a practice takes longer, also on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// An agent's connection, and its private folder.
#[derive(Debug)]
pub struct Place {
    /// The agent, with a worker's credential.
    pub agent: Client,
    /// What the agent keeps over restarts.
    pub folder: PathBuf,
    /// The rest of the world, when no engine was named.
    pub practice: Option<Practice>,
}

/// An engine of one's own, and who lives there.
#[derive(Debug)]
pub struct Practice {
    /// The owner: a person that may do everything.
    pub owner: Client,
    /// Another agent; it and the starter's agent may view, message and ask each other.
    pub peer: Client,
    /// The starter's agent.
    pub agent_id: PrincipalId,
    engine: Engine,
    _folder: tempfile::TempDir,
}

impl Place {
    /// With `BEEPGRID_URL`: that engine. `BEEPGRID_AGENT_ID` enrols a new connection under that external id, once: its token is kept in
    /// `.local/NAME/worker-token`. Without it the token has to be a worker's already. Without `BEEPGRID_URL`: an engine in this process.
    pub async fn find(name: &str) -> anyhow::Result<Self> {
        if std::env::var_os("BEEPGRID_URL").is_none() {
            return Self::practice(name).await;
        }
        let folder = Path::new(".local").join(name);
        private(&folder)?;
        let token = folder.join("worker-token");
        let client = Client::from_env()?;
        let agent = match std::env::var("BEEPGRID_AGENT_ID") {
            _ if token.exists() => client.with_token(read_token(&token)?)?,
            Ok(id) if !id.trim().is_empty() => {
                let shown = std::env::var("BEEPGRID_AGENT_NAME").unwrap_or_else(|_| name.to_owned());
                let session = client.enroll(EnrollInput::new(id.trim(), shown)).await?;
                save_token(&token, session.token.clone())?;
                client.with_token(session.token)?
            }
            _ => client,
        };
        let me = agent.me().await?;
        let is_worker = me.identity_type == PrincipalKind::Agent && me.instance_id.is_some();
        anyhow::ensure!(is_worker, "this token is no worker's: set BEEPGRID_AGENT_ID to enrol, or give a worker's token file");
        Ok(Self { agent, folder, practice: None })
    }

    async fn practice(name: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let engine = Engine::builder().in_memory().workspace("practice").start().await?;
        let owner = engine.owner();
        let agent = owner.enroll(EnrollInput::new(format!("practice/{name}"), name)).await?;
        let peer = owner.enroll(EnrollInput::new("practice/peer", "Peer")).await?;
        for (from, to) in [(&agent, &peer), (&peer, &agent)] {
            let target = Target::agent(&to.agent.id);
            let rules =
                [RuleAction::View, RuleAction::Message, RuleAction::Ask].map(|action| PermissionRule::allow(action, &target));
            let role = owner.create_role(RoleInput::new(format!("to {}", to.agent.name), rules.to_vec())).await?;
            owner.bind_role(RoleBindingInput::principal(&role.id, &from.agent.id)).await?;
        }
        let path = folder.path().join(name);
        private(&path)?;
        let practice = Practice {
            peer: owner.with_token(peer.token)?,
            agent_id: agent.agent.id.clone(),
            owner: owner.clone(),
            engine,
            _folder: folder,
        };
        Ok(Self { agent: owner.with_token(agent.token)?, folder: path, practice: Some(practice) })
    }
}

impl Practice {
    /// Where the engine listens.
    pub fn url(&self) -> &str {
        self.engine.url()
    }

    /// The starter's agent as a target.
    pub fn agent(&self) -> Target {
        Target::agent(&self.agent_id)
    }

    /// Lets the starter's agent ask somebody.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn allow_ask(&self, target: &Target) -> anyhow::Result<()> {
        let rules = vec![PermissionRule::allow(RuleAction::Ask, target)];
        let role = self.owner.create_role(RoleInput::new("to ask", rules)).await?;
        self.owner.bind_role(RoleBindingInput::principal(&role.id, &self.agent_id)).await?;
        Ok(())
    }

    /// Ends the engine.
    pub async fn end(self) {
        self.engine.stop().await;
    }
}

/// Waits for something, but not for ever.
pub async fn within<T>(what: &str, future: impl IntoFuture<Output = T>) -> anyhow::Result<T> {
    tokio::time::timeout(PATIENCE, future).await.with_context(|| format!("{what} did not happen within {PATIENCE:?}"))
}

/// Says what happened.
#[expect(clippy::print_stdout, reason = "what a starter does should be seen")]
pub fn say(who: &str, what: impl std::fmt::Display) {
    println!("{who:>10}  {what}");
}

fn private(folder: &Path) -> anyhow::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).with_context(|| format!("can't make the folder {}", folder.display()))
}
