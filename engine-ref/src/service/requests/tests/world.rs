//! A small workspace: Olga owns it, Ana and Ben are people, Builder and Billing agents. Rules are given test by test.

use std::time::Duration;

use beepgrid::{
    AskBatchInput, AskBatchItem, AskInput, CancelInput, ConversationId, CredentialId, CredentialKind, ErrorCode, GroupPurpose,
    InstanceId, PermissionRule, PrincipalId, PrincipalKind, ReplaceRequestInput, ReplacedRequest, Request, RequestId,
    ResponseInput, RuleAction, Target, TargetKind, Timestamp,
};

use crate::clock::Clock;
use crate::service::Refusal;
use crate::service::actor::{Actor, ActorCredential};
use crate::service::permissions::{Rules, RulesCache};
use crate::service::requests;
use crate::store::conversations::{self, ConversationRow};
use crate::store::groups::{self, GroupRow};
use crate::store::instances::{self, InstanceRow};
use crate::store::policies::{self, PolicyRow};
use crate::store::principals::{self, PrincipalRow};
use crate::store::{Database, ReadTx, Store, StoreConfig, WriteTx};

pub(super) const OLGA: &str = "per_olga";
pub(super) const ANA: &str = "per_ana";
pub(super) const BEN: &str = "per_ben";
pub(super) const BUILDER: &str = "agt_builder";
pub(super) const BILLING: &str = "agt_billing";
pub(super) const EVERYBODY: [&str; 5] = [OLGA, ANA, BEN, BUILDER, BILLING];

pub(super) struct World {
    pub(super) store: Store,
    pub(super) clock: Clock,
    cache: RulesCache,
    #[expect(dead_code, reason = "holds the schema until the test is over")]
    keep: Box<dyn Send + Sync>,
}

/// The target with this id.
pub(super) fn target(id: &str) -> Target {
    let kind = match id.get(..4) {
        Some("per_") => TargetKind::Person,
        Some("agt_") => TargetKind::Agent,
        Some("ins_") => TargetKind::Instance,
        Some("grp_") => TargetKind::Group,
        _ => TargetKind::Service,
    };
    Target::new(kind, id)
}

pub(super) fn ask_of(id: &str) -> AskInput {
    AskInput::to(target(id), "May I?")
}

/// The code that a refusal has on the wire, and the field it names.
pub(super) fn code<T: std::fmt::Debug>(result: Result<T, Refusal>) -> (ErrorCode, String) {
    match result.expect_err("a refusal") {
        Refusal::Invalid { field, .. } => (ErrorCode::InvalidRequest, field),
        Refusal::Forbidden { field, .. } => (ErrorCode::Forbidden, field),
        Refusal::NotFound { field } => (ErrorCode::NotFound, field),
        Refusal::Conflict { code, .. } => (code, String::new()),
        Refusal::RateLimited { .. } => (ErrorCode::RateLimited, String::new()),
        other => panic!("{other:?}"),
    }
}

impl World {
    pub(super) async fn in_memory() -> Self {
        Self::open(Database::Memory, Box::new(())).await
    }

    #[cfg(feature = "postgres")]
    pub(super) async fn on_postgres() -> Option<Self> {
        let database = tokio::task::spawn_blocking(crate::testing::postgres::database_or_skip).await.unwrap()?;
        let (url, schema) = (database.url().to_owned(), database.schema().to_owned());
        Some(Self::open(Database::Postgres { url, schema }, Box::new(database)).await)
    }

    async fn open(database: Database, keep: Box<dyn Send + Sync>) -> Self {
        let clock = Clock::manual("2026-12-01T08:00:00Z".parse().unwrap());
        let store = Store::open(StoreConfig::new(database), clock.clone()).await.unwrap();
        let world = Self { store, clock, cache: RulesCache::default(), keep };
        world.tx(|tx| EVERYBODY.iter().try_for_each(|id| insert(tx, id))).await.unwrap();
        world
    }

    pub(super) async fn tx<T: Send + 'static>(
        &self,
        f: impl FnOnce(&WriteTx<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.store.write(f).await
    }

    /// Writes as somebody; `agt_builder/ins_1` is an agent's runtime connection.
    pub(super) async fn act<T: Send + 'static>(
        &self,
        who: &str,
        f: impl FnOnce(&WriteTx<'_>, &Actor) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (who, cache) = (who.to_owned(), self.cache.clone());
        self.store.write(move |tx| f(tx, &actor(tx, &cache, &who)?)).await
    }

