//! One SQL text for both databases: named parameters become numbers, tokens become what a dialect calls them.
//!
//! `:name` is a parameter and `{token}` a token, except inside quotes, comments and after a colon (`::`).

use super::tx::Params;
use super::{StoreError, Value};

/// A database's way to say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only PostgreSQL makes one"))]
    Postgres,
}

impl Dialect {
    /// What a token stands for; unknown tokens are faults of this program.
    fn token(self, name: &str) -> Option<&'static str> {
        Some(match (name, self) {
            // Keys and sort columns are compared byte by byte, not by the server's locale.
            ("key", Self::Sqlite) => "",
            ("key", Self::Postgres) => "COLLATE \"C\"",
            ("blob", Self::Sqlite) => "BLOB",
            ("blob", Self::Postgres) => "BYTEA",
            _ => return None,
        })
    }

    fn placeholder(self) -> char {
        match self {
            Self::Sqlite => '?',
            Self::Postgres => '$',
        }
    }
}

/// A statement in a dialect: its text, and which parameter stands at each number.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) parameters: Vec<String>,
}

/// Which static text this is: its place in the program, so that a lookup costs no comparison of text.
pub(super) fn identity(sql: &'static str) -> (usize, usize) {
    (sql.as_ptr().addr(), sql.len())
}

/// Puts a statement into a dialect.
pub(super) fn translate(sql: &'static str, dialect: Dialect) -> Result<Statement, StoreError> {
    let mut parameters: Vec<String> = Vec::new();
    let text = rewrite(sql, dialect, |name, text| {
        let number = parameters.iter().position(|known| known == name).unwrap_or_else(|| {
            parameters.push(name.to_owned());
            parameters.len() - 1
        });
        text.push(dialect.placeholder());
        text.push_str(&(number + 1).to_string());
    })?;
    Ok(Statement { text, parameters })
}

/// Puts named values in the order of a statement's numbers. Each name of either side must be on the other.
pub(super) fn arrange(sql: &'static str, statement: &Statement, params: Params<'_>) -> Result<Vec<Value>, StoreError> {
    let fault = |name: &str, problem| StoreError::Parameter { name: name.to_owned(), sql, problem };
    if let Some((name, _)) = params.iter().find(|(name, _)| !statement.parameters.iter().any(|known| known == name)) {
        return Err(fault(name, "the statement has no such parameter"));
    }
    let value = |name: &String| {
        let given = params.iter().find(|(given, _)| given == name);
        given.map(|(_, value)| value.to_value()).ok_or_else(|| fault(name, "no value was given"))
    };
    statement.parameters.iter().map(value).collect()
}

/// Puts a script of several statements into a dialect; scripts have no parameters.
pub(super) fn translate_script(sql: &'static str, dialect: Dialect) -> Result<String, StoreError> {
    rewrite(sql, dialect, |name, text| {
        text.push(':');
        text.push_str(name);
    })
}

fn rewrite(sql: &'static str, dialect: Dialect, mut parameter: impl FnMut(&str, &mut String)) -> Result<String, StoreError> {
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '\'' | '"' => quoted(rest, first),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            ':' if rest.starts_with("::") => 2,
            ':' => {
                let name = word(rest.get(1..).unwrap_or_default());
                if !name.is_empty() {
                    parameter(name, &mut text);
                    rest = rest.get(1 + name.len()..).unwrap_or_default();
                    continue;
                }
                1
            }
            '{' => {
                let name = word(rest.get(1..).unwrap_or_default());
                let meaning =
                    dialect.token(name).filter(|_| rest.get(1 + name.len()..).is_some_and(|rest| rest.starts_with('}')));
                let Some(meaning) = meaning else {
                    return Err(StoreError::Parameter { name: name.to_owned(), sql, problem: "unknown token" });
                };
                text.push_str(meaning);
                rest = rest.get(2 + name.len()..).unwrap_or_default();
                continue;
            }
            other => other.len_utf8(),
        };
        let (done, left) = rest.split_at_checked(taken).unwrap_or((rest, ""));
        text.push_str(done);
        rest = left;
    }
    Ok(text)
}

/// The length of a quoted piece at the start of `text`; a doubled quote inside starts another piece, which is just as well.
fn quoted(text: &str, quote: char) -> usize {
    text.get(1..).and_then(|inner| inner.find(quote)).map_or(text.len(), |end| end + 2)
}

/// The name at the start of `text`.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    if text.starts_with(|c: char| c.is_ascii_digit()) { "" } else { text.get(..end).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(sql: &'static str) -> (Statement, Statement) {
        (translate(sql, Dialect::Sqlite).unwrap(), translate(sql, Dialect::Postgres).unwrap())
    }

    #[test]
    fn named_parameters_get_one_number_each() {
        let (sqlite, postgres) = both("SELECT a FROM t WHERE a = :a AND b > :b_2 AND (:a = c)");
        assert_eq!(sqlite.text, "SELECT a FROM t WHERE a = ?1 AND b > ?2 AND (?1 = c)");
        assert_eq!(postgres.text, "SELECT a FROM t WHERE a = $1 AND b > $2 AND ($1 = c)");
        assert_eq!(postgres.parameters, ["a", "b_2"]);
        assert_eq!(sqlite.parameters, postgres.parameters);
    }

    #[test]
    fn quotes_comments_and_casts_are_left_alone() {
        let sql = "SELECT ':no', 'it''s :no', \"a:no\", x::text -- :no {no}\n, /* :no {no} */ :yes, '{no}' , '12:30'";
        let (_, postgres) = both(sql);
        assert_eq!(postgres.parameters, ["yes"]);
        assert_eq!(postgres.text, sql.replace(":yes", "$1"));
    }

    #[test]
    fn unclosed_pieces_and_foreign_letters_end_nowhere_bad() {
        for sql in ["SELECT 'ä:no", "SELECT \"ä:no", "SELECT 1 /* :no", "SELECT 1 -- :no", "SELECT 'ä' :", "ä : ä"] {
            let (sqlite, _) = both(sql);
            assert_eq!(sqlite.text, sql);
            assert!(sqlite.parameters.is_empty());
        }
    }

    #[test]
    fn tokens_stand_for_the_dialects_words() {
        let (sqlite, postgres) = both("CREATE TABLE t (a TEXT {key} NOT NULL, b {blob})");
        assert_eq!(sqlite.text, "CREATE TABLE t (a TEXT  NOT NULL, b BLOB)");
        assert_eq!(postgres.text, "CREATE TABLE t (a TEXT COLLATE \"C\" NOT NULL, b BYTEA)");
        assert!(translate("SELECT {nothing}", Dialect::Sqlite).is_err());
        assert!(translate("SELECT {key", Dialect::Sqlite).is_err());
    }

    #[test]
    fn scripts_keep_their_colons() {
        assert_eq!(translate_script("SELECT :a, {blob}", Dialect::Postgres).unwrap(), "SELECT :a, BYTEA");
    }
}
