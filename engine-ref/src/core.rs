//! What every request works with: the store, the clock, signals, compiled rules, limits on holding. One per engine.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::service::actor::{Actor, Caller, Need, TokenDigest};
use crate::service::coordinator::Allowance;
use crate::service::coordinator::planner::Planner;
use crate::service::permissions::RulesCache;
use crate::service::presence::Presence;
use crate::service::seal::SecretKey;
use crate::service::{Refusal, cursor};
use crate::signals::Signals;
use crate::store::{ReadTx, Store, WriteTx, hold, keys};

/// How long a token that was found valid is taken for one before the next body is read. The transaction checks it anyway.
const TOKEN_GLANCE: Duration = Duration::from_secs(1);
/// How long the Coordinator's model may take, unless set otherwise; less than clients wait.
pub(crate) const PLANNER_DEADLINE: Duration = Duration::from_secs(35);
/// Tokens remembered at a time.
const TOKEN_GLANCES: usize = 10_000;

/// Names that the workspace shows.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) workspace: String,
    pub(crate) environment: String,
    /// The origin for callbacks and links.
    pub(crate) public_url: String,
    /// The Coordinator's model.
    pub(crate) planner: Option<Arc<dyn Planner>>,
    /// How long the model may take.
    pub(crate) planner_deadline: Duration,
    /// Seals channel secrets.
    pub(crate) secret_key: SecretKey,
    /// Authenticates cursors; derived from the secret key.
    pub(crate) cursor_key: cursor::Key,
}

impl Settings {
    /// Nothing named and no real secrets, for tests.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self {
            workspace: String::new(),
            environment: String::new(),
            public_url: String::new(),
            planner: None,
            planner_deadline: PLANNER_DEADLINE,
            secret_key: SecretKey::new([0; 32]),
            cursor_key: cursor::Key::new([0; 32]),
        }
    }
}

/// The engine's inside; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Core(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    clock: Clock,
    rules: RulesCache,
    presence: Presence,
    settings: Settings,
    holds: Holds,
    allowance: Allowance,
    glances: Mutex<HashMap<TokenDigest, (Caller, beepgrid::Timestamp)>>,
    stopping: CancellationToken,
}

/// What a keyed write is called and which resource its path names.
#[derive(Clone, Debug)]
pub(crate) struct Keyed {
    pub(crate) operation: &'static str,
    pub(crate) key: Option<String>,
    pub(crate) path: Vec<String>,
}

/// The result of a write: made now (201), or found under its key (200).
#[derive(Debug)]
pub(crate) struct Answered<T> {
    pub(crate) value: T,
    pub(crate) fresh: bool,
}

