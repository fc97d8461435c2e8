use std::path::Path;
use std::hint::black_box;
use pointsman_core::clock::Stopwatch;
use pointsman_core::policy::*;
use pointsman_wasm::*;
use crate::rig::*;
use crate::guests::*;

fn time(name: &str, mut f: impl FnMut()) {
    for _ in 0..2000 { f(); }
    let mut best = f64::MAX;
    for _ in 0..10 {
        let n = 5000;
        let t = Stopwatch::start();
        for _ in 0..n { f(); }
        best = best.min(t.elapsed().as_secs_f64() / n as f64);
    }
    eprintln!("{name}: {:.3} us", best * 1e6);
}

#[test]
fn speed() {
    let mut template = instance("template").unwrap();
    for rows in [1usize, 64, 1024] {
        let case = Case::new(&vec![1.0; rows]);
        let mut costs = vec![0.0; rows];
        time(&format!("template keep {rows}"), || { black_box(case.keep(&mut *template).unwrap()); });
        time(&format!("template score {rows}"), || { case.score_into(&mut *template, &mut costs); });
        time(&format!("template pick {rows}"), || { black_box(case.pick(&mut *template).unwrap()); });
    }
    time("instantiate", || { black_box(load_once().instantiate(&environment()).unwrap()); });
    let bytes = std::fs::read("/tmp/least_busy.component.wasm").unwrap();
    let t = Stopwatch::start();
    let p = ComponentPolicy::load(engine(), "least-busy", Path::new("least-busy.wasm"), &bytes).unwrap();
    eprintln!("load least-busy {} bytes: {:?} {:?} {:?}", bytes.len(), t.elapsed(), p.describe(), p.imports());
    eprintln!("{:?}", p.probe(&environment()));
    time("instantiate least-busy", || { black_box(p.instantiate(&environment()).unwrap()); });
    let mut lb = p.instantiate(&environment()).unwrap();
    eprintln!("{:?}", lb.declaration());
    let d = lb.declaration().clone();
    for rows in [1usize, 64, 1024] {
        let ids: Vec<_> = (0..rows as u64).map(|i| pointsman_core::ids::WorkerRank{worker_id: pointsman_core::ids::WorkerId(i), dp_rank: pointsman_core::ids::DpRank(0)}).collect();
        let mut m = candidates::Matrix::new(&d.union());
        m.fill(rows, |_, c| c.fill(1.0));
        let req = pointsman_core::request::RouteRequest::new("r", partition(), 41);
        let view = RequestView::new(&req, pointsman_core::ids::DecisionId(7), pointsman_core::clock::Moment{now_ms:1,seed:2}, 16, true, None);
        let mut mask = RowMask::default();
        let mut costs = vec![0.0; rows];
        let mut out = Outcome::default();
        for (i,s) in d.filters.iter().enumerate() { let c = Candidates::new(&ids,&m,s.input_set(),&[]);
            time(&format!("lb keep {rows}"), || { mask.keep_all(rows); lb.keep(i,&view,&c,&mut mask).unwrap(); }); eprintln!("fuel {:?}", lb.last_fuel()); }
        for (i,s) in d.scorers.iter().enumerate() { let c = Candidates::new(&ids,&m,s.input_set(),&[]);
            time(&format!("lb score {rows}"), || { lb.score(i,&view,&c,&mut costs).unwrap(); }); eprintln!("fuel {:?}", lb.last_fuel()); }
        if let Some(s) = &d.picker { let c = Candidates::new(&ids,&m,s.input_set(),&[]);
            time(&format!("lb pick {rows}"), || { black_box(lb.pick(&view,&c,&costs).unwrap()); }); eprintln!("fuel {:?}", lb.last_fuel()); }
        if d.properties.fused { let c = Candidates::new(&ids,&m,d.union().into_iter().collect(),&[]);
            time(&format!("lb decide {rows}"), || { out.verdicts.keep_all(rows); lb.decide(&view,&c,&mut out).unwrap(); }); eprintln!("fuel {:?}", lb.last_fuel()); }
    }
}
