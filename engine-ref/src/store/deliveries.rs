//! Deliveries: rows, and the queries that lease them.
//!
//! A delivery is live while `ready` or `leased`, and due when `due_at` has come; a lease moves `due_at` to its own end plus the
//! wait before the redelivery, so one comparison tells what may be leased. Every query that grows with the inbox names its index;
//! a test asks SQLite for its plan.

pub(crate) mod pages;

use beepgrid::{ConversationId, DeliveryId, DeliveryKind, InstanceId, MessageId, PrincipalId, RequestId, Timestamp};

use super::{ReadTx, Row, StoreError, WriteTx};

macro_rules! words {
    ($($(#[$doc:meta])+ $name:ident { $($(#[$vdoc:meta])+ $variant:ident = $word:literal,)+ })+) => {$(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$vdoc])+ $variant,)+
        }

        impl $name {
            /// The word that is stored.
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            fn parse(word: &str, column: &'static str) -> Result<Self, StoreError> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(StoreError::Column { name: column, found: "another word", wanted: stringify!($name) }),
                }
            }
        }
    )+};
}

words! {
    /// Where a delivery stands.
    State {
        /// Waiting, perhaps until a time.
        Ready = "ready",
        /// Given to an instance; the lease may have run out.
        Leased = "leased",
        /// Confirmed by its holder.
        Acked = "acked",
        /// Set aside until somebody requeues it.
        Parked = "parked",
        /// Taken back.
        Withdrawn = "withdrawn",
    }
    /// How firmly a delivery belongs to one instance.
    PinKind {
        /// To that one alone.
        Hard = "hard",
        /// To that one while it lives.
        Soft = "soft",
    }
}

/// Which rules of order a delivery is under; lower goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Results and withdrawals: no order, no affinity.
    Results,
    /// Addressed to one instance: no order, no affinity.
    Instance,
    /// In order within its conversation, to one instance at a time.
    Ordered,
}

impl Lane {
    fn number(self) -> i64 {
        match self {
            Self::Results => 0,
            Self::Instance => 1,
            Self::Ordered => 2,
        }
    }

    fn parse(number: i64) -> Result<Self, StoreError> {
        match number {
            0 => Ok(Self::Results),
            1 => Ok(Self::Instance),
            2 => Ok(Self::Ordered),
            _ => Err(StoreError::Column { name: "lane", found: "another number", wanted: "Lane" }),
        }
    }
}

/// A delivery as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeliveryRow {
    pub(crate) id: DeliveryId,
    pub(crate) position: i64,
    pub(crate) agent_id: PrincipalId,
    pub(crate) instance_id: Option<InstanceId>,
    pub(crate) pin: Option<PinKind>,
    pub(crate) lane: Lane,
    pub(crate) kind: DeliveryKind,
    pub(crate) conversation_id: ConversationId,
    pub(crate) message_id: Option<MessageId>,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) sender_id: PrincipalId,
    pub(crate) state: State,
    pub(crate) reason: Option<String>,
    /// Grows with each lease.
    pub(crate) generation: i64,
    /// Leases since it was made or requeued; a release takes its own back.
    pub(crate) attempts: i64,
    /// Who leased it last and did not give it back.
    pub(crate) leased_by: Option<InstanceId>,
    pub(crate) leased_at: Option<Timestamp>,
    pub(crate) leased_until: Option<Timestamp>,
    pub(crate) first_leased_at: Option<Timestamp>,
    pub(crate) due_at: Timestamp,
    pub(crate) created_at: Timestamp,
    pub(crate) acked_at: Option<Timestamp>,
}

impl DeliveryRow {
    /// Whether it may be leased now or later.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.state, State::Ready | State::Leased)
    }

    /// Whether a lease on it runs at `now`.
    pub(crate) fn is_held(&self, now: Timestamp) -> bool {
        self.state == State::Leased && self.leased_until.is_some_and(|end| end > now)
    }

    /// Its place in the agent's order.
    pub(crate) fn place(&self) -> Place {
        Place { position: self.position, id: self.id.as_str().to_owned() }
    }
}

