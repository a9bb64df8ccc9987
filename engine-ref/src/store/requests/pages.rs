//! Pages of requests by id, as ids: each source is the near end of one index.

use beepgrid::{PrincipalId, RequestId};

use crate::store::{ReadTx, StoreError};

// Primary key.
pub(crate) const ALL: &str = "SELECT id FROM requests WHERE id > :after ORDER BY id LIMIT :limit";

// Index requests_requester.
pub(crate) const OF_REQUESTER: &str = "SELECT id FROM requests WHERE requester_id = :of AND id > :after ORDER BY id LIMIT :limit";

// Index request_audience_principal.
pub(crate) const OF_RECIPIENT: &str = "SELECT request_id AS id FROM request_audience
     WHERE principal_id = :of AND request_id > :after ORDER BY request_id LIMIT :limit";

// Index requests_executor.
pub(crate) const OF_EXECUTOR: &str = "SELECT id FROM requests WHERE executor_id = :of AND id > :after ORDER BY id LIMIT :limit";

// Index request_audience_conversation: everything asked in a conversation has a seat there.
pub(crate) const IN_CONVERSATION: &str = "SELECT DISTINCT request_id AS id FROM request_audience
     WHERE conversation_id = :of AND request_id > :after ORDER BY request_id LIMIT :limit";

// Index participants_shared, and for each chat one step into request_audience_conversation.
pub(crate) const NEXT_IN_CHATS: &str = "SELECT p.conversation_id,
        (SELECT min(a.request_id) FROM request_audience a WHERE a.conversation_id = p.conversation_id AND a.request_id > :after) AS next
     FROM participants p WHERE p.principal_id = :reader AND p.active = TRUE AND p.shared = TRUE";

/// Where ids come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source<'s> {
    All,
    Requester(&'s str),
    Recipient(&'s str),
    Executor(&'s str),
    Conversation(&'s str),
}

/// Ids of requests from one source after an id.
pub(crate) fn ids(tx: &ReadTx<'_>, source: Source<'_>, after: &str, limit: i64) -> Result<Vec<RequestId>, StoreError> {
    let (sql, of) = match source {
        Source::All => {
            let rows = tx.query(ALL, &[("after", &after), ("limit", &limit)])?;
            return rows.iter().map(|row| Ok(row.text("id")?.into())).collect();
        }
        Source::Requester(of) => (OF_REQUESTER, of),
        Source::Recipient(of) => (OF_RECIPIENT, of),
        Source::Executor(of) => (OF_EXECUTOR, of),
        Source::Conversation(of) => (IN_CONVERSATION, of),
    };
    let rows = tx.query(sql, &[("of", &of), ("after", &after), ("limit", &limit)])?;
    rows.iter().map(|row| Ok(row.text("id")?.into())).collect()
}

/// The shared chats that a reader is in now, each with its first request after an id; chats without one are left out.
pub(crate) fn next_in_chats(tx: &ReadTx<'_>, reader: &PrincipalId, after: &str) -> Result<Vec<(RequestId, String)>, StoreError> {
    let rows = tx.query(NEXT_IN_CHATS, &[("reader", reader), ("after", &after)])?;
    let mut chats = Vec::new();
    for row in rows {
        if let Some(next) = row.opt_text("next")? {
            chats.push((next.into(), row.text("conversation_id")?));
        }
    }
    Ok(chats)
}

// Index requests_blocking: at most a hundred an agent. A blocking request has one recipient. Ordered afterwards: an order here would
// lead through everything that the agent ever asked.
pub(crate) const WAITING: &str = "SELECT r.id, r.created_at, a.principal_id FROM requests r
     JOIN request_audience a ON a.request_id = r.id
     WHERE r.requester_id = :requester AND r.state = 'open' AND r.blocking = TRUE AND r.expires_at > :now
     LIMIT :limit";

/// One open blocking request of an agent.
#[derive(Clone, Debug)]
pub(crate) struct WaitRow {
    pub(crate) request_id: RequestId,
    pub(crate) waits_for: PrincipalId,
    pub(crate) since: beepgrid::Timestamp,
}

/// What an agent says it waits for, by id of the request.
pub(crate) fn waiting(tx: &ReadTx<'_>, requester: &PrincipalId, limit: i64) -> Result<Vec<WaitRow>, StoreError> {
    let rows = tx.query(WAITING, &[("requester", requester), ("now", &tx.now()), ("limit", &limit)])?;
    let mut waits = rows
        .iter()
        .map(|row| {
            Ok(WaitRow {
                request_id: row.text("id")?.into(),
                waits_for: row.text("principal_id")?.into(),
                since: beepgrid::Timestamp::from_micros(row.int("created_at")?),
            })
        })
        .collect::<Result<Vec<_>, StoreError>>()?;
    waits.sort_by(|a, b| a.request_id.cmp(&b.request_id));
    Ok(waits)
}