    pub(super) async fn ask(&self, who: &str, input: AskInput) -> Result<Request, Refusal> {
        let input = requests::form::ask(input)?;
        self.act(who, move |tx, actor| requests::answer(tx, actor, &(), &requests::ask(tx, actor, &input)?)).await
    }

    pub(super) async fn ask_batch(&self, who: &str, input: AskBatchInput) -> Result<Vec<AskBatchItem>, Refusal> {
        let input = requests::form::ask_batch(input)?;
        self.act(who, move |tx, actor| requests::batch_answer(tx, actor, &input, &requests::ask_batch(tx, actor, &input)?)).await
    }

    pub(super) async fn get(&self, who: &str, id: &RequestId) -> Result<Request, Refusal> {
        let id = id.clone();
        self.act(who, move |tx, actor| requests::get(tx, actor, &id)).await
    }

    pub(super) async fn respond(&self, who: &str, id: &RequestId, input: ResponseInput) -> Result<Request, Refusal> {
        requests::form::response(&input)?;
        let of = (id.clone(), input);
        self.act(who, move |tx, actor| requests::answer(tx, actor, &(), &requests::respond(tx, actor, &of)?)).await
    }

    pub(super) async fn cancel(&self, who: &str, id: &RequestId, version: i64) -> Result<Request, Refusal> {
        let of = (id.clone(), CancelInput::new(version));
        self.act(who, move |tx, actor| requests::answer(tx, actor, &(), &requests::cancel(tx, actor, &of)?)).await
    }

    pub(super) async fn replace(&self, who: &str, id: &RequestId, version: i64, body: &str) -> Result<ReplacedRequest, Refusal> {
        let input = ReplaceRequestInput::new(version, body);
        requests::form::replace(&input)?;
        let of = (id.clone(), input);
        self.act(who, move |tx, actor| requests::replacement_answer(tx, actor, &of, &requests::replace(tx, actor, &of)?)).await
    }

    /// Gives a subject these rules and no others.
    pub(super) async fn rules(&self, subject: &str, rules: Vec<PermissionRule>) {
        let subject = subject.to_owned();
        self.tx(move |tx| {
            policies::save_policy(tx, "principal", &subject, &PolicyRow { version: 1, rules })?;
            crate::service::policies::changed(tx)
        })
        .await
        .unwrap();
    }

    /// Lets `subject` ask each of `others`.
    pub(super) async fn may_ask(&self, subject: &str, others: &[&str]) {
        self.rules(subject, others.iter().map(|other| PermissionRule::allow(RuleAction::Ask, &target(other))).collect()).await;
    }

    pub(super) async fn disable(&self, id: &'static str, disabled: bool) {
        self.tx(move |tx| {
            let row = principals::by_id(tx, id)?.ok_or_else(Refusal::not_found)?;
            Ok(principals::update(tx, &PrincipalRow { disabled, ..row })?)
        })
        .await
        .unwrap();
    }

    /// A runtime connection of an agent, with a credential that works or without any.
    pub(super) async fn instance(&self, id: &'static str, agent: &'static str, live: bool) {
        self.tx(move |tx| {
            let row = InstanceRow {
                id: id.into(),
                agent_id: agent.into(),
                name: String::new(),
                capabilities: Vec::new(),
                progress: serde_json::Map::new(),
                created_at: tx.now(),
                last_seen: tx.now(),
            };
            instances::insert(tx, &row)?;
            if live {
                tx.execute(
                    "INSERT INTO credentials (id, principal_id, instance_id, kind, name, prefix, digest, token_hint, created_at, version, revoked)
                     VALUES (:id, :agent, :id, 'worker', '', '', :digest, '', :now, 1, FALSE)",
                    &[("id", &id), ("agent", &agent), ("digest", &id.as_bytes()), ("now", &tx.now())],
                )?;
            }
            Ok(())
        })
        .await
        .unwrap();
    }

