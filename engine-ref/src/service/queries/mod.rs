//! Pages of every collection, each record as its reader may see it now.
//!
//! `page` is the mechanism: form, search, cursor, the bound on scanning. A collection brings where its rows come from, and whether
//! and how one row is shown. A source narrows where it can; whether a row fits is always asked of the row itself.

mod answers;
mod attachments;
mod attempts;
mod collections;
mod connections;
mod conversations;
mod credentials;
mod deliveries;
mod destinations;
mod executions;
mod groups;
mod instances;
mod messages;
mod page;
mod plans;
mod principals;
mod requests;
mod roles;
#[cfg(test)]
mod tests;

pub(crate) use self::page::{Context, Query, query};
