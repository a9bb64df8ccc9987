//! People, agents, services, the caller itself and the directory.

use beepgrid::{
    Agent, ErrorCode, Me, MeCredential, Person, PrincipalEdit, PrincipalId, PrincipalInput, PrincipalKind, QueryPage, Service,
    StatusInput,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::actor::Actor;
use super::cursor::{self, Cursor};
use super::events::{self, Event};
use super::limits::{DEFAULT_PAGE, MAX_PAGE, MAX_SCAN, MAX_SEARCH_CHARS};
use super::policies::sees;
use super::{Refusal, checks, new_id};
use crate::signals::Signal;
use crate::store::principals::{self, PrincipalRow};
use crate::store::{ReadTx, WriteTx};

/// A person, an agent or a service, as the wire has them.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Principal {
    Person(Person),
    Agent(Agent),
    Service(Service),
}

/// The prefix of the ids of a kind.
pub(crate) fn prefix(kind: &PrincipalKind) -> &'static str {
    match kind {
        PrincipalKind::Person => "per_",
        PrincipalKind::Service => "svc_",
        _ => PrincipalId::PREFIX,
    }
}

/// The wire form; `enrolled_by` is for managers.
pub(crate) fn principal(row: PrincipalRow, manager: bool) -> Principal {
    let PrincipalRow { id, kind, name, external_id, metadata, version, disabled, parent_id, enrolled_by, created_at, .. } = row;
    match kind {
        PrincipalKind::Person => Principal::Person(Person { id, name, external_id, metadata, version, disabled, created_at }),
        PrincipalKind::Service => Principal::Service(Service { id, name, external_id, metadata, version, disabled, created_at }),
        _ => Principal::Agent(Agent {
            id,
            name,
            external_id,
            metadata,
            version,
            disabled,
            created_at,
            parent_id,
            enrolled_by: enrolled_by.filter(|_| manager),
        }),
    }
}

/// Who the caller is.
pub(crate) fn me(tx: &ReadTx<'_>, actor: &Actor) -> Result<Me, Refusal> {
    let row = principals::by_id(tx, actor.id.as_str())?.ok_or(Refusal::Unauthorized)?;
    let mut me = Me {
        identity_type: actor.kind.clone(),
        person: None,
        agent: None,
        service: None,
        instance_id: actor.instance_id.clone(),
        operator: actor.operator,
        credential: MeCredential {
            id: actor.credential.id.clone(),
            kind: actor.credential.kind.clone(),
            name: actor.credential.name.clone(),
            permissions: actor.credential.ceiling.clone(),
            expires_at: actor.credential.expires_at,
        },
    };
    match principal(row, false) {
        Principal::Person(person) => me.person = Some(person),
        Principal::Agent(agent) => me.agent = Some(agent),
        Principal::Service(service) => me.service = Some(service),
    }
    Ok(me)
}

/// Whether a new principal has the right form.
pub(crate) fn check_input(input: &PrincipalInput) -> Result<(), Refusal> {
    checks::name("name", &input.name)?;
    checks::external_id("external_id", &input.external_id)?;
    checks::metadata("metadata", &input.metadata)
}

/// Whether an edit has the right form.
pub(crate) fn check_edit(input: &PrincipalEdit) -> Result<(), Refusal> {
    input.name.as_ref().map_or(Ok(()), |name| checks::name("name", name).map(drop))?;
    input.metadata.as_ref().map_or(Ok(()), |metadata| checks::metadata("metadata", metadata))
}

/// Makes a principal.
pub(crate) fn create(
    tx: &WriteTx<'_>,
    actor: &Actor,
    kind: PrincipalKind,
    input: &PrincipalInput,
) -> Result<PrincipalId, Refusal> {
    actor.must_manage(tx, "identity")?;
    let row = PrincipalRow {
        id: new_id(prefix(&kind)),
        kind,
        name: checks::name("name", &input.name)?,
        external_id: input.external_id.clone(),
        metadata: input.metadata.clone(),
        version: 1,
        disabled: false,
        operator: false,
        parent_id: None,
        enrolled_by: None,
        created_at: tx.now(),
    };
    if !principals::insert(tx, &row)? {
        let message = format!("external_id: another {} has it already", row.kind);
        return Err(Refusal::conflict(ErrorCode::AlreadyExists, message));
    }
    updated(tx, actor, &row.id)?;
    Ok(row.id)
}

/// Edits a principal.
pub(crate) fn edit(
    tx: &WriteTx<'_>,
    actor: &Actor,
    kind: &PrincipalKind,
    (id, input): &(String, PrincipalEdit),
) -> Result<PrincipalId, Refusal> {
    let mut row = managed(tx, actor, kind, id, input.version)?;
    if let Some(name) = &input.name {
        row.name = checks::name("name", name)?;
    }
    if let Some(metadata) = &input.metadata {
        row.metadata.clone_from(metadata);
    }
    principals::update(tx, &row)?;
    updated(tx, actor, &row.id)?;
    Ok(row.id)
}

