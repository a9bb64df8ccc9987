//! What all collections have in common.

use std::collections::BTreeMap;

use beepgrid::{QueryInput, QueryPage, Timestamp};
use serde_json::{Value, json};

use super::collections::{self, Collection};
use crate::service::actor::Actor;
use crate::service::conversations::Reader;
use crate::service::cursor::{Cursor, Key};
use crate::service::limits::{DEFAULT_PAGE, MAX_ID_CHARS, MAX_PAGE, MAX_SCAN, MAX_SEARCH_CHARS};
use crate::service::presence::Presence;
use crate::service::{Refusal, checks};
use crate::store::ReadTx;

/// Where the rows of a collection come from, and how one is shown.
pub(super) trait Source: Sized {
    /// What is looked at.
    type Row;

    /// Checks what the filters name, and chooses where to look.
    fn open(look: &Look<'_>) -> Result<Self, Refusal>;

    /// The row with this id.
    fn one(&mut self, look: &Look<'_>, id: &str) -> Result<Option<Self::Row>, Refusal>;

    /// At most `limit` rows behind a place; fewer only at the end. The place before all rows is empty.
    fn after(&mut self, look: &Look<'_>, place: &str, limit: i64) -> Result<Vec<Self::Row>, Refusal>;

    /// The place of a row in the order of the collection.
    fn place(row: &Self::Row) -> String;

    /// The row as the reader may see it, if it may and it fits all filters and the search.
    fn show(&mut self, look: &Look<'_>, row: Self::Row) -> Result<Option<Value>, Refusal>;
}

/// What the engine's parts give to a query.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) presence: Presence,
    pub(crate) cursor_key: Key,
    pub(crate) workspace: String,
}

/// A query of the right form.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    collection: &'static Collection,
    search: String,
    words: Vec<String>,
    filters: BTreeMap<String, String>,
    limit: i64,
    cursor: Option<String>,
}

impl Query {
    /// Checks the input against what its collection takes.
    pub(crate) fn new(input: QueryInput) -> Result<Self, Refusal> {
        let QueryInput { collection, search, filters, limit, cursor, .. } = input;
        let Some(collection) = collections::find(&collection) else {
            return Err(checks::one_of("collection", &collection, &collections::names()));
        };
        if search.chars().count() > MAX_SEARCH_CHARS {
            return Err(Refusal::invalid("search", format!("at most {MAX_SEARCH_CHARS} code points")));
        }
        let words: Vec<String> = search.split_whitespace().map(str::to_lowercase).collect();
        if !words.is_empty() && !collection.searchable {
            return Err(Refusal::invalid("search", format!("{} have no text to look in", collection.name)));
        }
        check_filters(collection, &filters)?;
        let limit = limit.unwrap_or(DEFAULT_PAGE);
        checks::range("limit", limit, 1, MAX_PAGE)?;
        Ok(Self { collection, search, words, filters, limit, cursor })
    }
}

fn check_filters(collection: &Collection, filters: &BTreeMap<String, String>) -> Result<(), Refusal> {
    for (name, value) in filters {
        let place = format!("filters.{name}");
        let known = collection.filters.iter().find(|filter| filter.name == name);
        let words = match known {
            Some(filter) => filter.words,
            None if name == "id" => &[],
            None => {
                let names: Vec<&str> = std::iter::once("id").chain(collection.filters.iter().map(|filter| filter.name)).collect();
                let message = format!("{} have no such filter; there are {}", collection.name, names.join(", "));
                return Err(Refusal::invalid(place, message));
            }
        };
        if !words.is_empty() && !words.contains(&value.as_str()) {
            return Err(checks::one_of(&place, value, words));
        }
        if value.is_empty() || value.chars().count() > MAX_ID_CHARS {
            return Err(Refusal::invalid(place, format!("1 to {MAX_ID_CHARS} code points")));
        }
    }
    match collection.filters.iter().find(|filter| filter.required && !filters.contains_key(filter.name)) {
        Some(missing) => Err(Refusal::invalid(format!("filters.{}", missing.name), format!("required for {}", collection.name))),
        None => Ok(()),
    }
}

/// A query, who asks it, and where it looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'q> {
    pub(super) tx: &'q ReadTx<'q>,
    pub(super) actor: &'q Actor,
    pub(super) presence: &'q Presence,
    query: &'q Query,
}

impl<'q> Look<'q> {
    pub(super) fn reader(&self) -> Reader<'q> {
        self.actor.reader()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.tx.now()
    }

