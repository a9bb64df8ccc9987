//! `beepgrid migrate`.

use beepgrid::ExposeSecret;
use beepgrid_engine_ref::config::{self, DatabaseUrl, Flags, Setting};
use beepgrid_engine_ref::{Engine, EngineBuilder};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

use crate::render::Output;

/// Where the database is.
#[derive(Debug, Args)]
pub(crate) struct DatabaseArguments {
    /// Read settings from a TOML file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// sqlite:PATH, or postgres://… without a password [default: BEEPGRID_DATABASE_URL, or sqlite:.local/beepgrid.db]
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Schema in a PostgreSQL database [default: BEEPGRID_SCHEMA, or beepgrid]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,
}

/// The arguments of `migrate`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  BEEPGRID_DATABASE_URL=postgres://… beepgrid migrate")]
pub(crate) struct MigrateArguments {
    #[command(flatten)]
    database: DatabaseArguments,
}

impl DatabaseArguments {
    /// The database that is meant, checked.
    pub(crate) fn resolve(self) -> anyhow::Result<DatabaseUrl> {
        let given = [(Setting::DatabaseUrl, self.database_url), (Setting::Schema, self.schema)];
        let settings = given.into_iter().filter_map(|(setting, value)| Some((setting, value?))).collect();
        let flags = Flags { config: self.config, settings, ..Flags::default() };
        Ok(config::database(flags, |name| std::env::var_os(name))?)
    }
}

/// An engine on this database.
pub(crate) fn on(builder: EngineBuilder, database: &DatabaseUrl) -> EngineBuilder {
    match database {
        DatabaseUrl::Sqlite(path) => builder.sqlite(path),
        DatabaseUrl::Postgres { url, schema } => postgres(builder, url.expose_secret(), schema),
    }
}

#[cfg(feature = "postgres")]
fn postgres(builder: EngineBuilder, url: &str, schema: &str) -> EngineBuilder {
    builder.postgres(url, schema)
}

/// Never reached: the settings refuse such a URL in this build.
#[cfg(not(feature = "postgres"))]
fn postgres(builder: EngineBuilder, _url: &str, _schema: &str) -> EngineBuilder {
    builder
}

/// Brings the schema up to date; nothing happens to one that is.
pub(crate) async fn migrate(arguments: MigrateArguments) -> anyhow::Result<Output> {
    let database = arguments.database.resolve()?;
    let version = on(Engine::builder(), &database).prepare_database().await?;
    let (kind, schema) = match &database {
        DatabaseUrl::Sqlite(_) => ("sqlite", None),
        DatabaseUrl::Postgres { schema, .. } => ("postgres", Some(schema)),
    };
    Ok(Output::Json(json!({ "database": kind, "schema": schema, "schema_version": version })))
}
