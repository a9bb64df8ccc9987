//! The SQL of the inbox. Every function that writes runs inside an immediate transaction.

use beepgrid::{ConversationId, Delivery, DeliveryId, DeliveryKind, DeliveryPayload, RequestId, Timestamp};
use rusqlite::{Connection, Error, OptionalExtension as _, Row, named_params, params};

use super::super::rules::RowState;
use super::super::{Applied, Counts, NextState, OpenInput, PutReport, StateChange};
use super::tally::Tally;
use crate::hooks;
use crate::input::{Attempt, Content, Held, HeldReason, InputState, LiveInput, Resolution, StoredInput};

/// What a person's decision met.
pub(super) enum Found {
    Resolved,
    NotHeld,
    Nothing,
}

macro_rules! stored_inputs {
    ($rest:literal) => {
        concat!(
            "SELECT id, conversation_id, kind, created_at, received_at, generation, acked, state, held_reason, held_detail, held_since,
                    attempts, next_attempt_at, attempt, last_error, revision, payload FROM inputs ",
            $rest
        )
    };
}

// What every input goes through. None of it may grow with what waits: the test below reads their plans.
const INSERT: &str =
    "INSERT INTO inputs (id, conversation_id, kind, request_id, created_at, received_at, generation, state, payload)
         VALUES (:id, :conversation, :kind, :request, :created, :received, :generation, 'pending', :payload)
         ON CONFLICT (id) DO NOTHING";
const KEEP_GENERATION: &str = "UPDATE inputs SET generation = :generation, acked = 0 WHERE id = :id";
const FIND_REQUEST: &str = "SELECT id FROM inputs WHERE request_id = :request AND kind = :kind ORDER BY seq LIMIT 1";
const MARK_ACKED: &str = "UPDATE inputs SET acked = 1 WHERE id = :id AND generation = :generation AND acked = 0";
const LOAD: &str =
    "SELECT state, held_reason, held_detail, held_since, attempts, next_attempt_at, attempt, last_error, accepted_at, revision,
                request_id, kind
         FROM inputs WHERE id = ?1";
const SAVE: &str =
    "UPDATE inputs SET state = :state, held_reason = :reason, held_detail = :detail, held_since = :since, attempts = :attempts,
                next_attempt_at = :next, attempt = :attempt, last_error = :error, accepted_at = :accepted_at,
                ending = COALESCE(:ending, ending), revision = :revision,
                payload = CASE WHEN :state = 'accepted' THEN NULL ELSE payload END
         WHERE id = :id";

pub(super) fn put(tx: &Connection, tally: &mut Tally, batch: &[LiveInput], now: Timestamp) -> Result<PutReport, Error> {
    let mut report = PutReport::default();
    for (place, input) in batch.iter().enumerate() {
        if place == 1 {
            hooks::reached(hooks::MID_BATCH);
        }
        if insert(tx, input, now)? {
            report.new += 1;
            tally.added(&input.kind);
            if let Some(request) = input.request_id() {
                report.withdrawn += close_withdrawn(tx, tally, request.as_str(), now)?;
            }
        } else {
            report.known += 1;
            keep_generation(tx, input)?;
        }
    }
    Ok(report)
}

fn insert(tx: &Connection, input: &LiveInput, now: Timestamp) -> Result<bool, Error> {
    let payload = serde_json::to_string(&input.delivery).map_err(|e| Error::ToSqlConversionFailure(Box::new(e)))?;
    let mut statement = tx.prepare_cached(INSERT)?;
    let added = statement.execute(named_params! {
        ":id": input.id.as_str(),
        ":conversation": input.conversation_id.as_str(),
        ":kind": input.kind.as_str(),
        ":request": input.request_id().map(RequestId::as_str),
        ":created": input.delivery.created_at.as_micros(),
        ":received": now.as_micros(),
        ":generation": input.delivery.generation,
        ":payload": payload,
    })?;
    Ok(added == 1)
}

fn keep_generation(tx: &Connection, input: &LiveInput) -> Result<(), Error> {
    let mut statement = tx.prepare_cached(KEEP_GENERATION)?;
    statement.execute(named_params! { ":id": input.id.as_str(), ":generation": input.delivery.generation })?;
    Ok(())
}

