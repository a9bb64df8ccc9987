//! Tables for people at a terminal.

use std::fmt;

use serde_json::Value;

use super::is_hostile;

/// The members of a record that say most, in the order of columns.
const TELLING: &[&str] = &[
    "id",
    "kind",
    "name",
    "title",
    "file_name",
    "state",
    "outcome",
    "version",
    "presence",
    "external_id",
    "sender_id",
    "recipient_id",
    "agent_id",
    "principal_id",
    "body",
    "size",
    "attempt",
    "reason",
    "held",
    "attempts",
    "updated_at",
    "created_at",
    "at",
];
/// More do not fit beside each other.
const MAX_COLUMNS: usize = 7;
/// The longest cell that is not an id, in characters.
const MAX_CELL: usize = 40;
/// The longest one in the last column, which pushes nothing away.
const MAX_LAST: usize = 160;

/// Rows under a heading, with notes below.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new<const N: usize>(heading: [&str; N]) -> Self {
        Self { heading: heading.map(str::to_owned).to_vec(), ..Self::default() }
    }

    /// The most telling members of JSON records.
    pub(crate) fn of_records(records: &[Value]) -> Self {
        let used = |name: &&&str| records.iter().any(|record| record.get(**name).is_some_and(|value| !cell(value).is_empty()));
        let columns: Vec<&str> = TELLING.iter().filter(used).take(MAX_COLUMNS).copied().collect();
        let rows =
            records.iter().map(|record| columns.iter().map(|name| record.get(*name).map(cell).unwrap_or_default()).collect());
        Self { heading: columns.iter().map(|name| (*name).to_owned()).collect(), rows: rows.collect(), notes: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(mut self, cells: &[String; N]) -> Self {
        self.rows.push(cells.to_vec());
        self
    }

    /// Adds a line below.
    pub(crate) fn note(mut self, note: String) -> Self {
        self.notes.push(note);
        self
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Object(_) | Value::Array(_) => String::new(),
        other => other.to_string(),
    }
}

/// One line, without anything that a terminal obeys, cut short unless it is one word.
fn fitted(text: &str, longest: usize) -> String {
    let clean = harmless(text);
    if clean.chars().count() <= longest || !clean.contains(' ') {
        return clean;
    }
    clean.chars().take(longest - 1).chain(['…']).collect()
}

fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_hostile(c) { ' ' } else { c }).collect()
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<Vec<String>> = std::iter::once(self.heading.iter().map(|name| name.to_uppercase()).collect())
            .chain(self.rows.iter().map(|row| {
                let longest = |column| if column + 1 == row.len() { MAX_LAST } else { MAX_CELL };
                row.iter().enumerate().map(|(column, cell)| fitted(cell, longest(column))).collect()
            }))
            .collect();
        let widths: Vec<usize> = (0..self.heading.len())
            .map(|column| lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
            .collect();
        if self.rows.is_empty() {
            writeln!(f, "Nothing.")?;
        } else {
            for line in &lines {
                let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
                writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
            }
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{}", harmless(note)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_their_telling_columns() {
        let records = [
            serde_json::json!({"id": "agt_1", "name": "Builder\u{1b}[2J 7", "metadata": {}}),
            serde_json::json!({"id": "agt_22"}),
        ];
        let text = Table::of_records(&records).note("more".to_owned()).to_string();
        assert_eq!(text, "ID      NAME\nagt_1   Builder [2J 7\nagt_22\nmore\n");
        assert_eq!(Table::of_records(&[]).to_string(), "Nothing.\n");
    }

    #[test]
    fn long_texts_are_cut_and_ids_are_not() {
        let id = "x".repeat(60);
        assert_eq!(fitted(&id, MAX_CELL), id);
        assert_eq!(fitted(&"ab ".repeat(40), MAX_CELL).chars().count(), MAX_CELL);
    }
}