/// A place in the order of an agent's deliveries; pages begin after one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    position: i64,
    id: String,
}

impl Place {
    /// Before the first.
    pub(crate) const START: Self = Self { position: -1, id: String::new() };
}

/// The kinds that a worker asks for.
#[expect(clippy::struct_excessive_bools, reason = "each kind is asked for or not: four flags of one statement")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) messages: bool,
    pub(crate) requests: bool,
    pub(crate) results: bool,
    pub(crate) withdrawals: bool,
}

impl Kinds {
    /// Whether a kind is among them.
    pub(crate) fn has(self, kind: &DeliveryKind) -> bool {
        match kind {
            DeliveryKind::Message => self.messages,
            DeliveryKind::Request => self.requests,
            DeliveryKind::RequestResult => self.results,
            DeliveryKind::RequestWithdrawn => self.withdrawals,
            _ => false,
        }
    }

    /// Whether a lane can have any of them.
    pub(crate) fn are_in(self, lane: Lane) -> bool {
        if lane == Lane::Results { self.results || self.withdrawals } else { self.messages || self.requests }
    }
}

/// Who leases: one instance of an agent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Worker<'a> {
    pub(crate) agent: &'a PrincipalId,
    pub(crate) instance: &'a InstanceId,
}

fn delivery(row: &Row) -> Result<DeliveryRow, StoreError> {
    let time = |name| Ok::<_, StoreError>(row.opt_int(name)?.map(Timestamp::from_micros));
    Ok(DeliveryRow {
        id: row.text("id")?.into(),
        position: row.int("position")?,
        agent_id: row.text("agent_id")?.into(),
        instance_id: row.opt_text("instance_id")?.map(Into::into),
        pin: row.opt_text("pin")?.map(|word| PinKind::parse(&word, "pin")).transpose()?,
        lane: Lane::parse(row.int("lane")?)?,
        kind: row.text("kind")?.as_str().into(),
        conversation_id: row.text("conversation_id")?.into(),
        message_id: row.opt_text("message_id")?.map(Into::into),
        request_id: row.opt_text("request_id")?.map(Into::into),
        sender_id: row.text("sender_id")?.into(),
        state: State::parse(&row.text("state")?, "state")?,
        reason: row.opt_text("reason")?,
        generation: row.int("generation")?,
        attempts: row.int("attempts")?,
        leased_by: row.opt_text("leased_by")?.map(Into::into),
        leased_at: time("leased_at")?,
        leased_until: time("leased_until")?,
        first_leased_at: time("first_leased_at")?,
        due_at: Timestamp::from_micros(row.int("due_at")?),
        created_at: Timestamp::from_micros(row.int("created_at")?),
        acked_at: time("acked_at")?,
    })
}

fn all(rows: &[Row]) -> Result<Vec<DeliveryRow>, StoreError> {
    rows.iter().map(delivery).collect()
}

/// Stores a new delivery; it stands last in its conversation.
pub(crate) fn insert(tx: &WriteTx<'_>, row: &DeliveryRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO deliveries (id, position, agent_id, instance_id, pin, lane, kind, conversation_id, message_id, request_id,
                                 sender_id, state, waits, generation, attempts, due_at, created_at)
         VALUES (:id, :position, :agent, :instance, :pin, :lane, :kind, :conversation, :message, :request,
                 :sender, :state, :ordered = TRUE AND EXISTS (
                     SELECT 1 FROM deliveries d
                     WHERE d.agent_id = :agent AND d.conversation_id = :conversation AND d.lane = 2 AND d.state IN ('ready', 'leased')
                       AND (d.position, d.id) < (:position, :id)), 0, 0, :due, :created)",
        &[
            ("id", &row.id),
            ("position", &row.position),
            ("agent", &row.agent_id),
            ("instance", &row.instance_id),
            ("pin", &row.pin.map(PinKind::as_str)),
            ("lane", &row.lane.number()),
            ("kind", &row.kind.as_str()),
            ("conversation", &row.conversation_id),
            ("message", &row.message_id),
            ("request", &row.request_id),
            ("sender", &row.sender_id),
            ("state", &row.state.as_str()),
            ("ordered", &(row.lane == Lane::Ordered)),
            ("due", &row.due_at),
            ("created", &row.created_at),
        ],
    )?;
    if let Some(request) = &row.request_id {
        pages::note_reader(tx, &row.id, request)?;
    }
    count(tx, row, 1)
}