/// Closes a request and its withdrawal if both are here and the request can still be closed. Index: inputs_by_request.
fn close_withdrawn(tx: &Connection, tally: &mut Tally, request: &str, now: Timestamp) -> Result<u32, Error> {
    let mut found = Vec::new();
    for kind in [DeliveryKind::Request, DeliveryKind::RequestWithdrawn] {
        let mut statement = tx.prepare_cached(FIND_REQUEST)?;
        let id: Option<String> =
            statement.query_row(named_params! { ":request": request, ":kind": kind.as_str() }, |row| row.get(0)).optional()?;
        let Some(id) = id else { return Ok(0) };
        found.push(DeliveryId::new(id));
    }
    let mut closed = 0;
    for (place, id) in found.iter().enumerate() {
        match load(tx, id)? {
            Some(Loaded { state, kind, .. }) if state.can_be_withdrawn() => {
                let ended = state.ended("withdrawn", now);
                save(tx, id, &ended)?;
                tally.moved(&kind, &state, &ended);
                closed += 1;
            }
            // The request itself is with the runtime: the withdrawal goes there too, as information.
            _ if place == 0 => return Ok(0),
            _ => {}
        }
    }
    Ok(closed)
}

pub(super) fn unacked(db: &Connection, limit: u32) -> Result<Vec<(DeliveryId, i64)>, Error> {
    // Index: inputs_unacked.
    let mut statement = db.prepare_cached("SELECT id, generation FROM inputs WHERE acked = 0 ORDER BY seq LIMIT ?1")?;
    let rows = statement.query_map([i64::from(limit)], |row| Ok((DeliveryId::new(row.get::<_, String>(0)?), row.get(1)?)))?;
    rows.collect()
}

pub(super) fn mark_acked(tx: &Connection, leases: &[(DeliveryId, i64)]) -> Result<(), Error> {
    for (id, generation) in leases {
        let mut statement = tx.prepare_cached(MARK_ACKED)?;
        statement.execute(named_params! { ":id": id.as_str(), ":generation": generation })?;
    }
    Ok(())
}

pub(super) fn pending(db: &Connection, limit: u32) -> Result<Vec<StoredInput>, Error> {
    // Index: inputs_open.
    let sql = stored_inputs!("WHERE state <> 'accepted' AND held_reason IS NULL ORDER BY created_at, id LIMIT ?1");
    listed(db, sql, limit)
}

pub(super) fn held(db: &Connection, limit: u32) -> Result<Vec<StoredInput>, Error> {
    // Index: inputs_open.
    let sql = stored_inputs!("WHERE state <> 'accepted' AND held_reason IS NOT NULL ORDER BY created_at, id LIMIT ?1");
    listed(db, sql, limit)
}

fn listed(db: &Connection, sql: &str, limit: u32) -> Result<Vec<StoredInput>, Error> {
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map([i64::from(limit)], stored)?;
    rows.collect()
}

pub(super) fn get(db: &Connection, id: &DeliveryId) -> Result<Option<StoredInput>, Error> {
    let mut statement = db.prepare_cached(stored_inputs!("WHERE id = ?1"))?;
    statement.query_row([id.as_str()], stored).optional()
}

pub(super) fn open(db: &Connection) -> Result<Vec<OpenInput>, Error> {
    // Index: inputs_open.
    let mut statement = db.prepare_cached(
        "SELECT i.id, i.conversation_id, i.kind, i.request_id, i.created_at, i.state, i.held_reason, i.attempts, i.next_attempt_at,
                i.revision, s.session
         FROM inputs i LEFT JOIN sessions s ON s.conversation_id = i.conversation_id
         WHERE i.state <> 'accepted' ORDER BY i.created_at, i.id",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(OpenInput {
            id: DeliveryId::new(row.get::<_, String>(0)?),
            conversation_id: ConversationId::new(row.get::<_, String>(1)?),
            kind: DeliveryKind::from(row.get::<_, String>(2)?.as_str()),
            request_id: row.get::<_, Option<String>>(3)?.map(RequestId::new),
            created_at: Timestamp::from_micros(row.get(4)?),
            state: state_from(&row.get::<_, String>(5)?),
            held: row.get::<_, Option<String>>(6)?.map(|word| HeldReason::from_word(&word)),
            attempts: row.get(7)?,
            next_attempt_at: row.get::<_, Option<i64>>(8)?.map(Timestamp::from_micros),
            revision: row.get(9)?,
            session: row.get(10)?,
        })
    })?;
    rows.collect()
}

pub(super) fn remember_session(
    tx: &Connection,
    conversation: &ConversationId,
    session: &str,
    now: Timestamp,
) -> Result<String, Error> {
    tx.execute(
        "INSERT INTO sessions (conversation_id, session, since) VALUES (?1, ?2, ?3) ON CONFLICT (conversation_id) DO NOTHING",
        params![conversation.as_str(), session, now.as_micros()],
    )?;
    tx.query_row("SELECT session FROM sessions WHERE conversation_id = ?1", [conversation.as_str()], |row| row.get(0))
}

