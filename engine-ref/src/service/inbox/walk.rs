//! The ordered lane as one instance may be given it: lines side by side, each in its order, and of all that are free the oldest
//! first.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashSet, VecDeque};

use beepgrid::ConversationId;

use crate::service::Refusal;
use crate::store::ReadTx;
use crate::store::deliveries::{DeliveryRow, Kinds, Place, Worker, line};

/// Goes through what the worker may be given, row by row. Whoever leases a row before asking for the next gets them as one lease
/// may have them; whoever does not sees what it would be.
#[derive(Debug)]
pub(super) struct Walk<'w> {
    worker: Worker<'w>,
    kinds: Kinds,
    page: i64,
    /// Lines that were not looked into, by their first delivery.
    fronts: VecDeque<DeliveryRow>,
    /// Where the next page of `fronts` begins; `None` after the last.
    after: Option<Place>,
    /// Ending a first delivery makes the next one a front: no line is gone along twice.
    seen: HashSet<ConversationId>,
    lines: BinaryHeap<Reverse<Line>>,
    /// The line of the row that was given last: it goes on when somebody asks again.
    last: Option<Rest>,
}

/// A line and the row in it that comes next.
#[derive(Debug)]
struct Line {
    next: DeliveryRow,
    rest: Rest,
}

/// What follows in a line.
#[derive(Debug)]
struct Rest {
    conversation: ConversationId,
    rows: VecDeque<DeliveryRow>,
    /// Where the next page of `rows` begins; `None` when nothing follows.
    after: Option<Place>,
}

impl<'w> Walk<'w> {
    /// From the beginning; `page` is how many rows the caller expects to use.
    pub(super) fn new(worker: &Worker<'w>, kinds: Kinds, page: i64) -> Self {
        Self {
            worker: *worker,
            kinds,
            page: page.max(1),
            fronts: VecDeque::new(),
            after: Some(Place::START),
            seen: HashSet::new(),
            lines: BinaryHeap::new(),
            last: None,
        }
    }

    /// The oldest row that the worker may be given besides those that this walk has given.
    pub(super) fn next(&mut self, tx: &ReadTx<'_>) -> Result<Option<DeliveryRow>, Refusal> {
        if let Some(rest) = self.last.take() {
            self.go_on(tx, rest)?;
        }
        while let Some(front) = self.front_before_lines(tx)? {
            self.open(tx, front)?;
        }
        Ok(self.lines.pop().map(|Reverse(Line { next, rest })| {
            self.last = Some(rest);
            next
        }))
    }

    /// The next front, if it stands before everything that is known to be free: there may be something before that in its line.
    fn front_before_lines(&mut self, tx: &ReadTx<'_>) -> Result<Option<DeliveryRow>, Refusal> {
        if !self.kinds.messages && !self.kinds.requests {
            return Ok(None);
        }
        if self.fronts.is_empty()
            && let Some(after) = self.after.take()
        {
            self.fronts = line::fronts(tx, self.worker.agent, &after, self.page)?.into();
            self.after = self.fronts.back().filter(|_| is_full(&self.fronts, self.page)).map(DeliveryRow::place);
        }
        let free = self.lines.peek().map(|Reverse(line)| line.next.place());
        let is_before = self.fronts.front().is_some_and(|front| free.is_none_or(|free| front.place() < free));
        Ok(if is_before { self.fronts.pop_front() } else { None })
    }

    fn open(&mut self, tx: &ReadTx<'_>, front: DeliveryRow) -> Result<(), Refusal> {
        if !self.seen.insert(front.conversation_id.clone()) {
            return Ok(());
        }
        let rest = Rest { conversation: front.conversation_id.clone(), rows: VecDeque::new(), after: Some(front.place()) };
        if self.kinds.has(&front.kind) {
            self.lines.push(Reverse(Line { next: front, rest }));
            return Ok(());
        }
        // Of a kind that the worker does not want now.
        self.go_on(tx, rest)
    }

    /// Finds the next row of a line, up to one that is held back and holds back what follows.
    fn go_on(&mut self, tx: &ReadTx<'_>, mut rest: Rest) -> Result<(), Refusal> {
        if rest.rows.is_empty()
            && let Some(after) = rest.after.take()
        {
            rest.rows = line::along(tx, self.worker.agent, (&rest.conversation, self.kinds), &after, self.page)?.into();
            rest.after = rest.rows.back().filter(|_| is_full(&rest.rows, self.page)).map(DeliveryRow::place);
        }
        if let Some(next) = rest.rows.pop_front()
            && next.due_at <= tx.now()
        {
            self.lines.push(Reverse(Line { next, rest }));
        }
        Ok(())
    }
}

fn is_full(rows: &VecDeque<DeliveryRow>, page: i64) -> bool {
    i64::try_from(rows.len()).is_ok_and(|rows| rows >= page)
}

impl Ord for Line {
    fn cmp(&self, other: &Self) -> Ordering {
        self.next.place().cmp(&other.next.place())
    }
}

impl PartialOrd for Line {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Line {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Line {}
