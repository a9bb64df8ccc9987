//! PostgreSQL: a schema that any number of engine processes share. What differs from SQLite.

mod listener;
mod notice;
mod session;
mod target;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use self::session::{Session, sorted};
use self::target::{Role, Target};
use super::bell::Bell;
use super::migrate::Runner;
use super::open::{Opening, POSTGRES_READERS, start};
use super::piece::Command;
use super::tx::Backend;
use super::writer::{self, Commit};
use super::{Store, StoreConfig, StoreError};
use crate::clock::Clock;
use crate::signals::Signal;

/// How long a write goes on trying to begin before its callers hear that the database is away.
const BEGIN_PATIENCE: Duration = Duration::from_secs(2);
/// How long the outcome of a commit is looked for.
const OUTCOME_PATIENCE: Duration = Duration::from_secs(5);
const FIRST_DELAY: Duration = Duration::from_millis(20);
const LONGEST_DELAY: Duration = Duration::from_millis(500);

/// A connection that renews itself. The thread that made it uses it and drops it.
struct Postgres {
    target: Arc<Target>,
    role: Role,
    bell: Bell,
    session: RefCell<Option<Rc<Session>>>,
    /// Whether the last attempt to begin failed: the next one doesn't wait.
    away: Cell<bool>,
    /// The number of the open write transaction, by which its outcome can be asked for.
    transaction: RefCell<Option<String>>,
}

impl Postgres {
    fn connect(target: &Arc<Target>, role: Role, bell: Bell) -> Result<Self, StoreError> {
        let session = target.connect(role)?;
        Ok(Self {
            target: Arc::clone(target),
            role,
            bell,
            session: RefCell::new(Some(Rc::new(session))),
            away: Cell::new(false),
            transaction: RefCell::default(),
        })
    }

    /// The connection, or a fresh one if it is gone.
    fn session(&self) -> Result<Rc<Session>, StoreError> {
        let known = self.session.borrow().as_ref().filter(|session| !session.is_broken()).map(Rc::clone);
        if let Some(session) = known {
            return Ok(session);
        }
        self.session.replace(None);
        let session = Rc::new(self.target.connect(self.role)?);
        self.session.replace(Some(Rc::clone(&session)));
        Ok(session)
    }

    /// Begins a transaction; as nothing has happened in it yet, a connection that is gone costs a retry and nothing else.
    fn begin(&self, sql: &str) -> Result<Rc<dyn Backend>, StoreError> {
        let end = Instant::now() + if self.away.get() { Duration::ZERO } else { BEGIN_PATIENCE };
        let mut delay = Duration::ZERO;
        loop {
            let begun = self.session().and_then(|session| {
                let xid = session.simple(sql, "xid").inspect_err(|_| self.abandon(&session))?;
                self.transaction.replace(xid);
                Ok(session)
            });
            self.away.set(begun.is_err());
            match begun {
                Ok(session) => return Ok(session),
                Err(error) if !error.is_passing() || (!delay.is_zero() && Instant::now() >= end) => return Err(error),
                // The first retry follows at once: a connection that went stale needs no more.
                Err(error) if !self.bell.pause(delay) => return Err(error),
                Err(_) => delay = (delay * 2).clamp(FIRST_DELAY, LONGEST_DELAY),
            }
        }
    }

    /// Makes sure that a transaction that failed at its beginning is not left half-open.
    fn abandon(&self, session: &Rc<Session>) {
        if !session.is_broken() && session.raw("ROLLBACK").is_err() {
            self.session.replace(None);
        }
    }

    /// Asks the server what became of a transaction whose commit was not answered.
    fn outcome(&self, xid: &str, error: StoreError, mut crashed: bool) -> Commit {
        let end = Instant::now() + OUTCOME_PATIENCE;
        let pause = Bell::default();
        let mut delay = FIRST_DELAY;
        loop {
            let question = format!("SELECT pg_xact_status('{xid}'::xid8) AS status");
            match self.session().and_then(|session| session.simple(&question, "status")) {
                Ok(status) => match status.as_deref() {
                    Some("aborted") => return Commit::Undone(error),
                    // After a crash the server may have given the number to another transaction.
                    Some("committed") if !crashed => return Commit::Kept,
                    // The old backend is still busy with it.
                    Some("in progress") => {}
                    _ => return Commit::Unknown(error),
                },
                Err(failure) if failure.is_passing() => crashed = true,
                Err(_) => return Commit::Unknown(error),
            }
            if Instant::now() >= end {
                return Commit::Unknown(error);
            }
            pause.pause(delay);
            delay = (delay * 2).min(LONGEST_DELAY);
        }
    }
}