/// Counts a delivery that is live no more, and lets the next of its conversation move up.
fn ceases_to_be_live(tx: &WriteTx<'_>, row: &DeliveryRow) -> Result<(), StoreError> {
    count(tx, row, -1)?;
    if row.lane == Lane::Ordered { line::leave(tx, row) } else { Ok(()) }
}

/// One delivery.
pub(crate) fn by_id(tx: &ReadTx<'_>, id: &DeliveryId) -> Result<Option<DeliveryRow>, StoreError> {
    // Index: primary key.
    tx.find("SELECT * FROM deliveries WHERE id = :id", &[("id", id)])?.map(|row| delivery(&row)).transpose()
}

/// All deliveries that belong to a request, by id: the rows of its trace.
#[cfg_attr(not(test), expect(dead_code, reason = "for request_trace, which is not served yet"))]
pub(crate) fn of_request(tx: &ReadTx<'_>, request: &RequestId) -> Result<Vec<DeliveryRow>, StoreError> {
    // Index: deliveries_request.
    all(&tx.query("SELECT * FROM deliveries WHERE request_id = :request ORDER BY id", &[("request", request)])?)
}

/// The deliveries of a request after one of them, by id.
pub(crate) fn page_of_request(
    tx: &ReadTx<'_>,
    request: &RequestId,
    after: &str,
    limit: i64,
) -> Result<Vec<DeliveryRow>, StoreError> {
    // Index: deliveries_request; a request has at most two for each of its audience, and one.
    all(&tx.query(
        "SELECT * FROM deliveries WHERE request_id = :request AND id > :after ORDER BY id LIMIT :limit",
        &[("request", request), ("after", &after), ("limit", &limit)],
    )?)
}

/// The deliveries that put a request to its audience.
pub(crate) fn requests_of(tx: &ReadTx<'_>, request: &RequestId) -> Result<Vec<DeliveryRow>, StoreError> {
    // Index: deliveries_request.
    let sql = "SELECT * FROM deliveries WHERE request_id = :request AND kind = 'request' ORDER BY id";
    all(&tx.query(sql, &[("request", request)])?)
}

/// How many live messages and requests of `sender` an agent has.
pub(crate) fn backlog(tx: &ReadTx<'_>, sender: &PrincipalId, agent: &PrincipalId) -> Result<i64, StoreError> {
    // Index: primary key.
    let sql = "SELECT undelivered FROM backlogs WHERE agent_id = :agent AND sender_id = :sender";
    tx.find(sql, &[("agent", agent), ("sender", sender)])?.map_or(Ok(0), |row| row.int("undelivered"))
}

/// Counts a message or request that becomes live (1) or ceases to be (-1); results and withdrawals are nobody's burden.
fn count(tx: &WriteTx<'_>, row: &DeliveryRow, change: i64) -> Result<(), StoreError> {
    if row.lane != Lane::Results {
        tx.execute(
            "INSERT INTO backlogs (agent_id, sender_id, undelivered) VALUES (:agent, :sender, :change)
             ON CONFLICT (agent_id, sender_id) DO UPDATE SET undelivered = backlogs.undelivered + excluded.undelivered",
            &[("agent", &row.agent_id), ("sender", &row.sender_id), ("change", &change)],
        )?;
    }
    Ok(())
}

