//! Whether the order of rows matters: a worker is to be judged by what it carries and holds, and not by
//! where its row stands.
//!
//! Rows come to a policy in the order of their workers' ids, so that breaking ties by it is lawful; so is a
//! turn that is kept in state, and a row that is drawn by chance.

use std::collections::BTreeMap;

use pointsman_core::clock::Chance;
use pointsman_core::ids::WorkerRank;

use super::Findings;
use super::policy::Tried;
use crate::author::scene::{Answer, Way, shuffle};

/// Orders that are tried.
const ORDERS: u64 = 4;

/// What the orders came to.
#[derive(Default)]
struct Seen {
    asked: usize,
    /// A worker's verdict or cost was another one: its words.
    judged: Option<String>,
    /// Another worker was chosen.
    moved: usize,
    /// Of these, at another cost.
    dearer: usize,
}

pub(super) fn examine(tried: &Tried<'_>, found: &mut Findings) -> Result<(), String> {
    let mut seen = Seen::default();
    for order in 0..ORDERS {
        let mut chance = Chance::new(order);
        let other = tried.scene.changed(|decision| shuffle(&mut chance, &mut decision.rows));
        let answers = other.play(tried.stage, Way::Parts)?;
        for (at, (usual, other)) in tried.answers.iter().zip(&answers).enumerate() {
            seen.compare(at, usual, other);
        }
    }
    let Seen { asked, judged, moved, dearer } = seen;
    let scores = !tried.declaration.scorers.is_empty();
    // Who keeps a turn or draws may go by the place.
    let of = [tried.draws, tried.remembers];
    let may = of.iter().any(|varies| varies.answers > 0);
    match judged {
        Some(words) if of.iter().any(|varies| varies.judgements > 0) => found.note(
            "order",
            format!("{words}: lawful for one that remembers or draws, if it is meant"),
        ),
        Some(words) => found.wrong(
            "order",
            format!("{words}: judge a row by its columns and its worker, not by its index"),
        ),
        None if moved == 0 => {
            found.good("order", format!("{asked} decisions over permuted rows get the same worker"));
        }
        // With as many equals as that, nothing but the place decides.
        None if !may && !scores && moved * 2 > asked => found.wrong(
            "order",
            format!(
                "{moved} of {asked} decisions over permuted rows got another worker, and no row was as another: it goes by the row's index; \
                 go by its columns and its worker"
            ),
        ),
        None => {
            let equals = if scores && dearer == 0 { ", all at the same cost" } else { "" };
            found.note(
                "order",
                format!(
                    "{moved} of {asked} decisions over permuted rows got another worker{equals}: lawful among equals, by state and by chance"
                ),
            );
        }
    }
    Ok(())
}

impl Seen {
    fn compare(&mut self, at: usize, usual: &Answer, other: &Answer) {
        let (Ok(one), Ok(two)) = (&usual.chosen, &other.chosen) else { return };
        self.asked += 1;
        if self.judged.is_none() {
            self.judged = judged(&usual.rows, &other.rows)
                .map(|words| format!("in decision {} over permuted rows {words}", at + 1));
        }
        if one.worker != two.worker {
            self.moved += 1;
            self.dearer += usize::from(!close(one.cost, two.cost));
        }
    }
}

/// The first worker that is judged otherwise.
fn judged(
    usual: &BTreeMap<WorkerRank, Option<f64>>,
    other: &BTreeMap<WorkerRank, Option<f64>>,
) -> Option<String> {
    usual.iter().find_map(|(worker, cost)| match (cost, other.get(worker)?) {
        (Some(cost), Some(other)) if close(*cost, *other) => None,
        (None, None) => None,
        (Some(cost), Some(other)) => {
            Some(format!("worker {worker} costs {other}, and else {cost}"))
        }
        (Some(_), None) => Some(format!("worker {worker} is rejected, and else kept")),
        (None, Some(_)) => Some(format!("worker {worker} is kept, and else rejected")),
    })
}

/// Sums may be made in another order.
fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(1.0)
}
