//! What the tests of deliveries stand on: a store with a clock that is moved by hand, one agent with three instances, and the
//! worker calls without HTTP around them. Payloads are made up; who may see what is tested with the families that know.

use std::time::Duration;

use beepgrid::{
    AckInput, ConversationId, Delivery, DeliveryId, DeliveryKind, DeliveryPayload, ExtendInput, InboxInput, InstanceId,
    MessageId, PrincipalId, ReleaseInput, Request, RequestId, RequestState, Timestamp,
};

use super::{Want, ack, backoff, extend, glimpse, lease, release};
use crate::clock::Clock;
use crate::core::{Core, Settings};
use crate::service::actor::{Caller, TokenDigest};
use crate::service::deliveries::{self as rules, New, Pin};
use crate::service::{Refusal, cursor};
use crate::store::deliveries::{self, DeliveryRow, Worker};
use crate::store::{Database, Store, StoreConfig, WriteTx};

/// When every test begins.
pub(crate) fn start() -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000)
}

pub(crate) struct Bed {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    #[expect(dead_code, reason = "holds the schema until the test is over")]
    keep: Box<dyn Send + Sync>,
}

/// A request is open unless its id says otherwise; a message whose id ends with `hidden` can't be seen.
#[expect(clippy::unnecessary_wraps, reason = "stands for a projection, which can fail")]
fn payload(_: &WriteTx<'_>, row: &DeliveryRow) -> Result<Option<DeliveryPayload>, Refusal> {
    let mut payload =
        DeliveryPayload { r#type: row.kind.clone(), conversation_id: row.conversation_id.clone(), message: None, request: None };
    if row.message_id.as_ref().is_some_and(|id| id.as_str().ends_with("hidden")) {
        return Ok(None);
    }
    if let Some(id) = &row.request_id {
        let state = if id.as_str().ends_with("closed") { RequestState::Cancelled } else { RequestState::Open };
        let request = serde_json::json!({ "id": id, "state": state, "version": 1 });
        payload.request = Some(serde_json::from_value::<Request>(request).unwrap());
    }
    Ok(Some(payload))
}

impl Bed {
    pub(crate) async fn memory() -> Self {
        Self::on(Database::Memory, Box::new(())).await
    }

    /// Every store that can be had here.
    pub(crate) async fn each() -> Vec<Self> {
        let mut beds = vec![Self::memory().await];
        #[cfg(feature = "postgres")]
        {
            let found = tokio::task::spawn_blocking(crate::testing::postgres::database_or_skip).await.unwrap();
            if let Some(database) = found {
                let (url, schema) = (database.url().to_owned(), database.schema().to_owned());
                beds.push(Self::on(Database::Postgres { url, schema }, Box::new(database)).await);
            }
        }
        beds
    }

    async fn on(database: Database, keep: Box<dyn Send + Sync>) -> Self {
        let clock = Clock::manual(start());
        let store = Store::open(StoreConfig::new(database), clock.clone()).await.unwrap();
        store
            .write(|tx| {
                tx.execute(
                    "INSERT INTO principals (id, kind, name, external_id, metadata, version, disabled, operator, created_at)
                     VALUES ('agt_1', 'agent', 'One', 'one', '{}', 1, FALSE, FALSE, 0)",
                    &[],
                )?;
                for instance in ["ins_a", "ins_b", "ins_c"] {
                    tx.execute(
                        "INSERT INTO instances (id, agent_id, name, capabilities, progress, created_at, last_seen)
                         VALUES (:id, 'agt_1', '', '[]', '{}', :now, :now)",
                        &[("id", &instance), ("now", &tx.now())],
                    )?;
                    tx.execute(
                        "INSERT INTO credentials (id, principal_id, instance_id, kind, name, prefix, digest, token_hint, created_at,
                                                  version, revoked)
                         VALUES (:id, 'agt_1', :instance, 'worker', '', '', :digest, '', :now, 1, FALSE)",
                        &[
                            ("id", &instance.replace("ins", "crd")),
                            ("instance", &instance),
                            ("digest", TokenDigest::of(instance).as_bytes()),
                            ("now", &tx.now()),
                        ],
                    )?;
                }
                Ok(())
            })
            .await
            .unwrap();
        Self { store, clock, keep }
    }

    /// An engine's inside on this store.
    pub(crate) fn core(&self) -> Core {
        let cursor_key = cursor::Key::new([7; 32]);
        let settings = Settings { cursor_key, ..Settings::plain() };
        Core::new(self.store.clone(), self.clock.clone(), settings)
    }

    /// The worker on an instance; its token is its id.
    pub(crate) fn caller(instance: &str) -> Caller {
        Caller { digest: TokenDigest::of(instance), principal_id: PrincipalId::new("agt_1") }
    }

    /// Runs one statement.
    pub(crate) async fn sql(&self, sql: &'static str) {
        self.store.write(move |tx| Ok(tx.execute(sql, &[])?)).await.unwrap();
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Makes a delivery; `place` is a conversation, or a conversation and a pin.
    pub(crate) async fn make(
        &self,
        kind: DeliveryKind,
        conversation: &str,
        subject: &str,
        pin: Option<(&str, bool)>,
    ) -> DeliveryId {
        let conversation = ConversationId::new(conversation);
        let (message, request) = match kind {
            DeliveryKind::Message => (Some(MessageId::new(subject)), None),
            _ => (None, Some(RequestId::new(subject))),
        };
        let pin = pin.map(|(id, hard)| (InstanceId::new(id), hard));
        self.store
            .write(move |tx| {
                let position = tx.next_sequence()?;
                rules::create(
                    tx,
                    &New {
                        agent: &PrincipalId::new("agt_1"),
                        pin: pin.as_ref().map(|(id, hard)| if *hard { Pin::Hard(id) } else { Pin::Soft(id) }),
                        kind,
                        conversation_id: &conversation,
                        message_id: message.as_ref(),
                        request_id: request.as_ref(),
                        sender_id: &PrincipalId::new("per_1"),
                        position,
                    },
                )
            })
            .await
            .unwrap()
    }

    pub(crate) async fn message(&self, conversation: &str) -> DeliveryId {
        self.make(DeliveryKind::Message, conversation, "msg_1", None).await
    }

    pub(crate) async fn lease_with(&self, instance: &str, input: InboxInput) -> Vec<Delivery> {
        let instance = InstanceId::new(instance);
        let want = Want::from_input(&input).unwrap();
        let leased = self.store.write(move |tx| {
            let agent = PrincipalId::new("agt_1");
            let worker = Worker { agent: &agent, instance: &instance };
            // A look never overlooks what a lease then finds.
            let ready = glimpse(tx, &worker, want.kinds)?.ready;
            let leased = lease(tx, &worker, &want, &payload)?;
            assert!(ready || leased.is_empty());
            Ok(leased)
        });
        leased.await.unwrap()
    }

    pub(crate) async fn lease(&self, instance: &str) -> Vec<Delivery> {
        self.lease_with(instance, InboxInput::new().limit(100)).await
    }

    /// The ids that a lease got.
    pub(crate) async fn ids(&self, instance: &str) -> Vec<DeliveryId> {
        self.lease(instance).await.into_iter().map(|delivery| delivery.id).collect()
    }

    pub(crate) async fn next_due(&self) -> Option<Timestamp> {
        self.store.read(|tx| Ok(deliveries::next_due(tx, &PrincipalId::new("agt_1"))?)).await.unwrap()
    }

    async fn as_worker<T: Send + 'static>(
        &self,
        instance: &str,
        work: impl FnOnce(&WriteTx<'_>, &Worker<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let instance = InstanceId::new(instance);
        self.store.write(move |tx| work(tx, &Worker { agent: &PrincipalId::new("agt_1"), instance: &instance })).await
    }

    pub(crate) async fn ack(&self, instance: &str, id: &DeliveryId, generation: i64) -> Result<(), Refusal> {
        let id = id.clone();
        self.as_worker(instance, move |tx, worker| ack(tx, worker, &id, &AckInput::new(generation))).await
    }

    pub(crate) async fn extend(&self, instance: &str, id: &DeliveryId, generation: i64, secs: i64) -> Result<Timestamp, Refusal> {
        let id = id.clone();
        self.as_worker(instance, move |tx, worker| extend(tx, worker, &id, &ExtendInput::new(generation, secs))).await
    }

    pub(crate) async fn release(&self, instance: &str, id: &DeliveryId, generation: i64, delay: i64) -> Result<(), Refusal> {
        let id = id.clone();
        let input = ReleaseInput::new(generation).delay_seconds(delay);
        self.as_worker(instance, move |tx, worker| release(tx, worker, &id, &input)).await
    }

    pub(crate) async fn row(&self, id: &DeliveryId) -> DeliveryRow {
        let id = id.clone();
        self.store.read(move |tx| Ok(deliveries::by_id(tx, &id)?)).await.unwrap().unwrap()
    }

    /// How many messages and requests are live: as counted along, and as they are.
    pub(crate) async fn counted(&self) -> (i64, i64) {
        let read = self.store.read(|tx| {
            let along = tx.get("SELECT CAST(COALESCE(sum(undelivered), 0) AS BIGINT) AS n FROM backlogs", &[])?.int("n")?;
            let live = "SELECT count(*) AS n FROM deliveries WHERE lane > 0 AND state IN ('ready', 'leased')";
            Ok((along, tx.get(live, &[])?.int("n")?))
        });
        read.await.unwrap()
    }

    /// Checks that of the live ordered deliveries of each conversation the first alone does not wait.
    pub(crate) async fn check_lines(&self) {
        let read = self.store.read(|tx| {
            let rows = tx.query(
                "SELECT conversation_id, waits FROM deliveries WHERE lane = 2 AND state IN ('ready', 'leased')
                 ORDER BY conversation_id, position, id",
                &[],
            )?;
            rows.iter().map(|row| Ok((row.text("conversation_id")?, row.bool("waits")?))).collect::<Result<Vec<_>, Refusal>>()
        });
        let mut before = String::new();
        for (conversation, waits) in read.await.unwrap() {
            assert_eq!(waits, conversation == before, "{conversation}");
            before = conversation;
        }
    }

    /// Leases and lets the lease and the wait after it run out, `times` times.
    pub(crate) async fn wear(&self, instance: &str, times: i64) {
        for _ in 0..times {
            let leased = self.lease(instance).await;
            assert_eq!(leased.len(), 1);
            self.clock.advance(super::LEASE + backoff(leased[0].attempt));
        }
    }
}

/// The code of a conflict.
pub(crate) fn code(refusal: &Refusal) -> Option<&beepgrid::ErrorCode> {
    match refusal {
        Refusal::Conflict { code, .. } => Some(code),
        _ => None,
    }
}