/// Index: inputs_conversation.
pub(super) fn prune_sessions(tx: &Connection, before: Timestamp) -> Result<(), Error> {
    tx.execute(
        "DELETE FROM sessions WHERE since < ?1
             AND NOT EXISTS (SELECT 1 FROM inputs i WHERE i.conversation_id = sessions.conversation_id)",
        [before.as_micros()],
    )?;
    Ok(())
}

pub(super) fn set_state(
    tx: &Connection,
    tally: &mut Tally,
    changes: &[StateChange],
    now: Timestamp,
) -> Result<Vec<Applied>, Error> {
    changes.iter().map(|change| apply(tx, tally, change, now)).collect()
}

fn apply(tx: &Connection, tally: &mut Tally, change: &StateChange, now: Timestamp) -> Result<Applied, Error> {
    let Some(Loaded { state, kind, request }) = load(tx, &change.id)? else { return Ok(Applied::Superseded) };
    let Some(next) = state.after(change.revision, &change.to, now) else { return Ok(Applied::Superseded) };
    save(tx, &change.id, &next)?;
    tally.moved(&kind, &state, &next);
    if let (NextState::Pending { .. }, Some(request)) = (&change.to, request)
        && close_withdrawn(tx, tally, &request, now)? > 0
    {
        return Ok(Applied::Withdrawn);
    }
    Ok(Applied::Done { revision: next.revision, attempts: next.attempts })
}

pub(super) fn resolve(
    tx: &Connection,
    tally: &mut Tally,
    id: &DeliveryId,
    resolution: Resolution,
    now: Timestamp,
) -> Result<Found, Error> {
    let Some(Loaded { state, kind, request }) = load(tx, id)? else { return Ok(Found::Nothing) };
    let Some(next) = state.resolved(resolution, now) else { return Ok(Found::NotHeld) };
    save(tx, id, &next)?;
    tally.moved(&kind, &state, &next);
    if let Some(request) = request {
        close_withdrawn(tx, tally, &request, now)?;
    }
    Ok(Found::Resolved)
}

/// Counts everything; once, when the inbox is opened.
pub(super) fn counts(db: &Connection) -> Result<Counts, Error> {
    let rows = db.query_row("SELECT count(*) FROM inputs", [], |row| row.get(0))?;
    // Index: inputs_open.
    let mut statement = db.prepare_cached(
        "SELECT count(*) FILTER (WHERE held_reason IS NULL AND state = 'pending'),
                count(*) FILTER (WHERE held_reason IS NULL AND state = 'submitting'),
                count(*) FILTER (WHERE held_reason IS NOT NULL),
                count(*) FILTER (WHERE kind NOT IN ('request_result', 'request_withdrawn')),
                count(*) FILTER (WHERE kind IN ('request_result', 'request_withdrawn'))
         FROM inputs WHERE state <> 'accepted'",
    )?;
    statement.query_row([], |row| {
        Ok(Counts {
            pending: row.get(0)?,
            submitting: row.get(1)?,
            held: row.get(2)?,
            open_ordinary: row.get(3)?,
            open_results: row.get(4)?,
            rows,
        })
    })
}

pub(super) fn prune(tx: &Connection, tally: &mut Tally, accepted_before: Timestamp, step: i64) -> Result<u32, Error> {
    // Index: inputs_done.
    let gone = tx.execute(
        "DELETE FROM inputs WHERE seq IN (
             SELECT seq FROM inputs WHERE state = 'accepted' AND acked = 1 AND accepted_at < :before AND created_at < :before
             LIMIT :step)",
        named_params! { ":before": accepted_before.as_micros(), ":step": step },
    )?;
    let gone = u32::try_from(gone).unwrap_or(u32::MAX);
    tally.forgotten(gone);
    Ok(gone)
}

/// The part of a row that changes go by.
struct Loaded {
    state: RowState,
    kind: DeliveryKind,
    request: Option<String>,
}

fn load(tx: &Connection, id: &DeliveryId) -> Result<Option<Loaded>, Error> {
    let mut statement = tx.prepare_cached(LOAD)?;
    statement
        .query_row([id.as_str()], |row| {
            let state = RowState {
                state: state_from(&row.get::<_, String>(0)?),
                held: held_from(row.get(1)?, row.get(2)?, row.get(3)?),
                attempts: row.get(4)?,
                next_attempt_at: row.get::<_, Option<i64>>(5)?.map(Timestamp::from_micros),
                attempt: attempt_from(row.get(6)?),
                last_error: row.get(7)?,
                accepted_at: row.get::<_, Option<i64>>(8)?.map(Timestamp::from_micros),
                ending: None,
                revision: row.get(9)?,
            };
            let kind = DeliveryKind::from(row.get::<_, String>(11)?.as_str());
            Ok(Loaded { state, kind, request: row.get(10)? })
        })
        .optional()
}

