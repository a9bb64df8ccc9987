//! Deliveries, to agents and over connections: those of a request for who asked it, how they travelled for who manages connections,
//! and for an agent its own that were set aside, which it may requeue.

use std::collections::HashMap;

use beepgrid::{DeliveryId, DeliveryRecord, PrincipalId, RequestId};
use serde_json::Value;

use super::page::{Look, Source, wire};
use crate::service::{Refusal, channels};
use crate::store::deliveries::{self, DeliveryRow, State, pages};
use crate::store::transports::{self, TransportRow};
use crate::store::{principals, requests};

pub(super) struct Deliveries {
    /// Manages connections: sees how everything travelled.
    transport: bool,
    /// What the filters leave to look for.
    ways: Ways,
    viewed: HashMap<PrincipalId, bool>,
    asked: HashMap<RequestId, bool>,
}

/// A delivery to a worker's inbox, or one over a connection.
pub(super) enum Delivery {
    Inbox(Box<DeliveryRow>),
    Outside(Box<TransportRow>),
}

impl Delivery {
    fn id(&self) -> &DeliveryId {
        match self {
            Self::Inbox(row) => &row.id,
            Self::Outside(row) => &row.id,
        }
    }

    /// The delivery with this id.
    pub(super) fn find(look: &Look<'_>, id: &DeliveryId) -> Result<Option<Self>, Refusal> {
        if let Some(row) = deliveries::by_id(look.tx, id)? {
            return Ok(Some(Self::Inbox(Box::new(row))));
        }
        Ok(transports::by_id(look.tx, id)?.map(|row| Self::Outside(Box::new(row))))
    }
}

/// Which kinds of deliveries a query can be about.
#[derive(Clone, Copy)]
struct Ways {
    inbox: bool,
    outside: bool,
}

impl Ways {
    fn of(look: &Look<'_>) -> Self {
        // What goes to a worker goes over no connection and belongs to no operation of one.
        let over = look.filter("connection_id").is_some() || look.filter("operation_id").is_some();
        let outside = look.filter("state").map(|state| transports::STATES.contains(&state));
        Self { inbox: !over && outside != Some(true), outside: outside != Some(false) }
    }
}

/// How much of a delivery somebody sees.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    /// How it travelled, and for which request.
    Transport,
    /// That it waits to be requeued.
    Parked,
}

impl Source for Deliveries {
    type Row = Delivery;

    fn open(look: &Look<'_>) -> Result<Self, Refusal> {
        let transport = look.actor.manages(look.tx, "connection")?;
        Ok(Self { transport, ways: Ways::of(look), viewed: HashMap::new(), asked: HashMap::new() })
    }

    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<Delivery>, Refusal> {
        Delivery::find(look, &id.into())
    }

    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<Delivery>, Refusal> {
        let place = place.max("dlv_");
        if !self.transport && look.filter("request_id").is_none() {
            let found = pages::of(look.tx, &look.actor.id, place, limit)?;
            return found.iter().filter_map(|id| Delivery::find(look, id).transpose()).collect();
        }
        let inbox = if self.ways.inbox { inbox(look, place, limit)? } else { Vec::new() };
        let outside = if self.ways.outside { outside(look, place, limit)? } else { Vec::new() };
        let mut both: Vec<Delivery> = inbox.into_iter().map(|row| Delivery::Inbox(Box::new(row))).collect();
        both.extend(outside.into_iter().map(|row| Delivery::Outside(Box::new(row))));
        both.sort_by(|a, b| a.id().cmp(b.id()));
        both.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(both)
    }

    fn place(row: &Delivery) -> String {
        row.id().to_string()
    }

    fn show(&mut self, look: &Look<'_>, row: Delivery) -> Result<Option<Value>, Refusal> {
        match row {
            Delivery::Inbox(row) if self.ways.inbox => self.show_inbox(look, *row),
            Delivery::Outside(row) if self.ways.outside => self.show_outside(look, *row),
            _ => Ok(None),
        }
    }
}

fn inbox(look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<DeliveryRow>, Refusal> {
    Ok(if let Some(request) = look.filter("request_id") {
        pages::of_request(look.tx, request, place, limit)?
    } else if look.filter("state") == Some(State::Parked.as_str()) {
        pages::parked(look.tx, place, limit)?
    } else {
        pages::all(look.tx, place, limit)?
    })
}

fn outside(look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<TransportRow>, Refusal> {
    use transports::pages;
    let filter = |name| look.filter(name);
    Ok(if let Some(operation) = filter("operation_id") {
        pages::of_operation(look.tx, operation, place, limit)?
    } else if let Some(request) = filter("request_id") {
        pages::of_request(look.tx, request, place, limit)?
    } else if let Some(connection) = filter("connection_id") {
        pages::of_connection(look.tx, connection, place, limit)?
    } else {
        pages::all(look.tx, place, limit)?
    })
}

impl Deliveries {
    fn show_inbox(&mut self, look: &Look<'_>, row: DeliveryRow) -> Result<Option<Value>, Refusal> {
        if !look.fits("state", row.state.as_str()) {
            return Ok(None);
        }
        let parked = row.agent_id == look.actor.id && row.state == State::Parked;
        let Some(part) = self.part(look, row.request_id.as_ref(), parked)? else { return Ok(None) };
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
            connection_id: None,
            destination_id: None,
            operation_id: None,
            created_at: row.created_at,
        })
    }

    fn show_outside(&mut self, look: &Look<'_>, row: TransportRow) -> Result<Option<Value>, Refusal> {
        let Some(part) = self.part(look, row.request_id.as_ref(), false)? else { return Ok(None) };
        let record = channels::show_transport(row, part == Part::Whole);
        let fits = look.fits("state", &record.state)
            && look.fits_opt("request_id", record.request_id.as_ref().map(AsRef::as_ref))
            && look.fits_opt("connection_id", record.connection_id.as_ref().map(AsRef::as_ref))
            && look.fits_opt("operation_id", record.operation_id.as_deref());
        if fits { wire(&record) } else { Ok(None) }
    }

    /// Whether the reader sees what became of a delivery over a connection, besides that it exists.
    pub(super) fn sees(&mut self, look: &Look<'_>, delivery: &Delivery) -> Result<bool, Refusal> {
        let part = match delivery {
            Delivery::Inbox(row) => {
                self.part(look, row.request_id.as_ref(), row.agent_id == look.actor.id && row.state == State::Parked)?
            }
            Delivery::Outside(row) => self.part(look, row.request_id.as_ref(), false)?,
        };
        Ok(part.is_some())
    }

    fn part(&mut self, look: &Look<'_>, request: Option<&RequestId>, parked: bool) -> Result<Option<Part>, Refusal> {
        if look.actor.operator || self.asked(look, request)? {
            return Ok(Some(Part::Whole));
        }
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