// What an instance may be given of the two lanes without order: due, of a wanted kind, and not kept for another instance.
// A soft pin holds while its instance has a working credential and was seen lately.
// Index: deliveries_unordered; per row at most instances by key and credentials_instance.
macro_rules! unordered {
    ($prefix:literal) => {
        concat!(
            $prefix,
            "SELECT d.* FROM deliveries d
             WHERE d.agent_id = :agent AND d.lane = :lane AND d.lane < 2 AND d.state IN ('ready', 'leased')
               AND (d.position, d.id) > (:position, :after) AND d.due_at <= :now
               AND (d.kind <> 'message' OR :messages = TRUE) AND (d.kind <> 'request' OR :requests = TRUE)
               AND (d.kind <> 'request_result' OR :results = TRUE) AND (d.kind <> 'request_withdrawn' OR :withdrawals = TRUE)
               AND (d.pin IS NULL OR d.instance_id = :instance OR (d.pin = 'soft' AND NOT EXISTS (
                   SELECT 1 FROM instances i JOIN credentials c ON c.instance_id = i.id
                   WHERE i.id = d.instance_id AND i.last_seen >= :lately
                     AND c.revoked = FALSE AND (c.expires_at IS NULL OR c.expires_at > :now))))
             ORDER BY d.position, d.id LIMIT :limit"
        )
    };
}

/// The next deliveries of a lane without order that the worker may be given now, after a place.
pub(crate) fn unordered(
    tx: &ReadTx<'_>,
    worker: &Worker<'_>,
    (lane, kinds, lately): (Lane, Kinds, Timestamp),
    after: &Place,
    limit: i64,
) -> Result<Vec<DeliveryRow>, StoreError> {
    if !kinds.are_in(lane) {
        return Ok(Vec::new());
    }
    all(&tx.query(
        unordered!(""),
        &[
            ("agent", worker.agent),
            ("instance", worker.instance),
            ("lane", &lane.number()),
            ("position", &after.position),
            ("after", &after.id),
            ("now", &tx.now()),
            ("messages", &kinds.messages),
            ("requests", &kinds.requests),
            ("results", &kinds.results),
            ("withdrawals", &kinds.withdrawals),
            ("lately", &lately),
            ("limit", &limit),
        ],
    )?)
}

/// When the next live delivery of an agent becomes due that is not due yet.
pub(crate) fn next_due(tx: &ReadTx<'_>, agent: &PrincipalId) -> Result<Option<Timestamp>, StoreError> {
    // Index: deliveries_held, its first entry after now.
    let found = tx.find(
        "SELECT due_at FROM deliveries WHERE agent_id = :agent AND due_at > :now AND state IN ('ready', 'leased')
         ORDER BY due_at LIMIT 1",
        &[("agent", agent), ("now", &tx.now())],
    )?;
    found.map(|row| Ok(Timestamp::from_micros(row.int("due_at")?))).transpose()
}

/// Stores a lease: the row's state, generation, attempts, times and holder.
pub(crate) fn save_lease(tx: &WriteTx<'_>, row: &DeliveryRow) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE deliveries SET state = :state, generation = :generation, attempts = :attempts, leased_by = :holder,
                leased_at = :leased, leased_until = :until, first_leased_at = :first, due_at = :due
         WHERE id = :id",
        &[
            ("id", &row.id),
            ("state", &row.state.as_str()),
            ("generation", &row.generation),
            ("attempts", &row.attempts),
            ("holder", &row.leased_by),
            ("leased", &row.leased_at),
            ("until", &row.leased_until),
            ("first", &row.first_leased_at),
            ("due", &row.due_at),
        ],
    )?;
    Ok(())
}

/// Marks a delivery acknowledged.
pub(crate) fn ack(tx: &WriteTx<'_>, row: &DeliveryRow) -> Result<(), StoreError> {
    let sql = "UPDATE deliveries SET state = 'acked', reason = NULL, acked_at = :now WHERE id = :id";
    tx.execute(sql, &[("id", &row.id), ("now", &tx.now())])?;
    if row.is_live() { ceases_to_be_live(tx, row) } else { Ok(()) }
}

