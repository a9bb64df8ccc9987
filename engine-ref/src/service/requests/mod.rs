//! Requests: questions, approvals and tasks with one durable outcome.
//!
//! | file | what is there |
//! | --- | --- |
//! | `form` | limits and vocabularies, told without the store |
//! | `state` | the state machine, pure |
//! | `ask`, `batch` | whom an ask reaches, and whether it may |
//! | `open` | storing a request that is allowed |
//! | `respond` | the decision |
//! | `close` | cancel, supersede, replace, expire, and what every end has in common |
//! | `blocking` | whether the asking agent waits |
//! | `capabilities` | what is open to an actor, told beforehand |
//! | `trace` | who had it when, and what came of it |
//! | `project` | what a reader may see |

mod ask;
mod batch;
mod blocking;
pub(crate) mod capabilities;
mod close;
pub(crate) mod form;
mod open;
pub(crate) mod project;
mod respond;
pub(crate) mod state;
#[cfg(test)]
mod tests;
mod trace;

pub(crate) use ask::{Made, ask, named, open};
pub(crate) use batch::{ask_batch, batch_answer};
pub(crate) use blocking::set_blocking;
pub(crate) use close::{cancel, expire, replace, replacement_answer, supersede};
pub(crate) use project::{View, find, project, show, withdrawn};
pub(crate) use respond::{must_decide, respond};
pub(crate) use trace::trace;

use beepgrid::{Request, RequestId};

use crate::service::Refusal;
use crate::service::actor::Actor;
use crate::store::ReadTx;

/// The request as the actor may see it.
pub(crate) fn get(tx: &ReadTx<'_>, actor: &Actor, id: &RequestId) -> Result<Request, Refusal> {
    project(tx, &actor.reader(), id)?.ok_or_else(Refusal::not_found)
}

/// What the author of a write gets back: the request as it may see it now, or at least ids, state and its own part.
pub(crate) fn for_author(tx: &ReadTx<'_>, actor: &Actor, id: &RequestId) -> Result<Request, Refusal> {
    match project(tx, &actor.reader(), id)? {
        Some(request) => Ok(request),
        None => project::own_part(tx, &actor.id, id),
    }
}

/// The answer to a write on one request, for its author.
pub(crate) fn answer<I>(tx: &ReadTx<'_>, actor: &Actor, _: &I, made: &Made) -> Result<Request, Refusal> {
    for_author(tx, actor, &made.request_id)
}
