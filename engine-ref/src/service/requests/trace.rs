//! What became of a request: its deliveries to agents page by page, what was redeemed and what was published from it.

use std::collections::HashMap;

use beepgrid::{PrincipalId, RequestId, RequestTrace, TracedDelivery};
use serde_json::json;

use super::project::{self, Access, View};
use crate::service::actor::Actor;
use crate::service::cursor::{Cursor, Key};
use crate::service::{Refusal, answers, executions};
use crate::store::deliveries::{self, DeliveryRow};
use crate::store::{ReadTx, principals, requests};

/// Deliveries on one page.
const PAGE: i64 = 100;

/// How much of a trace somebody sees.
enum Scope {
    /// Its requester, an operator: all of it.
    Whole(Box<View>),
    /// Who manages connections: how it travelled, nothing of what is in it.
    Transport,
}

/// A page of the trace of a request.
pub(crate) fn trace(
    tx: &ReadTx<'_>,
    actor: &Actor,
    id: &RequestId,
    cursor: Option<&str>,
    key: &Key,
) -> Result<RequestTrace, Refusal> {
    let scope = scope(tx, actor, id)?;
    let bound_to = json!(["request_trace", actor.id, id]);
    let after = match cursor {
        Some(text) => Cursor::open(text, &bound_to, key, tx.now())?.after,
        None => String::new(),
    };
    let mut rows = deliveries::page_of_request(tx, id, &after, PAGE + 1)?;
    let more = rows.len() > usize::try_from(PAGE).unwrap_or(usize::MAX);
    if more {
        rows.pop();
    }
    let next_cursor = match rows.last() {
        Some(last) if more => Some(Cursor { after: last.id.as_str().to_owned(), issued_at: tx.now() }.seal(&bound_to, key)?),
        _ => None,
    };
    let deliveries = shown(tx, actor, rows)?;
    let reader = actor.reader();
    match scope {
        Scope::Whole(view) => Ok(RequestTrace {
            request: project::show(tx, reader.id, *view)?,
            deliveries,
            next_cursor,
            executions: executions::of_request(tx, &reader, id)?.into_iter().collect(),
            answers: answers::of_request(tx, &reader, id)?,
        }),
        Scope::Transport => {
            let row = requests::find(tx, id)?.ok_or_else(Refusal::not_found)?;
            let request = project::bare(&project::as_of_now(tx, row));
            Ok(RequestTrace { request, deliveries, next_cursor, executions: Vec::new(), answers: Vec::new() })
        }
    }
}

fn scope(tx: &ReadTx<'_>, actor: &Actor, id: &RequestId) -> Result<Scope, Refusal> {
    let view = project::find(tx, &actor.reader(), id)?;
    let transport = || actor.manages(tx, "connection");
    match view {
        Some(view) if matches!(view.access, Access::Requester | Access::Operator) => Ok(Scope::Whole(Box::new(view))),
        Some(_) if transport()? => Ok(Scope::Transport),
        None if transport()? && requests::find(tx, id)?.is_some() => Ok(Scope::Transport),
        Some(_) => Err(Refusal::forbidden("only who asked, an operator or who manages connections sees the trace of a request")),
        None => Err(Refusal::not_found()),
    }
}

fn shown(tx: &ReadTx<'_>, actor: &Actor, rows: Vec<DeliveryRow>) -> Result<Vec<TracedDelivery>, Refusal> {
    let mut viewed: HashMap<PrincipalId, bool> = HashMap::new();
    let mut shown = Vec::with_capacity(rows.len());
    for row in rows {
        let views = match viewed.get(&row.agent_id) {
            Some(views) => *views,
            None => {
                let party = principals::party_by_id(tx, &row.agent_id)?;
                let views = party.map_or(Ok(false), |party| actor.may_view(tx, &party))?;
                viewed.insert(row.agent_id.clone(), views);
                views
            }
        };
        shown.push(row_of(row, views));
    }
    Ok(shown)
}

fn row_of(row: DeliveryRow, views_agent: bool) -> TracedDelivery {
    TracedDelivery {
        id: row.id,
        recipient_id: row.agent_id,
        instance_id: row.leased_by.or(row.instance_id).filter(|_| views_agent),
        kind: row.kind,
        state: row.state.as_str().to_owned(),
        reason: row.reason,
        attempt: row.attempts,
        at: row.acked_at.or(row.leased_at).unwrap_or(row.created_at),
    }
}
