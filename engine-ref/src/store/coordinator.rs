//! Plans of the Coordinator.

use beepgrid::{OverseerDispatch, OverseerInstruction, PlanId, PlanOperation, PrincipalId, Target, Timestamp};

use super::credentials::time;
use super::principals::stored_json;
use super::requests::to_json;
use super::{ReadTx, Row, StoreError, WriteTx};

/// A plan as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanRow {
    pub(crate) id: PlanId,
    pub(crate) person_id: PrincipalId,
    pub(crate) automatic: bool,
    pub(crate) prompt: String,
    pub(crate) previous_plan_id: Option<PlanId>,
    pub(crate) target: Option<Target>,
    /// The agents that the model could choose from.
    pub(crate) context: Vec<PrincipalId>,
    pub(crate) operation: PlanOperation,
    pub(crate) summary: String,
    pub(crate) body: String,
    pub(crate) instructions: Vec<OverseerInstruction>,
    pub(crate) dispatches: Vec<OverseerDispatch>,
    pub(crate) dispatched_at: Option<Timestamp>,
    pub(crate) reply_summary: String,
    pub(crate) reply_digest: String,
    pub(crate) summary_error: String,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

// Index: plans_person, backwards.
pub(crate) const OF_PERSON: &str =
    "SELECT * FROM plans WHERE person_id = :principal AND id < :after ORDER BY id DESC LIMIT :limit";

fn plan(row: &Row) -> Result<PlanRow, StoreError> {
    let target = match row.opt_text("target")? {
        Some(_) => Some(stored_json(row, "target")?),
        None => None,
    };
    Ok(PlanRow {
        id: row.text("id")?.into(),
        person_id: row.text("person_id")?.into(),
        automatic: row.bool("automatic")?,
        prompt: row.text("prompt")?,
        previous_plan_id: row.opt_text("previous_plan_id")?.map(PlanId::new),
        target,
        context: stored_json(row, "context")?,
        operation: row.text("operation")?.as_str().into(),
        summary: row.text("summary")?,
        body: row.text("body")?,
        instructions: stored_json(row, "instructions")?,
        dispatches: stored_json(row, "dispatches")?,
        dispatched_at: row.opt_int("dispatched_at")?.map(Timestamp::from_micros),
        reply_summary: row.text("reply_summary")?,
        reply_digest: row.text("reply_digest")?,
        summary_error: row.text("summary_error")?,
        created_at: time(row, "created_at")?,
        expires_at: time(row, "expires_at")?,
    })
}

/// The plan, if there is one.
pub(crate) fn by_id(tx: &ReadTx<'_>, id: &PlanId) -> Result<Option<PlanRow>, StoreError> {
    // Primary key.
    tx.find("SELECT * FROM plans WHERE id = :id", &[("id", id)])?.as_ref().map(plan).transpose()
}

/// A person's plans before an id, newest first.
pub(crate) fn page(tx: &ReadTx<'_>, person: &PrincipalId, before: &str, limit: i64) -> Result<Vec<PlanRow>, StoreError> {
    tx.query(OF_PERSON, &[("principal", person), ("after", &before), ("limit", &limit)])?.iter().map(plan).collect()
}

/// Stores a plan.
pub(crate) fn insert(tx: &WriteTx<'_>, row: &PlanRow) -> Result<(), StoreError> {
    let target = row.target.as_ref().map(|target| to_json("target", target)).transpose()?;
    tx.execute(
        "INSERT INTO plans (id, person_id, automatic, prompt, previous_plan_id, target, context, operation, summary, body,
             instructions, dispatches, dispatched_at, reply_summary, reply_digest, summary_error, created_at, expires_at)
         VALUES (:id, :person, :automatic, :prompt, :previous, :target, :context, :operation, :summary, :body,
             :instructions, :dispatches, :dispatched, '', '', '', :created, :expires)",
        &[
            ("id", &row.id),
            ("person", &row.person_id),
            ("automatic", &row.automatic),
            ("prompt", &row.prompt),
            ("previous", &row.previous_plan_id),
            ("target", &target),
            ("context", &to_json("context", &row.context)?),
            ("operation", &row.operation.as_str()),
            ("summary", &row.summary),
            ("body", &row.body),
            ("instructions", &to_json("instructions", &row.instructions)?),
            ("dispatches", &to_json("dispatches", &row.dispatches)?),
            ("dispatched", &row.dispatched_at),
            ("created", &row.created_at),
            ("expires", &row.expires_at),
        ],
    )?;
    Ok(())
}

/// Notes what a plan sent.
pub(crate) fn set_dispatched(tx: &WriteTx<'_>, id: &PlanId, dispatches: &[OverseerDispatch]) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE plans SET dispatches = :dispatches, dispatched_at = :now WHERE id = :id",
        &[("dispatches", &to_json("dispatches", &dispatches)?), ("now", &tx.now()), ("id", id)],
    )?;
    Ok(())
}

/// Notes what its replies came to, or why that can't be said.
pub(crate) fn set_summary(tx: &WriteTx<'_>, id: &PlanId, text: &str, digest: &str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE plans SET reply_summary = :text, reply_digest = :digest, summary_error = '' WHERE id = :id",
        &[("text", &text), ("digest", &digest), ("id", id)],
    )?;
    Ok(())
}

/// Notes why the replies could not be summed up; what was summed up before stays.
pub(crate) fn set_summary_error(tx: &WriteTx<'_>, id: &PlanId, error: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE plans SET summary_error = :error WHERE id = :id", &[("error", &error), ("id", id)])?;
    Ok(())
}
