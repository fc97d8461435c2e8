//! Time against the rows that are chosen among.

use anyhow::Result;
use pointsman_benches::decision::Deciding;
use pointsman_benches::selection::Selection;
use pointsman_core::policy::Catalog;

use crate::components::{self, WHOLE};
use crate::report::{Cell, Table};
use crate::timing::{Subject, in_turns};

const ROWS: [u64; 6] = [2, 16, 128, 1_024, 4_096, 16_384];

/// How many times as much one row more may cost above 1,024 rows as below. Columns of 16,384 rows
/// leave the nearest cache; a step that looks at all rows for each would cost 17 times as much.
const MOST_STEEPER: f64 = 4.0;

pub fn measure(rounds: usize) -> Result<Table> {
    let builtin = Catalog::builtin();
    let engine = components::engine()?;
    let catalog = components::catalog(&engine, WHOLE)?;
    let mut subjects = Vec::new();
    for rows in ROWS {
        for (catalog, policy) in [(&builtin, "default"), (&catalog, WHOLE)] {
            let mut selection = Selection::new(catalog, policy, rows)?;
            subjects.push(Subject::new(move || selection.select().map(drop)));
        }
        let mut deciding = Deciding::new(&builtin, rows, false)?;
        subjects.push(Subject::new(move || deciding.decide().map(drop)));
    }
    let figures = in_turns(rounds, &mut subjects)?;
    let names = ["select, built-in", "select, component", "decision"];
    let mut table = Table::new(
        "rows",
        "Each row is looked at once by each pass over a column, in lanes; below some hundred rows what every decision costs outweighs that.",
        &[
            "rows",
            "select, built-in, ns",
            "select, component, ns",
            "decision, ns",
            "allocations, built-in",
            "allocations, component",
            "allocations, decision",
        ],
    );
    for (rows, figures) in ROWS.into_iter().zip(figures.chunks(names.len())) {
        let times = figures.iter().map(|figures| Cell::from(figures.ns));
        let allocations = figures.iter().map(|figures| Cell::from(figures.allocations));
        table.row([Cell::from(rows as f64)].into_iter().chain(times).chain(allocations));
    }
    for (at, name) in names.into_iter().enumerate() {
        let ns = |row: usize| figures[row * names.len() + at].ns;
        let slope = |from: usize, to: usize| (ns(to) - ns(from)) / (ROWS[to] - ROWS[from]) as f64;
        let steeper = slope(3, 5) / slope(1, 3);
        table.at_most(format!("{name}: a row above 1,024 by one below"), steeper, MOST_STEEPER);
    }
    Ok(table)
}