    pub(super) async fn group(&self, id: &'static str, members: &[&str]) {
        let members: Vec<PrincipalId> = members.iter().map(|id| PrincipalId::new(*id)).collect();
        self.tx(move |tx| {
            let row = GroupRow {
                id: id.into(),
                name: id.to_owned(),
                purpose: GroupPurpose::Contacts,
                version: 1,
                created_at: tx.now(),
            };
            groups::insert(tx, &row)?;
            Ok(groups::set_members(tx, &row.id, &members)?)
        })
        .await
        .unwrap();
    }

    /// A shared chat of these, who see all of it.
    pub(super) async fn chat(&self, id: &'static str, members: &[&str]) -> ConversationId {
        let members: Vec<PrincipalId> = members.iter().map(|id| PrincipalId::new(*id)).collect();
        self.tx(move |tx| {
            let row = ConversationRow {
                id: id.into(),
                shared: true,
                title: String::new(),
                version: 1,
                manager_id: members.first().cloned(),
                created_at: tx.now(),
            };
            let sequence = tx.next_sequence()?;
            conversations::insert(tx, &row, None, sequence)?;
            members.iter().try_for_each(|member| conversations::join(tx, &row.id, member, 0))?;
            Ok(row.id)
        })
        .await
        .unwrap()
    }

    pub(super) async fn leave(&self, chat: &ConversationId, who: &'static str) {
        let chat = chat.clone();
        self.tx(move |tx| Ok(conversations::part(tx, &chat, &who.into(), tx.next_sequence()?)?)).await.unwrap();
    }

    /// Joins from now on.
    pub(super) async fn join(&self, chat: &ConversationId, who: &'static str) {
        let chat = chat.clone();
        self.tx(move |tx| Ok(conversations::join(tx, &chat, &who.into(), tx.next_sequence()?)?)).await.unwrap();
    }

    /// Deliveries of a request as `(agent, kind, pinned instance, state)`, in order of agents and kinds.
    pub(super) async fn deliveries(&self, id: &RequestId) -> Vec<(String, String, Option<String>, String)> {
        let id = id.clone();
        self.tx(move |tx| {
            let rows = tx.query(
                "SELECT agent_id, kind, instance_id, state FROM deliveries WHERE request_id = :id ORDER BY agent_id, kind, position",
                &[("id", &id)],
            )?;
            rows.iter()
                .map(|row| {
                    Ok((row.text("agent_id")?, row.text("kind")?, row.opt_text("instance_id")?, row.text("state")?))
                })
                .collect()
        })
        .await
        .unwrap()
    }

    /// Kinds of the events about a request, in order.
    pub(super) async fn events(&self, id: &RequestId) -> Vec<String> {
        let id = id.clone();
        self.tx(move |tx| {
            let rows = tx.query("SELECT kind FROM events WHERE subject_id = :id ORDER BY sequence", &[("id", &id)])?;
            rows.iter().map(|row| Ok(row.text("kind")?)).collect()
        })
        .await
        .unwrap()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

fn insert(tx: &WriteTx<'_>, id: &str) -> Result<(), Refusal> {
    let kind = if id.starts_with("per_") { PrincipalKind::Person } else { PrincipalKind::Agent };
    let row = PrincipalRow {
        id: id.into(),
        kind,
        name: id.to_owned(),
        external_id: format!("team/{id}"),
        metadata: serde_json::Map::new(),
        version: 1,
        disabled: false,
        operator: id == OLGA,
        parent_id: None,
        enrolled_by: None,
        created_at: tx.now(),
    };
    assert!(principals::insert(tx, &row)?);
    Ok(())
}

fn actor(tx: &ReadTx<'_>, cache: &RulesCache, who: &str) -> Result<Actor, Refusal> {
    let (id, instance) = who.split_once('/').map_or((who, None), |(id, instance)| (id, Some(InstanceId::new(instance))));
    let row = principals::by_id(tx, id)?.ok_or(Refusal::Unauthorized)?;
    let epoch = tx.get("SELECT epoch FROM workspace WHERE id = 1", &[])?.text("epoch")?;
    Ok(Actor {
        id: row.id,
        kind: row.kind,
        name: row.name,
        operator: row.operator,
        instance_id: instance,
        credential: ActorCredential {
            id: CredentialId::new("crd_test"),
            kind: CredentialKind::Api,
            name: String::new(),
            prefix: String::new(),
            ceiling: None,
            expires_at: None,
        },
        rules: Rules::new(cache, epoch),
        on_hold: false,
        cursor_key: None,
    })
}
