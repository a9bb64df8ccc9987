//! Presence of agents by their live runtime connections; the rings are tested beside their code.

use std::collections::BTreeSet;

use beepgrid::{Presence as Word, PrincipalKind};

use super::{named, presence, status};
use crate::service::actor::{Actor, TokenDigest};
use crate::service::inbox::bed::Bed;
use crate::service::permissions::RulesCache;
use crate::service::presence::Presence;
use crate::store::principals;

async fn word(bed: &Bed, seen: &Presence) -> Word {
    let seen = seen.clone();
    let read = bed.store.read(move |tx| {
        let row = principals::by_id(tx, "agt_1")?.unwrap();
        presence(tx, &seen, &row)
    });
    read.await.unwrap()
}

#[tokio::test]
async fn an_agent_is_there_while_one_live_runtime_is() {
    for bed in Bed::each().await {
        let seen = Presence::default();
        assert_eq!(word(&bed, &seen).await, Word::Connected);
        bed.advance(60);
        assert_eq!(word(&bed, &seen).await, Word::Stale);
        seen.instance_seen(&"ins_b".into(), bed.clock.now());
        assert_eq!(word(&bed, &seen).await, Word::Connected, "what this process heard counts before it is stored");
        bed.sql("UPDATE credentials SET revoked = TRUE WHERE id = 'crd_b'").await;
        assert_eq!(word(&bed, &seen).await, Word::Stale, "a revoked runtime is not counted");
        bed.sql("UPDATE principals SET disabled = TRUE WHERE id = 'agt_1'").await;
        assert_eq!(word(&bed, &seen).await, Word::Offline);
    }
}

#[tokio::test]
async fn rules_by_name_narrow_where_to_look() {
    let bed = Bed::memory().await;
    let look = || async {
        let read = bed.store.read(|tx| {
            let actor = Actor::load(tx, &TokenDigest::of("ins_a"), &RulesCache::default())?;
            named(tx, &actor, &PrincipalKind::Agent)
        });
        read.await.unwrap()
    };
    assert_eq!(look().await, Some(BTreeSet::from(["agt_1".to_owned()])));
    let policy = |rules: &'static str| {
        let bed = &bed;
        async move {
            bed.sql("DELETE FROM contact_policies").await;
            let write = bed.store.write(move |tx| {
                let sql = "INSERT INTO contact_policies (subject_id, subject_kind, version, rules) VALUES ('agt_1', 'agent', 1, :rules)";
                Ok(tx.execute(sql, &[("rules", &rules)])?)
            });
            write.await.unwrap();
        }
    };
    policy(r#"[{"action":"message","target_kind":"agent","target_id":"agt_2"},{"action":"view","target_kind":"person","target_id":"*"}]"#)
        .await;
    assert_eq!(look().await, Some(BTreeSet::from(["agt_1".to_owned(), "agt_2".to_owned()])));
    policy(r#"[{"action":"ask","target_kind":"agent","target_id":"*"}]"#).await;
    assert_eq!(look().await, None);
    policy(r#"[{"action":"view","target_kind":"group","target_id":"*"}]"#).await;
    assert_eq!(look().await, None);
}

#[tokio::test]
async fn a_status_of_oneself_says_what_it_is() {
    let bed = Bed::memory().await;
    let read = bed.store.read(|tx| {
        let actor = Actor::load(tx, &TokenDigest::of("ins_a"), &RulesCache::default())?;
        status(tx, &actor, &Presence::default())
    });
    let status = read.await.unwrap();
    assert_eq!((status.mode.as_str(), status.commands_supported, status.truncated), ("read_only", false, false));
    assert_eq!(status.agents.len(), 1);
    assert_eq!((status.agents[0].instances.len(), status.agents[0].fresh), (3, true));
    assert!(status.cycles.is_empty() && status.dependencies.is_empty());
}
