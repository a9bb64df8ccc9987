//! One connection to PostgreSQL: statements, values and errors.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;

use ::postgres::error::{DbError, Severity};
use ::postgres::types::private::BytesMut;
use ::postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use ::postgres::{Client, SimpleQueryMessage};

use crate::store::sql::{self, Dialect};
use crate::store::tx::{Backend, Params};
use crate::store::{Row, StoreError, Value};

/// A connection and what it has prepared. It must not leave the thread that made it.
pub(super) struct Session {
    client: RefCell<Client>,
    statements: RefCell<HashMap<(usize, usize), Rc<Known>>>,
    broken: Cell<bool>,
}

struct Known {
    statement: sql::Statement,
    prepared: ::postgres::Statement,
    columns: Arc<[String]>,
}

impl Session {
    pub(super) fn new(client: Client) -> Self {
        Self { client: RefCell::new(client), statements: RefCell::default(), broken: Cell::new(false) }
    }

    /// Whether the connection, and with it the transaction, is gone.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// Runs statements and returns the named column of the last one's first row, as text.
    pub(super) fn simple(&self, sql: &str, column: &str) -> Result<Option<String>, StoreError> {
        let answer = self.client.borrow_mut().simple_query(sql).map_err(|error| self.sorted(error, sql))?;
        Ok(answer.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.try_get(column).ok().flatten().map(str::to_owned),
            _ => None,
        }))
    }

    /// Runs statements whose failure the caller sorts out by itself.
    pub(super) fn raw(&self, sql: &str) -> Result<(), ::postgres::Error> {
        let result = self.client.borrow_mut().batch_execute(sql);
        if result.as_ref().is_err_and(ends_connection) {
            self.broken.set(true);
        }
        result
    }

    fn known(&self, sql: &'static str) -> Result<Rc<Known>, StoreError> {
        if let Some(known) = self.statements.borrow().get(&sql::identity(sql)) {
            return Ok(Rc::clone(known));
        }
        let statement = sql::translate(sql, Dialect::Postgres)?;
        let prepared = self.client.borrow_mut().prepare(&statement.text).map_err(|error| self.sorted(error, sql))?;
        let columns = prepared.columns().iter().map(|column| column.name().to_owned()).collect();
        let known = Rc::new(Known { statement, prepared, columns });
        self.statements.borrow_mut().insert(sql::identity(sql), Rc::clone(&known));
        Ok(known)
    }

    fn sorted(&self, error: ::postgres::Error, sql: &str) -> StoreError {
        if ends_connection(&error) {
            self.broken.set(true);
        }
        // A newer release may have changed a table under a prepared statement.
        if error.code().is_some_and(|code| code.code() == "0A000") {
            self.statements.borrow_mut().clear();
        }
        sorted(error, sql)
    }
}

impl Backend for Session {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn query(&self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        let known = self.known(sql)?;
        let values = sql::arrange(sql, &known.statement, params)?;
        let bound: Vec<Bound<'_>> = values.iter().map(Bound).collect();
        let bound: Vec<&(dyn ToSql + Sync)> = bound.iter().map(|value| value as _).collect();
        let rows = self.client.borrow_mut().query(&known.prepared, &bound).map_err(|error| self.sorted(error, sql))?;
        let rows = rows.iter().map(|row| {
            let values = (0..known.columns.len()).map(|index| value(sql, row, index));
            Ok(Row::new(Arc::clone(&known.columns), values.collect::<Result<_, _>>()?))
        });
        rows.collect()
    }

    fn execute(&self, sql: &'static str, params: Params<'_>) -> Result<u64, StoreError> {
        let known = self.known(sql)?;
        let values = sql::arrange(sql, &known.statement, params)?;
        let bound: Vec<Bound<'_>> = values.iter().map(Bound).collect();
        let bound: Vec<&(dyn ToSql + Sync)> = bound.iter().map(|value| value as _).collect();
        self.client.borrow_mut().execute(&known.prepared, &bound).map_err(|error| self.sorted(error, sql))
    }

