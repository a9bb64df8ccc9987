//! Pages of runtime connections: all of them, those of one agent, and those that can still connect.

use beepgrid::PrincipalId;

use super::{InstanceRow, ReadTx, StoreError, instance};

// Primary key.
pub(crate) const ALL: &str = "SELECT * FROM instances WHERE id > :after ORDER BY id LIMIT :limit";

// Index instances_agent.
pub(crate) const OF_AGENT: &str = "SELECT * FROM instances WHERE agent_id = :agent AND id > :after ORDER BY id LIMIT :limit";

// Index instances_agent from its end, then credentials_instance for each. The end of a connection's last credential is final.
pub(crate) const LIVE_OF_AGENT: &str = "SELECT i.* FROM instances i
     WHERE i.agent_id = :agent AND EXISTS (SELECT 1 FROM credentials c
        WHERE c.instance_id = i.id AND c.revoked = FALSE AND (c.expires_at IS NULL OR c.expires_at > :now))
     ORDER BY i.id DESC LIMIT :limit";

/// Runtime connections after an id.
pub(crate) fn all(tx: &ReadTx<'_>, after: &str, limit: i64) -> Result<Vec<InstanceRow>, StoreError> {
    tx.query(ALL, &[("after", &after), ("limit", &limit)])?.iter().map(instance).collect()
}

/// An agent's runtime connections after an id.
pub(crate) fn of_agent(tx: &ReadTx<'_>, agent: &str, after: &str, limit: i64) -> Result<Vec<InstanceRow>, StoreError> {
    tx.query(OF_AGENT, &[("agent", &agent), ("after", &after), ("limit", &limit)])?.iter().map(instance).collect()
}

/// The newest of an agent's runtime connections that have a credential which works, by id.
pub(crate) fn live_of_agent(tx: &ReadTx<'_>, agent: &PrincipalId, limit: i64) -> Result<Vec<InstanceRow>, StoreError> {
    let rows = tx.query(LIVE_OF_AGENT, &[("agent", agent), ("now", &tx.now()), ("limit", &limit)])?;
    rows.iter().rev().map(instance).collect()
}
