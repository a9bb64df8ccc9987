//! Deliveries: those of a request for who asked it, how they travelled for who manages connections, and for an agent its own that
//! were set aside, which it may requeue.

use std::collections::HashMap;

use beepgrid::{DeliveryRecord, PrincipalId, RequestId};
use serde_json::Value;

use super::page::{Look, Source, wire};
use crate::service::Refusal;
use crate::store::deliveries::{self, DeliveryRow, State, pages};
use crate::store::{principals, requests};

pub(super) struct Deliveries {
    /// Manages connections: sees how everything travelled.
    transport: bool,
    viewed: HashMap<PrincipalId, bool>,
    asked: HashMap<RequestId, bool>,
}

/// How much of a delivery somebody sees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// How it travelled, and for which request.
    Transport,
    /// That it waits to be requeued.
    Parked,
}

impl Source for Deliveries {
    type Row = DeliveryRow;

    fn open(look: &Look<'_>) -> Result<Self, Refusal> {
        let transport = look.actor.manages(look.tx, "connection")?;
        Ok(Self { transport, viewed: HashMap::new(), asked: HashMap::new() })
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<DeliveryRow>, Refusal> {
        Ok(deliveries::by_id(look.tx, &id.into())?)
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<DeliveryRow>, Refusal> {
        let place = place.max("dlv_");
        if let Some(request) = look.filter("request_id") {
            return Ok(pages::of_request(look.tx, request, place, limit)?);
        }
        Ok(if !self.transport {
            pages::of(look.tx, &look.actor.id, place, limit)?
        } else if look.filter("state") == Some(State::Parked.as_str()) {
            pages::parked(look.tx, place, limit)?
        } else {
            pages::all(look.tx, place, limit)?
        })
    }

    fn place(row: &DeliveryRow) -> String {
        row.id.to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: DeliveryRow) -> Result<Option<Value>, Refusal> {
        // What goes to a worker goes over no connection and belongs to no operation of one.
        let outside = look.filter("connection_id").is_some() || look.filter("operation_id").is_some();
        if outside || !look.fits("state", row.state.as_str()) {
            return Ok(None);
        }
        let Some(part) = self.part(look, &row)? else { return Ok(None) };
        let request_id = row.request_id.filter(|_| part != Part::Parked);
        if !look.fits_opt("request_id", request_id.as_ref().map(AsRef::as_ref)) {
            return Ok(None);
        }
        let whole = part == Part::Whole;
        let views_agent = part == Part::Parked || self.views(look, &row.agent_id)?;
        wire(&DeliveryRecord {
            id: row.id,
            recipient_id: row.agent_id,
            instance_id: row.leased_by.or(row.instance_id).filter(|_| views_agent),
            kind: row.kind,
            state: row.state.as_str().to_owned(),
            reason: row.reason,
            attempt: row.attempts,
            at: row.acked_at.or(row.leased_at).unwrap_or(row.created_at),
            request_id,
            message_id: row.message_id.filter(|_| whole),
            conversation_id: Some(row.conversation_id).filter(|_| whole),
            created_at: row.created_at,
        })
    }
}

impl Deliveries {
    fn part(&mut self, look: &Look<'_>, row: &DeliveryRow) -> Result<Option<Part>, Refusal> {
        if look.actor.operator || self.asked(look, row.request_id.as_ref())? {
            return Ok(Some(Part::Whole));
        }
        let parked = row.agent_id == look.actor.id && row.state == State::Parked;
        Ok(if self.transport { Some(Part::Transport) } else { parked.then_some(Part::Parked) })
    }

    /// Whether the reader asked this request.
    fn asked(&mut self, look: &Look<'_>, request: Option<&RequestId>) -> Result<bool, Refusal> {
        let Some(id) = request else { return Ok(false) };
        if let Some(asked) = self.asked.get(id) {
            return Ok(*asked);
        }
        let asked = requests::find(look.tx, id)?.is_some_and(|row| row.requester_id == look.actor.id);
        self.asked.insert(id.clone(), asked);
        Ok(asked)
    }

    fn views(&mut self, look: &Look<'_>, agent: &PrincipalId) -> Result<bool, Refusal> {
        if let Some(views) = self.viewed.get(agent) {
            return Ok(*views);
        }
        let party = principals::party_by_id(look.tx, agent)?;
        let views = party.map_or(Ok(false), |party| look.actor.may_view(look.tx, &party))?;
        self.viewed.insert(agent.clone(), views);
        Ok(views)
    }
}
