//! A whole decision, from a request and a fleet to a booked row, all host work included: the same
//! policy as a component and linked natively, and the built-ins beside it.
//!
//! Between two decisions one row's load and the prompt change, inside the timed region, in every
//! variant alike.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pointsman_benches::fleet;
use pointsman_core::clock::Moment;
use pointsman_core::partition::Mode;
use pointsman_core::policy::{Catalog, PolicyProvider};
use pointsman_core::request::RouteRequest;
use pointsman_tests::{components, guests, linked::linked};
use serde_json::json;

/// Rows of a decision: a rack, a hall, a region.
const ROWS: [u64; 3] = [64, 1_024, 4_096];

/// Requests that the fleet carries while it is measured: enough that rows differ.
const CARRIED: usize = 1_000;

fn select(c: &mut Criterion) {
    let mut catalog = Catalog::builtin();
    let component = components::load(guests::least_busy()).expect("least-busy.wasm loads");
    let native: Arc<dyn PolicyProvider> = linked::<least_busy::LeastBusy>("least-busy-native");
    for provider in [component, native] {
        catalog.insert(provider).expect("the names are free");
    }
    let threshold = json!({ "min_device_overlap_blocks": 0 });
    let variants = [
        ("component", "least-busy", &threshold),
        ("native", "least-busy-native", &threshold),
        ("builtin-least-loaded", "least-loaded", &json!({})),
        ("builtin-default", "default", &json!({})),
    ];
    let mut group = c.benchmark_group("select");
    for rows in ROWS {
        group.throughput(Throughput::Elements(rows));
        for (name, policy_type, parameters) in variants {
            let parameters = parameters.as_object().cloned().unwrap_or_default();
            let router = fleet::router(&catalog, policy_type, &parameters, &Arc::default(), rows)
                .expect("the bench's own workers are sound");
            let mut request = RouteRequest::new("r", fleet::key(), 2_048);
            let mut n = 0_u64;
            let mut decide = |request: &mut RouteRequest| {
                n += 1;
                request.prompt_tokens = 2_048 + n % 64;
                let moment = Moment { now_ms: n, seed: n };
                router.route(request, moment, Mode::Book).expect("somebody is eligible")
            };
            let mut carried: std::collections::VecDeque<_> =
                (0..CARRIED).map(|_| decide(&mut request).lease).collect();
            group.bench_function(BenchmarkId::new(name, rows), |b| {
                b.iter(|| {
                    // The oldest request ends, a new one is decided and booked.
                    carried.pop_front();
                    carried.push_back(black_box(decide(&mut request)).lease);
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, select);
criterion_main!(benches);