/// Parks or withdraws a live delivery.
pub(crate) fn end(tx: &WriteTx<'_>, row: &DeliveryRow, state: State, reason: &'static str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE deliveries SET state = :state, reason = :reason WHERE id = :id",
        &[("id", &row.id), ("state", &state.as_str()), ("reason", &reason)],
    )?;
    ceases_to_be_live(tx, row)
}

/// Makes a parked delivery ready and due, with its attempts counted anew.
pub(crate) fn revive(tx: &WriteTx<'_>, row: &DeliveryRow) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE deliveries SET state = 'ready', reason = NULL, attempts = 0, first_leased_at = NULL, due_at = :now WHERE id = :id",
        &[("id", &row.id), ("now", &tx.now())],
    )?;
    count(tx, row, 1)?;
    if row.lane == Lane::Ordered { line::join_again(tx, row) } else { Ok(()) }
}

/// The parked deliveries of an agent in order, after a place.
pub(crate) fn parked(tx: &ReadTx<'_>, agent: &PrincipalId, after: &Place, limit: i64) -> Result<Vec<DeliveryRow>, StoreError> {
    // Index: deliveries_parked.
    all(&tx.query(
        "SELECT * FROM deliveries WHERE agent_id = :agent AND state = 'parked' AND (position, id) > (:position, :after)
         ORDER BY position, id LIMIT :limit",
        &[("agent", agent), ("position", &after.position), ("after", &after.id), ("limit", &limit)],
    )?)
}

/// Deliveries that were tried often enough for so long, and whose last lease is over.
pub(crate) fn exhausted(tx: &ReadTx<'_>, first_before: Timestamp, limit: i64) -> Result<Vec<DeliveryRow>, StoreError> {
    // Index: deliveries_worn, which holds few.
    all(&tx.query(
        "SELECT * FROM deliveries WHERE state IN ('ready', 'leased') AND attempts >= 20 AND first_leased_at <= :before
           AND (state = 'ready' OR leased_until <= :now)
         ORDER BY first_leased_at LIMIT :limit",
        &[("before", &first_before), ("now", &tx.now()), ("limit", &limit)],
    )?)
}

/// The first instance after `after` that live deliveries are pinned to.
pub(crate) fn next_pinned(tx: &ReadTx<'_>, after: &InstanceId) -> Result<Option<InstanceId>, StoreError> {
    // Index: deliveries_pinned, one entry.
    let found = tx.find(
        "SELECT instance_id FROM deliveries WHERE instance_id > :after AND pin IS NOT NULL AND state IN ('ready', 'leased')
         ORDER BY instance_id LIMIT 1",
        &[("after", after)],
    )?;
    found.map(|row| Ok(row.text("instance_id")?.into())).transpose()
}

/// Live deliveries pinned to an instance.
pub(crate) fn pinned_to(tx: &ReadTx<'_>, id: &InstanceId, pin: PinKind, limit: i64) -> Result<Vec<DeliveryRow>, StoreError> {
    // Index: deliveries_pinned.
    all(&tx.query(
        "SELECT * FROM deliveries WHERE instance_id = :id AND pin IS NOT NULL AND pin = :pin AND state IN ('ready', 'leased')
         LIMIT :limit",
        &[("id", id), ("pin", &pin.as_str()), ("limit", &limit)],
    )?)
}

/// Lets any instance of the agent have a delivery.
pub(crate) fn unpin(tx: &WriteTx<'_>, id: &DeliveryId) -> Result<(), StoreError> {
    tx.execute("UPDATE deliveries SET pin = NULL, instance_id = NULL WHERE id = :id", &[("id", id)])?;
    Ok(())
}

pub(crate) mod line;
#[cfg(test)]
mod tests;