/// Stops or restores all access of a principal.
pub(crate) fn set_status(
    tx: &WriteTx<'_>,
    actor: &Actor,
    kind: &PrincipalKind,
    (id, input): &(String, StatusInput),
) -> Result<PrincipalId, Refusal> {
    let mut row = managed(tx, actor, kind, id, input.version)?;
    if input.disabled && !row.disabled && row.operator && principals::live_operators(tx)? <= 1 {
        return Err(Refusal::conflict(ErrorCode::LastOperator, "the last operator can't be disabled"));
    }
    row.disabled = input.disabled;
    principals::update(tx, &row)?;
    updated(tx, actor, &row.id)?;
    tx.signal(Signal::Access { principal: row.id.clone() });
    Ok(row.id)
}

/// A principal that the actor may manage, at the version it read.
fn managed(tx: &ReadTx<'_>, actor: &Actor, kind: &PrincipalKind, id: &str, version: i64) -> Result<PrincipalRow, Refusal> {
    let by_id = principals::by_id(tx, id)?.filter(|row| row.kind == *kind);
    let row = match by_id {
        Some(row) => row,
        None => principals::by_external_id(tx, kind.as_str(), id)?.ok_or_else(Refusal::not_found)?,
    };
    if !sees(tx, actor, &row.as_party())? {
        return Err(Refusal::not_found());
    }
    actor.must_manage(tx, "identity")?;
    if row.operator && !actor.operator {
        return Err(Refusal::forbidden("only an operator changes an operator"));
    }
    if row.version != version {
        return Err(Refusal::version_conflict(row.version));
    }
    Ok(row)
}

fn updated(tx: &WriteTx<'_>, actor: &Actor, id: &PrincipalId) -> Result<(), Refusal> {
    events::record(
        tx,
        &Event {
            kind: "identity.updated",
            actor_id: &actor.id,
            conversation_id: "",
            recipient_id: "",
            subject_id: id.as_str(),
            data: json!({ "id": id }),
        },
    )
    .map(drop)
}

/// The principal that a write made or changed, as the actor may see it now.
pub(crate) fn for_author(tx: &ReadTx<'_>, actor: &Actor, id: &PrincipalId) -> Result<Principal, Refusal> {
    let mut row = principals::by_id(tx, id.as_str())?.ok_or_else(Refusal::not_found)?;
    let manager = actor.manages(tx, "identity")?;
    if !manager && !actor.may_view(tx, &row.as_party())? {
        // A replay after the right was lost: the id, and nothing that others may have changed since.
        row.name.clear();
        row.metadata.clear();
    }
    Ok(principal(row, manager))
}

/// What to look for in the directory.
#[derive(Clone, Debug)]
pub(crate) struct DirectoryQuery {
    pub(crate) kind: PrincipalKind,
    pub(crate) search: String,
    pub(crate) limit: i64,
    pub(crate) cursor: Option<String>,
}

impl DirectoryQuery {
    /// Checks the parameters as they came.
    pub(crate) fn new(kind: &str, search: Option<String>, limit: Option<i64>, cursor: Option<String>) -> Result<Self, Refusal> {
        if kind.is_empty() || !PrincipalKind::from(kind).is_known() {
            return Err(checks::one_of("kind", kind, PrincipalKind::KNOWN));
        }
        let search = search.unwrap_or_default();
        if search.chars().count() > MAX_SEARCH_CHARS {
            return Err(Refusal::invalid("search", format!("at most {MAX_SEARCH_CHARS} code points")));
        }
        let limit = limit.unwrap_or(DEFAULT_PAGE);
        checks::range("limit", limit, 1, MAX_PAGE)?;
        Ok(Self { kind: kind.into(), search, limit, cursor })
    }
}

/// One page of the principals of a kind that the actor may view, by id.
pub(crate) fn directory(
    tx: &ReadTx<'_>,
    actor: &Actor,
    query: &DirectoryQuery,
    key: &cursor::Key,
) -> Result<QueryPage<Value>, Refusal> {
    let scope = json!(["directory", actor.id, query.kind, query.search, query.limit]);
    let mut after = match &query.cursor {
        Some(text) => Cursor::open(text, &scope, key, tx.now())?.after,
        None => String::new(),
    };
    let manager = actor.manages(tx, "identity")?;
    let words: Vec<String> = query.search.split_whitespace().map(str::to_lowercase).collect();
    let (mut items, mut scanned, wanted) = (Vec::new(), 0, usize::try_from(query.limit).unwrap_or(usize::MAX));
    loop {
        let page = principals::page(tx, query.kind.as_str(), &after, MAX_PAGE + 1)?;
        let last_page = i64::try_from(page.len()).unwrap_or(i64::MAX) <= MAX_PAGE;
        for row in page {
            if items.len() == wanted || scanned == MAX_SCAN {
                let next = Cursor { after, issued_at: tx.now() }.seal(&scope, key)?;
                return Ok(QueryPage { items, next_cursor: Some(next), order: "id ascending".to_owned() });
            }
            scanned += 1;
            row.id.as_str().clone_into(&mut after);
            if matches(&row, &words) && (manager || actor.may_view(tx, &row.as_party())?) {
                items.push(json!(principal(row, manager)));
            }
        }
        if last_page {
            return Ok(QueryPage { items, next_cursor: None, order: "id ascending".to_owned() });
        }
    }
}

/// Whether every word stands in the name or the external id, without case.
fn matches(row: &PrincipalRow, words: &[String]) -> bool {
    let text = format!("{}\n{}", row.name.to_lowercase(), row.external_id.to_lowercase());
    words.iter().all(|word| text.contains(word))
}