impl Core {
    pub(crate) fn new(store: Store, clock: Clock, settings: Settings) -> Self {
        Self(Arc::new(Inner {
            store,
            clock,
            rules: RulesCache::default(),
            presence: Presence::default(),
            settings,
            holds: Holds::default(),
            allowance: Allowance::default(),
            glances: Mutex::default(),
            stopping: CancellationToken::new(),
        }))
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(crate) fn signals(&self) -> &Signals {
        self.0.store.signals()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub(crate) fn presence(&self) -> &Presence {
        &self.0.presence
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// How often the Coordinator's model may still be asked.
    pub(crate) fn allowance(&self) -> &Allowance {
        &self.0.allowance
    }

    /// Cancelled when the engine stops: polls and background jobs end.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    /// Finds out whether a token works, before the body is read.
    pub(crate) async fn caller(&self, digest: TokenDigest) -> Result<Caller, Refusal> {
        let now = self.0.clock.now();
        let seen = self.glances().get(&digest).filter(|(_, until)| *until > now).map(|(caller, _)| caller.clone());
        if let Some(caller) = seen {
            return Ok(caller);
        }
        let rules = self.0.rules.clone();
        let actor = self.0.store.read(move |tx| Actor::load(tx, &digest, &rules)).await?;
        if actor.on_hold && !actor.operator {
            return Err(Refusal::OnHold);
        }
        let caller = Caller { digest, principal_id: actor.id };
        let mut glances = self.glances();
        if glances.len() >= TOKEN_GLANCES {
            glances.clear();
        }
        glances.insert(digest, (caller.clone(), now.plus(TOKEN_GLANCE)));
        Ok(caller)
    }

    fn glances(&self) -> std::sync::MutexGuard<'_, HashMap<TokenDigest, (Caller, beepgrid::Timestamp)>> {
        self.0.glances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads as the caller.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        caller: &Caller,
        need: Need,
        f: impl FnOnce(&ReadTx<'_>, &Actor) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (core, digest) = (self.clone(), caller.digest);
        self.0
            .store
            .read(move |tx| {
                let actor = core.actor(tx, &digest, &need)?;
                f(tx, &actor)
            })
            .await
    }

    /// Writes as the caller, without a key.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        caller: &Caller,
        need: Need,
        f: impl FnOnce(&WriteTx<'_>, &Actor) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (core, digest) = (self.clone(), caller.digest);
        self.0
            .store
            .write(move |tx| {
                let actor = core.actor(tx, &digest, &need)?;
                f(tx, &actor)
            })
            .await
    }

    /// Writes as the caller, at most once per key: `effect` returns the ids of what it made, `answer` builds the answer from
    /// them, the first time and on every replay.
    pub(crate) async fn keyed<I, M, A>(
        &self,
        caller: &Caller,
        need: Need,
        keyed: Keyed,
        input: I,
        effect: impl FnOnce(&WriteTx<'_>, &Actor, &I) -> Result<M, Refusal> + Send + 'static,
        answer: impl FnOnce(&ReadTx<'_>, &Actor, &I, &M) -> Result<A, Refusal> + Send + 'static,
    ) -> Result<Answered<A>, Refusal>
    where
        I: Serialize + Send + 'static,
        M: Serialize + DeserializeOwned,
        A: Send + 'static,
    {
        self.write(caller, need, move |tx, actor| {
            let Some(key) = &keyed.key else {
                let made = effect(tx, actor, &input)?;
                return Ok(Answered { value: answer(tx, actor, &input, &made)?, fresh: true });
            };
            let digest = digest(&keyed, &input)?;
            if let Some(earlier) = keys::find(tx, &actor.id, keyed.operation, key)? {
                let made = earlier.made_for(&digest)?;
                return Ok(Answered { value: answer(tx, actor, &input, &made)?, fresh: false });
            }
            let made = effect(tx, actor, &input)?;
            keys::insert(tx, &actor.id, keyed.operation, key, &digest, &made)?;
            Ok(Answered { value: answer(tx, actor, &input, &made)?, fresh: true })
        })
        .await
    }

    /// The answer to a write that was done before under the same key: for what costs much before it can be written.
    ///
    /// # Errors
    /// As [`Core::keyed`]: 409 when the key was used for something else.
    pub(crate) async fn earlier<I, M, A>(
        &self,
        caller: &Caller,
        need: Need,
        keyed: Keyed,
        input: I,
        answer: impl FnOnce(&ReadTx<'_>, &Actor, &I, &M) -> Result<A, Refusal> + Send + 'static,
    ) -> Result<Option<A>, Refusal>
    where
        I: Serialize + Send + 'static,
        M: DeserializeOwned,
        A: Send + 'static,
    {
        self.read(caller, need, move |tx, actor| {
            let Some(key) = &keyed.key else { return Ok(None) };
            let Some(earlier) = keys::find(tx, &actor.id, keyed.operation, key)? else { return Ok(None) };
            let made = earlier.made_for(&digest(&keyed, &input)?)?;
            answer(tx, actor, &input, &made).map(Some)
        })
        .await
    }

    /// Whether the workspace is on hold after a restore: then nothing is done that nobody asked for.
    pub(crate) async fn is_on_hold(&self) -> Result<bool, Refusal> {
        self.0.store.read(|tx| Ok(hold::is_on(tx)?)).await
    }

    /// Writes what nobody asked for: of a background job. `None` while the workspace is on hold.
    pub(crate) async fn tend<T: Send + 'static>(
        &self,
        f: impl FnOnce(&WriteTx<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<Option<T>, Refusal> {
        self.0.store.write(move |tx| if hold::is_on(tx)? { Ok(None) } else { f(tx).map(Some) }).await
    }

    fn actor(&self, tx: &ReadTx<'_>, digest: &TokenDigest, need: &Need) -> Result<Actor, Refusal> {
        let mut actor = Actor::load(tx, digest, &self.0.rules)?;
        actor.need(need)?;
        actor.cursor_key = Some(self.0.settings.cursor_key.clone());
        self.0.presence.credential_used(&actor.credential.id, tx.now());
        Ok(actor)
    }

    /// Takes one of `max` places under `name` (a principal's waiting reads, an instance's polls) until the guard is dropped.
    pub(crate) fn hold(&self, name: String, max: usize) -> Result<Hold, Refusal> {
        self.0.holds.take(name, max)
    }

    /// How many places are taken at the moment.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.0.holds.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

/// Digest of operation, path ids and the parsed input; absent members and defaults are left out by the input's serialisation.
fn digest<I: Serialize>(keyed: &Keyed, input: &I) -> Result<[u8; 32], Refusal> {
    // Sorted, so the order and spacing of the request do not count, whatever order other crates in the build make JSON keep.
    let input = serde_json::to_value(input).map_err(|e| Refusal::internal(format!("an input can't be written: {e}")))?;
    let whole = serde_json::json!([keyed.operation, keyed.path, sorted(input)]);
    Ok(Sha256::digest(whole.to_string().as_bytes()).into())
}

/// The same JSON with the members of every object in order of their names.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        Value::Object(members) => {
            let ordered: BTreeMap<String, Value> = members.into_iter().map(|(name, member)| (name, sorted(member))).collect();
            ordered.into_iter().collect()
        }
        other => other,
    }
}

/// Counts what is held open at the moment.
#[derive(Clone, Debug, Default)]
struct Holds(Arc<Mutex<HashMap<String, usize>>>);

/// One held place.
#[derive(Debug)]
pub(crate) struct Hold {
    holds: Holds,
    name: String,
}

impl Holds {
    fn take(&self, name: String, max: usize) -> Result<Hold, Refusal> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = held.entry(name.clone()).or_default();
        if *count >= max {
            return Err(Refusal::RateLimited {
                message: format!("at most {max} of these may be held open at once"),
                retry_after: Duration::from_secs(1),
            });
        }
        *count += 1;
        drop(held);
        Ok(Hold { holds: self.clone(), name })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.holds.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.name);
            }
        }
    }
}
