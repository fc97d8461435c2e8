//! Promises of the log: it has all that an instance was told and answered, and comes back from JSON.

use super::*;

/// Keeps entries in memory.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<LogEntry>>);

impl ClassifierLog for Kept {
    fn note(&self, entry: LogEntry) {
        self.0.lock().push(entry);
    }
}

/// A desk whose log is kept. `a` is admitted to `batch`; others are held until something responds,
/// and the one called `poison` is its end.
fn logged() -> (Desk, Arc<Kept>) {
    let desk = desk_of(|| {
        let classify = |request: &ClassifyRequest<'_>| match &*request.arrival.request_id {
            "a" => Ok(Verdict::Admit(Admission {
                policy_class: Some("batch".into()),
                due_at_ms: Some(u64::MAX),
                scheduling_cost_tokens: Some(7),
                selection_target: Some(WorkerTarget { worker_id: WorkerId(3), dp_rank: None }),
            })),
            "poison" => panic!("it can't be read"),
            _ => Ok(Verdict::Hold),
        };
        let on_event = |event: &LifecycleEvent<'_>, _| match event {
            LifecycleEvent::Responding(_) => Ok(vec![release("c"), release("b")]),
            LifecycleEvent::Completed(..) => Err(StageError::refused("no")),
            _ => Ok(Vec::new()),
        };
        classifying(10, classify, on_event).ticking(50)
    });
    let kept = Arc::<Kept>::default();
    desk.write_to(kept.clone());
    (desk, kept)
}

fn run() -> Vec<LogEntry> {
    let (desk, kept) = logged();
    let [a, b, c, poison] = [(); 4].map(|()| desk.begin());
    let odd = Arrival { priority_jump: 0.1 + 0.2, ..arrival("a") };
    admitted(desk.arrive(odd, &a, 1));
    desk.fleet_changed([Capacity { worker: rank(1, 0), total_kv_blocks: Some(5) }].into());
    a.sent(rank(1, 0));
    for (id, life) in [("b", &b), ("c", &c)] {
        assert_eq!(desk.arrive(arrival(id), life, 2), Ok(Arrived::Held));
    }
    a.responding();
    desk.catch_up(51);
    a.completed(Some(120));
    drop(b);
    admitted(desk.arrive(arrival("poison"), &poison, 60));
    desk.catch_up(61);
    std::mem::take(&mut *kept.0.lock())
}

fn in_short(entry: &LogEntry) -> String {
    let what = match &entry.what {
        Logged::Began(beginning) => format!("began {}", beginning.classifier_type),
        Logged::Asked(request, answer) => {
            let answer = match answer {
                Answer::Gave(Verdict::Hold) => "held".to_owned(),
                Answer::Gave(_) => "admitted".to_owned(),
                Answer::Failed(cause) => format!("failed {cause}"),
            };
            format!("{} {answer}", request.arrival.request_id)
        }
        Logged::Told(event, answer) => {
            let id = event.request_id().map_or("all", |id| id);
            let answer = match answer {
                Answer::Gave(releases) => {
                    releases.iter().map(|release| format!(" {}", release.request_id)).collect()
                }
                Answer::Failed(cause) => format!(" failed {cause}"),
            };
            format!("{} {id}:{answer}", event.word())
        }
    };
    format!("{}.{} at {} {what}", entry.instance, entry.call, entry.now_ms)
}

#[test]
fn the_log_has_each_call_of_each_instance_in_order_with_its_answer() {
    let entries: Vec<String> = run().iter().map(in_short).collect();
    let expected = [
        "1.0 at 1 began made",
        "1.1 at 1 a admitted",
        "1.2 at 2 fleet-changed all:",
        "1.3 at 2 sent a:",
        "1.4 at 2 b held",
        "1.5 at 2 c held",
        "1.6 at 51 responding a: c b",
        "1.7 at 51 tick all:",
        "1.8 at 60 completed a: failed refused",
        "1.9 at 60 aborted b:",
        "1.10 at 60 poison failed trap",
        "2.0 at 61 began made",
        "2.1 at 61 inherited c:",
        "2.2 at 61 inherited poison:",
    ];
    assert_eq!(entries, expected);
}

#[test]
fn an_entry_comes_back_from_json_as_it_was() {
    for entry in run() {
        let json = serde_json::to_string(&entry).expect("it is JSON");
        let read: LogEntry = serde_json::from_str(&json).expect("it is read");
        assert_eq!(read, entry, "{json}");
    }
}

#[test]
fn a_desk_without_a_log_keeps_none_and_one_begins_with_the_next_instance() {
    let desk = desk_of(|| noting(&Log::default(), |_| false, |_| Vec::new()));
    desk.catch_up(1);
    let kept = Arc::<Kept>::default();
    desk.write_to(kept.clone());
    let life = desk.begin();
    admitted(desk.arrive(arrival("a"), &life, 2));
    assert!(kept.0.lock().is_empty(), "what it knows isn't there");
    desk.replace(Some(seat_of(OnFailure::Default, || {
        noting(&Log::default(), |_| false, |_| Vec::new())
    })));
    desk.catch_up(3);
    let entries: Vec<String> = kept.0.lock().iter().map(in_short).collect();
    assert_eq!(entries, ["1.0 at 3 began made", "1.1 at 3 inherited a:"]);
}
