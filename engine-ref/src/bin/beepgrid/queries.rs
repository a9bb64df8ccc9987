//! `beepgrid list`.

use beepgrid::{Client, QueryInput};
use clap::Args;

use crate::failure::Refused;
use crate::job::CallArguments;
use crate::render::{Output, Table, TableArguments};

/// The arguments of `list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  beepgrid list --search Builder agents\n  beepgrid list requests --filter state=open\n\n\
                        Go on with --cursor while the answer has a next_cursor, with everything else unchanged.")]
pub(crate) struct ListArguments {
    /// people, agents, services, groups, roles, connections, destinations, credentials, instances, requests, conversations,
    /// messages, answers, executions, deliveries, delivery_attempts, attachments or overseer_plans
    #[arg(value_name = "COLLECTION")]
    collection: String,
    /// At most this many records, 1 to 200
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=200))]
    limit: i64,
    /// The next_cursor of the page before
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Words to look for in names, titles, bodies and file names
    #[arg(long, value_name = "WORDS")]
    search: Option<String>,
    /// An exact filter of the collection, such as state=open; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    filter: Vec<String>,
    #[command(flatten)]
    table: TableArguments,
    #[command(flatten)]
    call: CallArguments,
}

/// Reads one page of a collection.
pub(crate) async fn list(arguments: ListArguments) -> anyhow::Result<Output> {
    let client = Client::from_env()?;
    let mut query = QueryInput::new(arguments.collection).limit(arguments.limit).search(arguments.search.unwrap_or_default());
    for filter in &arguments.filter {
        let wrong = || Refused::input("usage", "--filter takes NAME=VALUE");
        let (name, value) = filter.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
        query = query.filter(name, value);
    }
    if let Some(cursor) = arguments.cursor {
        query = query.cursor(cursor);
    }
    let page = client.query(query).timeout(arguments.call.timeout).await?;
    let mut table = Table::of_records(&page.items);
    if let Some(cursor) = &page.next_cursor {
        table = table.note(format!("There is more: --cursor {cursor}"));
    }
    Output::table(&page, &table, &arguments.table)
}
