//! Tables of figures, and what is expected of them.
//!
//! Owns how both are shown. It doesn't know what the figures are of.

use serde_json::{Map, Value, json};

/// What is in one place of a table.
#[derive(Clone, Debug)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A figure.
    Number(f64),
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Cell {
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) if number.abs() < 10.0 && number.fract() != 0.0 => {
                format!("{number:.3}")
            }
            Self::Number(number) if number.abs() < 100.0 && number.fract() != 0.0 => {
                format!("{number:.1}")
            }
            Self::Number(number) => grouped(number.round() as i64),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Number(number) => json!(number),
        }
    }
}

/// Digits by threes.
fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    if number < 0 { format!("-{shown}") } else { shown }
}

/// A ratio that has a bound.
#[derive(Clone, Debug)]
struct Check {
    what: String,
    found: f64,
    most: f64,
}

impl Check {
    /// Whatever isn't a number doesn't hold.
    fn holds(&self) -> bool {
        self.found <= self.most
    }
}

/// The figures of one part.
#[derive(Debug)]
pub struct Table {
    name: &'static str,
    /// Why they grow as they do.
    slope: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    checks: Vec<Check>,
}

impl Table {
    /// An empty one.
    pub fn new(name: &'static str, slope: &'static str, columns: &[&'static str]) -> Self {
        Self { name, slope, columns: columns.to_vec(), rows: Vec::new(), checks: Vec::new() }
    }

    /// Adds a row, of as many places as there are columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Expects a figure to be so much at most.
    pub fn at_most(&mut self, what: impl Into<String>, found: f64, most: f64) {
        self.checks.push(Check { what: what.into(), found, most });
    }

    /// In Markdown.
    pub fn print(&self) {
        let line = |cells: Vec<String>| println!("| {} |", cells.join(" | "));
        println!("### {}\n\n{}\n", self.name, self.slope);
        line(self.columns.iter().map(|column| (*column).to_owned()).collect());
        line(vec!["---".to_owned(); self.columns.len()]);
        self.rows.iter().for_each(|row| line(row.iter().map(Cell::shown).collect()));
        println!();
        for Check { what, found, most } in &self.checks {
            println!("- {what}: {found:.3}, expected {most:.3} at most");
        }
        println!();
    }

    /// All of it as one value: rows by their columns.
    pub fn json(&self) -> Value {
        let row = |cells: &Vec<Cell>| -> Map<String, Value> {
            let named = self.columns.iter().zip(cells);
            named.map(|(column, cell)| ((*column).to_owned(), cell.json())).collect()
        };
        let check = |Check { what, found, most }: &Check| json!({ "what": what, "found": found, "most": most });
        json!({
            "part": self.name,
            "slope": self.slope,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "checks": self.checks.iter().map(check).collect::<Vec<_>>(),
        })
    }

    /// What isn't as it is expected, in words.
    pub fn missed(&self) -> impl Iterator<Item = String> {
        self.checks.iter().filter(|check| !check.holds()).map(|check| {
            let Check { what, found, most } = check;
            format!("{}: {what}: {found:.3}, and not at most {most:.3}", self.name)
        })
    }
}