    fn script(&self, sql: &str) -> Result<(), StoreError> {
        self.raw(sql).map_err(|error| sorted(error, sql))
    }
}

/// A value that fits itself to the type the server expects.
#[derive(Debug)]
struct Bound<'a>(&'a Value);

/// A value of another type than the statement wants: a fault of this program, not of the connection.
#[derive(Debug, thiserror::Error)]
#[error("a parameter is {given}, the statement wants {wanted}")]
struct Mismatch {
    given: &'static str,
    wanted: Type,
}

impl ToSql for Bound<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let mismatch = || Box::new(Mismatch { given: self.0.kind(), wanted: ty.clone() });
        match (self.0, ty) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Bool(bool), &Type::BOOL) => bool.to_sql(ty, out),
            (Value::Int(int), &Type::INT8) => int.to_sql(ty, out),
            (Value::Int(int), &Type::INT4) => i32::try_from(*int).map_err(|_| mismatch())?.to_sql(ty, out),
            (Value::Text(text), &(Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN)) => {
                text.to_sql(ty, out)
            }
            (Value::Blob(blob), &Type::BYTEA) => blob.to_sql(ty, out),
            _ => Err(mismatch()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn value(sql: &str, row: &::postgres::Row, index: usize) -> Result<Value, StoreError> {
    let refused = |source: Box<dyn Error + Send + Sync>| StoreError::Statement { sql: sql.to_owned(), source };
    let ty = row.columns().get(index).map_or(Type::UNKNOWN, |column| column.type_().clone());
    let found = match ty {
        Type::BOOL => row.try_get::<_, Option<bool>>(index).map(|value| value.map(Value::Bool)),
        Type::INT8 => row.try_get::<_, Option<i64>>(index).map(|value| value.map(Value::Int)),
        Type::INT4 => row.try_get::<_, Option<i32>>(index).map(|value| value.map(|int| Value::Int(int.into()))),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN => {
            row.try_get::<_, Option<String>>(index).map(|value| value.map(Value::Text))
        }
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(index).map(|value| value.map(Value::Blob)),
        Type::VOID => Ok(None),
        other => return Err(refused(format!("a column is {other}, which SQLite does not have").into())),
    };
    Ok(found.map_err(|error| refused(error.into()))?.unwrap_or(Value::Null))
}

/// Whether the server ended the connection, or the network did.
pub(super) fn ends_connection(error: &::postgres::Error) -> bool {
    match error.as_db_error() {
        Some(error) => {
            matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
                || error.code().code().starts_with("08")
                || matches!(error.code().code(), "57P01" | "57P02" | "57P03" | "25P03")
        }
        // Everything else that is no answer of the server leaves the connection in an unknown state.
        None => !is_mismatch(error),
    }
}

fn is_mismatch(error: &::postgres::Error) -> bool {
    error.source().is_some_and(<dyn Error>::is::<Mismatch>)
}

pub(super) fn sorted(error: ::postgres::Error, sql: &str) -> StoreError {
    let code = error.code().map_or("", ::postgres::error::SqlState::code);
    if code == "25P02" {
        StoreError::Aborted
    } else if code.starts_with("23") {
        StoreError::Constraint(error.into())
    } else if ends_connection(&error) || error.as_db_error().is_some_and(is_passing) {
        StoreError::Unavailable(error.into())
    } else {
        StoreError::Statement { sql: sql.to_owned(), source: error.into() }
    }
}

/// Whether the same statement may work a little later: conflicts, resources, operators, a standby that is being promoted.
fn is_passing(error: &DbError) -> bool {
    let code = error.code().code();
    matches!(code, "40001" | "40P01" | "55P03" | "25006") || ["53", "57", "58"].iter().any(|class| code.starts_with(class))
}