    pub(super) fn collection(&self) -> &'static str {
        self.query.collection.name
    }

    /// The value of a filter, if it is set.
    pub(super) fn filter(&self, name: &str) -> Option<&'q str> {
        self.query.filters.get(name).map(String::as_str)
    }

    /// Whether a filter is not set, or is exactly this.
    pub(super) fn fits(&self, name: &str, value: &str) -> bool {
        self.filter(name).is_none_or(|wanted| wanted == value)
    }

    /// The same for a value that may be absent.
    pub(super) fn fits_opt(&self, name: &str, value: Option<&str>) -> bool {
        self.filter(name).is_none_or(|wanted| Some(wanted) == value)
    }

    /// Whether every word of the search stands somewhere in these texts, without case.
    pub(super) fn finds(&self, texts: &[&str]) -> bool {
        if self.query.words.is_empty() {
            return true;
        }
        let text = texts.iter().map(|text| text.to_lowercase()).collect::<Vec<_>>().join("\n");
        self.query.words.iter().all(|word| text.contains(word))
    }
}

/// The records of a page and where the next one begins.
#[derive(Debug, Default)]
pub(super) struct Page {
    items: Vec<Value>,
    next: Option<String>,
}

/// One page of a collection.
pub(crate) fn query(tx: &ReadTx<'_>, actor: &Actor, query: &Query, context: &Context) -> Result<QueryPage, Refusal> {
    let Query { collection, search, filters, limit, .. } = query;
    let scope = json!(["query", context.workspace, actor.id, collection.name, search, filters, limit]);
    let after = match &query.cursor {
        Some(text) => Cursor::open(text, &scope, &context.cursor_key, tx.now())?.after,
        None => String::new(),
    };
    let page = (collection.page)(&Look { tx, actor, presence: &context.presence, query }, after)?;
    let seal = |after| Cursor { after, issued_at: tx.now() }.seal(&scope, &context.cursor_key);
    Ok(QueryPage { items: page.items, next_cursor: page.next.map(seal).transpose()?, order: collection.order.to_owned() })
}

/// Walks a source until the page is full and one more is known to follow, it ends, or enough rows were looked at.
///
/// That a page has a next one tells of visible records only, as long as the bound on scanning is not reached.
pub(super) fn walk<S: Source>(look: &Look<'_>, mut after: String) -> Result<Page, Refusal> {
    let mut source = S::open(look)?;
    let mut page = Page::default();
    if let Some(id) = look.filter("id") {
        if let Some(row) = source.one(look, id)? {
            page.items.extend(source.show(look, row)?);
        }
        return Ok(page);
    }
    let wanted = usize::try_from(look.query.limit).unwrap_or(usize::MAX);
    let mut full_at = after.clone();
    let (mut scanned, mut chunk) = (0, look.query.limit.saturating_add(1));
    loop {
        let rows = source.after(look, &after, chunk)?;
        let ends = i64::try_from(rows.len()).unwrap_or(i64::MAX) < chunk;
        for row in rows {
            if scanned == MAX_SCAN {
                page.next = Some(if page.items.len() == wanted { full_at } else { after });
                return Ok(page);
            }
            scanned += 1;
            after = S::place(&row);
            let Some(item) = source.show(look, row)? else { continue };
            if page.items.len() == wanted {
                page.next = Some(full_at);
                return Ok(page);
            }
            full_at.clone_from(&after);
            page.items.push(item);
        }
        if ends {
            return Ok(page);
        }
        chunk = MAX_PAGE + 1;
    }
}

/// A record as it goes over the wire.
pub(super) fn wire<T: serde::Serialize>(item: &T) -> Result<Option<Value>, Refusal> {
    serde_json::to_value(item).map(Some).map_err(|e| Refusal::internal(format!("a record can't be written: {e}")))
}

/// The refusal of a filter that names something the reader does not see, whether it exists or not.
pub(super) fn unseen(filter: &str) -> Refusal {
    Refusal::not_found().at(&format!("filters.{filter}"))
}
