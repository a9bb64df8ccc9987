//! Every planted fault is found, by the simulation or by the test that is named for it.

use std::fmt::Write as _;

use beepgrid::Timestamp;
use beepgrid_receiver::inbox::suite;
use beepgrid_receiver::mutants::{Mutant, plant};
use beepgrid_receiver::{InboxStore, SqliteInbox};

use crate::first_failure;
use crate::support::scenarios;

/// Seeds that a planted fault may survive.
const SEEDS: u64 = 4_000;

type NamedTest = (&'static str, fn() -> bool);

/// What histories meet too rarely, or is about a real disk.
fn named_test(mutant: Mutant) -> Option<NamedTest> {
    match mutant {
        Mutant::LateAnswerCounts => Some(("a person overtakes an answer of reconcile", a_person_overtakes_an_answer)),
        Mutant::InterruptionDuringCallIgnored => {
            Some(("an interruption overtakes an answer", an_interruption_overtakes_an_answer))
        }
        Mutant::LockNotTaken => Some(("a second owner is refused", a_second_owner_is_refused)),
        Mutant::FailedTransactionKept => Some(("a batch that fails leaves nothing", a_batch_that_fails_leaves_nothing)),
        _ => None,
    }
}

fn on_this_thread<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn in_paused_time(holds: impl Future<Output = bool>) -> bool {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(holds)
}

fn a_person_overtakes_an_answer() -> bool {
    in_paused_time(scenarios::a_person_overtakes_an_answer_of_reconcile())
}

fn an_interruption_overtakes_an_answer() -> bool {
    in_paused_time(scenarios::an_interruption_overtakes_an_answer())
}

fn a_second_owner_is_refused() -> bool {
    let folder = tempfile::tempdir().unwrap();
    on_this_thread(async {
        let _first = SqliteInbox::open(folder.path()).await.unwrap();
        SqliteInbox::open(folder.path()).await.is_err()
    })
}

fn a_batch_that_fails_leaves_nothing() -> bool {
    let folder = tempfile::tempdir().unwrap();
    on_this_thread(async {
        drop(SqliteInbox::open(folder.path()).await.unwrap());
        let trap = "CREATE TRIGGER trap BEFORE INSERT ON inputs WHEN NEW.id = 'd3' BEGIN SELECT RAISE(ABORT, 'trap'); END";
        rusqlite::Connection::open(folder.path().join("inbox.db")).unwrap().execute_batch(trap).unwrap();
        let inbox = SqliteInbox::open(folder.path()).await.unwrap();
        let batch = (1..5).map(|n| suite::message_in(&format!("d{n}"), n, "a", "text")).collect();
        inbox.put(batch, Timestamp::from_micros(1)).await.is_err() && inbox.open().await.unwrap().is_empty()
    })
}

/// Who found it and what they saw; `None` if it lives.
fn found(mutant: Mutant) -> Option<String> {
    if let Some((name, holds)) = named_test(mutant) {
        assert!(holds(), "{name}, without a planted fault");
        plant(Some(mutant));
        let survives = holds();
        plant(None);
        return (!survives).then(|| format!("test     {name}"));
    }
    let (seed, told) = first_failure(1..SEEDS, Some(mutant))?;
    let what = told.violation.unwrap_or_default();
    Some(format!("seed {seed:>4}  {}", what.split(" [").next().unwrap_or_default()))
}

#[test]
fn every_planted_fault_is_found() {
    let mut table = String::new();
    let mut alive = Vec::new();
    for mutant in Mutant::ALL {
        let found = found(mutant);
        writeln!(table, "{:<30} {}", format!("{mutant:?}"), found.as_deref().unwrap_or("LIVES")).unwrap();
        if found.is_none() {
            alive.push(mutant);
        }
    }
    println!("{table}");
    assert_eq!(alive, [], "\n{table}");
}
