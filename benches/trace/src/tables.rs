//! The report as tables.

use pointsman_trace::runs::Row;
use pointsman_trace::sweep::{Compared, Sweep};

use crate::Report;

pub(crate) fn print(report: &Report) {
    println!(
        "{} requests, {} prompt tokens; {} workers of {} blocks; cached share of one cache without end: {:.4}",
        report.requests, report.prompt_tokens, report.workers, report.blocks, report.without_end
    );
    for at in &report.speeds {
        let spread = if report.spread { "spread" } else { "as written" };
        println!("\nspeed {}, answers {}, arrivals {spread}", at.speed, report.answers);
        table("policies", &at.policies);
        if let Some(sweep) = &at.sweep {
            print_sweep(sweep);
        }
        table("knowledge", &at.knowledge);
    }
    println!();
    report.missed.iter().for_each(|missed| println!("missed: {missed}"));
}

fn print_sweep(sweep: &Sweep) {
    table("sweep: one parameter at a time", &sweep.alone);
    println!(
        "sweep: means over other seeds {:>49} {:>7} {:>14}",
        "cached", "balance", "default / this"
    );
    let line = |Compared { row, cached_share, balance }: &Compared, ratio: f64| {
        let name = &row.planned.name;
        println!("    {name:<67} {cached_share:>7.4} {balance:>7.3} {ratio:>14.3}");
    };
    println!("  default");
    line(&sweep.default, 1.0);
    for reach in &sweep.reaches {
        println!(
            "  best of {} balanced, up to {} times the default",
            reach.balanced_runs, reach.most
        );
        line(&reach.best_balanced, reach.default_over_balanced);
        println!("  best of all {}, up to {} times the default", reach.runs, reach.most);
        line(&reach.best_of_all, reach.default_over_all);
    }
}

fn table(title: &str, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    println!(
        "{title:<46} {:>7} {:>7} {:>7} {:>5} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7}",
        "cached",
        "routed",
        "compu.",
        "busy",
        "queue",
        "p99 ms",
        "TTFT",
        "p99 ms",
        "evict",
        "right",
        "pred/re"
    );
    for Row { planned, figures: f } in rows {
        println!(
            "  {:<44} {:>7.4} {:>7.3} {:>7.3} {:>5.2} {:>8.0} {:>8.0} {:>8.0} {:>8.0} {:>7} {:>7.4} {:>7.4}",
            planned.name,
            f.cached_share,
            f.routed_balance,
            f.computed_balance,
            f.busy,
            f.queued_ms.mean,
            f.queued_ms.p99,
            f.first_token_ms.mean,
            f.first_token_ms.p99,
            f.evictions,
            f.predicted_right,
            f.predicted_over_real
        );
    }
}