impl writer::Connection for Postgres {
    fn begin_write(&self) -> Result<Rc<dyn Backend>, StoreError> {
        self.begin(&self.target.begin_alone())
    }

    fn begin_read(&self) -> Result<Rc<dyn Backend>, StoreError> {
        self.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    }

    fn is_open(&self) -> bool {
        self.session.borrow().as_ref().is_some_and(|session| !session.is_broken())
    }

    fn announce(&self, signals: &[Signal]) -> Result<(), StoreError> {
        let session = self.session()?;
        for payload in notice::payloads(&self.target.process, signals) {
            session
                .query("SELECT pg_notify(:channel, :payload)", &[("channel", &self.target.channel()), ("payload", &payload)])?;
        }
        Ok(())
    }

    fn commit(&self) -> Commit {
        let xid = self.transaction.take();
        let Some(session) = self.session.borrow().as_ref().map(Rc::clone) else {
            return Commit::Undone(StoreError::unavailable("the connection was lost before the commit"));
        };
        // A transaction that had failed would "commit" with success and keep nothing; the first statement fails in it.
        let Err(error) = session.raw("SELECT 1; COMMIT") else { return Commit::Kept };
        let answered = error.as_db_error().is_some() && !session::ends_connection(&error);
        let crashed = error.code().is_some_and(|code| code.code() == "57P02");
        let error = sorted(error, "COMMIT");
        match xid {
            // The server is there and says no.
            _ if answered => {
                self.abandon(&session);
                Commit::Undone(error)
            }
            Some(xid) if xid.bytes().all(|byte| byte.is_ascii_digit()) => self.outcome(&xid, error, crashed),
            _ => Commit::Unknown(error),
        }
    }

    fn rollback(&self) {
        self.transaction.take();
        let session = self.session.borrow().as_ref().map(Rc::clone);
        if let Some(session) = session {
            self.abandon(&session);
        }
    }
}

impl Opening {
    /// Opens a schema of a PostgreSQL database.
    pub(super) async fn postgres(
        mut self,
        url: &str,
        schema: &str,
        writes: mpsc::Sender<Command>,
        queue: mpsc::Receiver<Command>,
    ) -> Result<Store, StoreError> {
        let target = Arc::new(Target::parse(url, schema)?);
        let (config, clock, bell) = (self.config.clone(), self.clock.clone(), self.bell.0.clone());
        let at_writer = Arc::clone(&target);
        self.writer(queue, move || {
            let connection = Postgres::connect(&at_writer, Role::Writer, bell)?;
            migrate(&connection, &config, &clock)?;
            Ok(Box::new(connection))
        })
        .await?;
        let (reads, read_queue) = mpsc::channel(super::open::QUEUE);
        let (at_reader, bell) = (Arc::clone(&target), self.bell.0.clone());
        self.readers(read_queue, POSTGRES_READERS, move || {
            Ok(Box::new(Postgres::connect(&at_reader, Role::Reader, bell.clone())?))
        })
        .await?;
        let (signals, bell) = (self.signals.clone(), self.bell.0.clone());
        let listener = start("beepgrid-listen", move |ready| listener::run(&target, &signals, &bell, ready)).await?;
        self.threads.others.push(listener);
        let blobs = self.blobs(None)?;
        Ok(self.finish(writes, reads, blobs))
    }
}

fn migrate(connection: &Postgres, config: &StoreConfig, clock: &Clock) -> Result<(), StoreError> {
    let session = connection.session()?;
    Target::check_version(&session)?;
    if config.migrate {
        connection.target.create_schema(&session)?;
    }
    let runner = Runner {
        backend: &*session,
        begin: &connection.target.begin_alone(),
        backup: &|_| Ok(()),
        steps: config.migrations,
        now: clock.now(),
    };
    runner.run(config.migrate)
}
