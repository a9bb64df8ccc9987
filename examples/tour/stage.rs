//! What the regions share: who takes part, what was called, and the lines on the terminal.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use beepgrid::{Call, Client, Key, Person, PrincipalId, Session, Target};

use crate::setup;

/// Nothing here takes longer, also on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The lines on the terminal, and the names of the operations that were called.
pub(crate) struct Log {
    began: Instant,
    pub(crate) called: BTreeSet<&'static str>,
}

impl Log {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), called: BTreeSet::new() }
    }

    /// A heading.
    #[expect(clippy::print_stdout, reason = "the lines are what this program is for")]
    pub(crate) fn region(title: &str) {
        println!("\n{title}");
    }

    /// One line about an operation.
    #[expect(clippy::print_stdout, reason = "the lines are what this program is for")]
    pub(crate) fn line(&self, operation: &str, what: impl Display) {
        println!("  {:>7.3}s  {operation:<28} {what}", self.began.elapsed().as_secs_f64());
    }

    /// Makes a call; the line says what it does.
    pub(crate) async fn call<T: Send + 'static>(&mut self, what: impl Display, call: Call<T>) -> anyhow::Result<T> {
        let name = call.operation().name;
        self.called.insert(name);
        let result = call.await.with_context(|| format!("{name} ({what}) failed"))?;
        self.line(name, what);
        Ok(result)
    }

    /// Notes an operation that is no single call.
    pub(crate) fn did(&mut self, operation: &'static str, what: impl Display) {
        self.called.insert(operation);
        self.line(operation, what);
    }
}

/// Who takes part.
pub(crate) struct Stage {
    pub(crate) owner: Client,
    pub(crate) builder: Client,
    pub(crate) billing: Client,
    pub(crate) me: Person,
    pub(crate) builder_id: PrincipalId,
    pub(crate) billing_id: PrincipalId,
    /// Makes names and keys that no other run of the tour has.
    run: String,
}

impl Stage {
    pub(crate) async fn set(log: &mut Log, owner: Client) -> anyhow::Result<Self> {
        let run = Key::new().as_str().to_owned();
        let (me, builder, billing) = setup::visit(log, &owner, &run).await?;
        let client = |session: &Session| owner.with_token(session.token.as_str());
        let (builder_client, billing_client) = (client(&builder)?, client(&billing)?);
        let (builder_id, billing_id) = (builder.agent.id, billing.agent.id);
        Ok(Self { owner, builder: builder_client, billing: billing_client, me, builder_id, billing_id, run })
    }

    /// A name of this run.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("tour/{}/{name}", self.run)
    }

    /// A saved key: the same one again means the same operation.
    pub(crate) fn key(&self, name: &str) -> anyhow::Result<Key> {
        Ok(self.name(name).parse()?)
    }

    /// Billing, as whom to reach.
    pub(crate) fn to_billing(&self) -> Target {
        Target::agent(&self.billing_id)
    }

    /// Both agents.
    pub(crate) fn both(&self) -> Vec<Target> {
        vec![Target::agent(&self.builder_id), self.to_billing()]
    }
}

/// Fails unless `held`.
pub(crate) fn check(what: &str, held: bool) -> anyhow::Result<()> {
    anyhow::ensure!(held, "{what}: that did not hold");
    Ok(())
}

/// Fails with both values unless they are equal.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, wanted: &T) -> anyhow::Result<()> {
    anyhow::ensure!(got == wanted, "{what}: got {got:?}, wanted {wanted:?}");
    Ok(())
}

/// Fails unless the engine refuses with this code.
pub(crate) fn refused<T>(what: &str, result: Result<T, beepgrid::Error>, code: &beepgrid::ErrorCode) -> anyhow::Result<()> {
    match result {
        Ok(_) => anyhow::bail!("{what}: it should have been refused as {code}"),
        Err(error) if error.code() == Some(code) => Ok(()),
        Err(error) => Err(anyhow::Error::new(error).context(format!("{what}: it should have been refused as {code}"))),
    }
}

/// Waits for something, but not for ever.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> anyhow::Result<T> {
    tokio::time::timeout(PATIENCE, future).await.map_err(|_| anyhow::anyhow!("{what} did not happen within {PATIENCE:?}"))
}