fn save(tx: &Connection, id: &DeliveryId, row: &RowState) -> Result<(), Error> {
    let attempt = row.attempt.as_ref().map(serde_json::to_string).transpose();
    let attempt = attempt.map_err(|e| Error::ToSqlConversionFailure(Box::new(e)))?;
    // The content goes in the same transaction as the `accepted` mark.
    let mut statement = tx.prepare_cached(SAVE)?;
    statement.execute(named_params! {
        ":id": id.as_str(),
        ":state": row.state.as_str(),
        ":reason": row.held.as_ref().map(|held| held.reason.as_str()),
        ":detail": row.held.as_ref().map(|held| held.detail.as_str()),
        ":since": row.held.as_ref().map(|held| held.since.as_micros()),
        ":attempts": row.attempts,
        ":next": row.next_attempt_at.map(Timestamp::as_micros),
        ":attempt": attempt,
        ":error": row.last_error,
        ":accepted_at": row.accepted_at.map(Timestamp::as_micros),
        ":ending": row.ending,
        ":revision": row.revision,
    })?;
    Ok(())
}

fn stored(row: &Row<'_>) -> Result<StoredInput, Error> {
    let id = DeliveryId::new(row.get::<_, String>(0)?);
    let conversation_id = ConversationId::new(row.get::<_, String>(1)?);
    let kind = DeliveryKind::from(row.get::<_, String>(2)?.as_str());
    let created_at = Timestamp::from_micros(row.get(3)?);
    let generation = row.get(5)?;
    let state = state_from(&row.get::<_, String>(7)?);
    let payload: Option<String> = row.get(16)?;
    let read = payload.as_deref().map(serde_json::from_str::<Delivery>);
    let content = match &read {
        Some(Ok(_)) => Content::Present,
        None if state == InputState::Accepted => Content::Scrubbed,
        _ => Content::Unreadable,
    };
    let mut delivery = read.and_then(Result::ok).unwrap_or_else(|| Delivery {
        id: id.clone(),
        generation,
        kind: kind.clone(),
        attempt: 0,
        leased_until: Timestamp::default(),
        created_at,
        payload: DeliveryPayload { r#type: kind.clone(), conversation_id: conversation_id.clone(), message: None, request: None },
    });
    delivery.generation = generation;
    Ok(StoredInput {
        input: LiveInput { id, conversation_id, kind, delivery },
        content,
        state,
        generation,
        acked: row.get(6)?,
        held: held_from(row.get(8)?, row.get(9)?, row.get(10)?),
        attempts: row.get(11)?,
        next_attempt_at: row.get::<_, Option<i64>>(12)?.map(Timestamp::from_micros),
        attempt: attempt_from(row.get(13)?),
        last_error: row.get(14)?,
        received_at: Timestamp::from_micros(row.get(4)?),
        revision: row.get(15)?,
    })
}

fn held_from(reason: Option<String>, detail: Option<String>, since: Option<i64>) -> Option<Held> {
    reason.map(|reason| Held {
        reason: HeldReason::from_word(&reason),
        detail: detail.unwrap_or_default(),
        since: Timestamp::from_micros(since.unwrap_or_default()),
    })
}

/// The evidence of an attempt is a help, not a condition: an unreadable one counts as none.
fn attempt_from(text: Option<String>) -> Option<Attempt> {
    text.and_then(|text| serde_json::from_str(&text).ok())
}

fn state_from(word: &str) -> InputState {
    match word {
        "pending" => InputState::Pending,
        "submitting" => InputState::Submitting,
        _ => InputState::Accepted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storing_and_handing_over_look_up_and_never_scan() {
        let mut db = Connection::open_in_memory().unwrap();
        super::super::schema::check_and_migrate(&mut db, "in memory").unwrap();
        let get = stored_inputs!("WHERE id = ?1");
        for sql in [INSERT, KEEP_GENERATION, FIND_REQUEST, MARK_ACKED, LOAD, SAVE, get] {
            let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let plan: Vec<String> = statement.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>().unwrap();
            let scans = plan.iter().any(|line| line.starts_with("SCAN") || line.contains("TEMP B-TREE"));
            assert!(!scans, "{sql}: {plan:?}");
        }
    }
}
