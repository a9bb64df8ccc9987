//! Pages one after the other, as a stream of what is on them.
//!
//! Only a missing cursor ends a list: a page may be empty and have a next one. Cursors go back as they came.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};

use crate::call::Call;
use crate::error::{Cause, Error};
use crate::model::QueryPage;

/// Makes the call for the page with a cursor, or for the first.
type Fetch<T> = Box<dyn Fn(Option<&str>) -> Call<QueryPage<T>> + Send + Sync>;

/// The records of all pages of a list; made by [`Client::query_stream`](crate::Client::query_stream) and
/// [`Client::directory_stream`](crate::Client::directory_stream).
///
/// Fetches a page when it is polled and the one before is used up. An error is the last item, after the records that came before it:
/// a list that was cut short never looks complete. [`ErrorKind::RepeatedCursor`](crate::ErrorKind::RepeatedCursor) when a page points
/// back to itself. Dropping it ends the walk.
#[must_use = "nothing is fetched until it is polled"]
pub struct PageStream<T> {
    fetch: Fetch<T>,
    operation: &'static str,
    items: vec::IntoIter<T>,
    /// The page on its way.
    pending: Option<BoxFuture<'static, Result<QueryPage<T>, Error>>>,
    next: Next,
}

/// What comes when the records at hand are used up.
enum Next {
    /// The page with this cursor; the first one may have none.
    Page(Option<String>),
    Error(Error),
    End,
}

impl<T: Send + 'static> PageStream<T> {
    /// A walk from `cursor` on, or from the beginning.
    pub(crate) fn new(
        operation: &'static str,
        cursor: Option<String>,
        fetch: impl Fn(Option<&str>) -> Call<QueryPage<T>> + Send + Sync + 'static,
    ) -> Self {
        Self { fetch: Box::new(fetch), operation, items: Vec::new().into_iter(), pending: None, next: Next::Page(cursor) }
    }

    /// The next record. `None` at the end of the list, and after an error.
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        StreamExt::next(self).await
    }

    /// All records that are left.
    ///
    /// # Errors
    /// The first failed page; the records before it are lost, so walk with [`next`](Self::next) where they count.
    pub async fn all(mut self) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        while let Some(item) = self.next().await {
            items.push(item?);
        }
        Ok(items)
    }

    fn take(&mut self, page: QueryPage<T>) {
        let asked = match &self.next {
            Next::Page(cursor) => cursor.as_deref(),
            Next::Error(_) | Next::End => None,
        };
        self.next = match page.next_cursor {
            None => Next::End,
            Some(next) if Some(next.as_str()) == asked => {
                Next::Error(Error::new(self.operation, None, false, Cause::RepeatedCursor))
            }
            Some(next) => Next::Page(Some(next)),
        };
        self.items = page.items.into_iter();
    }
}

// Nothing in it is pinned in place: records are moved out, and the page on its way stands in a box.
impl<T> Unpin for PageStream<T> {}

impl<T: Send + 'static> Stream for PageStream<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(item) = this.items.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            let Next::Page(cursor) = &this.next else {
                return Poll::Ready(match std::mem::replace(&mut this.next, Next::End) {
                    Next::Error(error) => Some(Err(error)),
                    Next::Page(_) | Next::End => None,
                });
            };
            let fetch = &this.fetch;
            let pending = this.pending.get_or_insert_with(|| fetch(cursor.as_deref()).into_future());
            let fetched = ready!(pending.as_mut().poll(cx));
            this.pending = None;
            match fetched {
                Ok(page) => this.take(page),
                Err(error) => this.next = Next::Error(error),
            }
        }
    }
}

impl<T> fmt::Debug for PageStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageStream")
            .field("operation", &self.operation)
            .field("at_hand", &self.items.len())
            .finish_non_exhaustive()
    }
}
