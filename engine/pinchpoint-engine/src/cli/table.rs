//! Columns that line up.

use std::fmt::Write as _;

/// Whether text may be coloured (ANSI escape sequences, ECMA-48).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint(pub bool);

impl Paint {
    /// For what a person reads on a terminal, unless `NO_COLOR` is set
    /// (<https://no-color.org>).
    pub(super) fn of(terminal: bool) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self(terminal && !refused)
    }

    /// `text` as a heading.
    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// `text` that deserves a look.
    pub(super) fn warn(self, text: &str) -> String {
        self.with("33", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Rows of cells, the first one the heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    /// Leading columns that begin, rather than end, at the same place.
    left: usize,
}

impl Table {
    /// A table with one left-aligned column under this heading.
    pub(super) fn new(heading: &[&str]) -> Self {
        Self {
            rows: vec![heading.iter().map(|&cell| cell.to_owned()).collect()],
            left: 1,
        }
    }

    /// Aligns the first `columns` to the left.
    pub(super) fn left(mut self, columns: usize) -> Self {
        self.left = columns;
        self
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether there is nothing under the heading.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// The table as lines.
    pub(super) fn render(&self, paint: Paint) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (k, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let (width, gap) = (widths[column], if column == 0 { "" } else { "  " });
                // Writing to a string cannot fail.
                let _ = if column < self.left {
                    write!(line, "{gap}{cell:<width$}")
                } else {
                    write!(line, "{gap}{cell:>width$}")
                };
            }
            let line = line.trim_end();
            text.push_str(&if k == 0 {
                paint.bold(line)
            } else {
                line.to_owned()
            });
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_and_numbers_end_together() {
        let mut table = Table::new(&["stream", "sent"]);
        table.row(["a".to_owned(), "1,000".to_owned()]);
        table.row(["longer".to_owned(), "7".to_owned()]);
        let expected = "stream   sent\na       1,000\nlonger      7\n";
        assert_eq!(table.render(Paint(false)), expected);
    }

    #[test]
    fn only_a_heading_is_painted_and_only_if_allowed() {
        let mut table = Table::new(&["a"]);
        table.row(["b".to_owned()]);
        assert_eq!(table.render(Paint(true)), "\x1b[1ma\x1b[0m\nb\n");
    }
}
