//! Promises of answers that are none.

use super::*;

#[test]
fn an_answer_that_is_none_is_typed_and_its_owner_decides_what_follows() {
    let wrong =
        |admission: Admission| move |_: &ClassifyRequest<'_>| Ok(Verdict::Admit(admission.clone()));
    let class = Admission { policy_class: Some("nobody".into()), ..Admission::default() };
    let cost = Admission { scheduling_cost_tokens: Some(0), ..Admission::default() };
    for admission in [class, cost] {
        for on_failure in
            [OnFailure::Default, OnFailure::Reject, OnFailure::Skip, OnFailure::LastGood]
        {
            let desk = Desk::new();
            let told = Log::default();
            let (log, admission) = (told.clone(), admission.clone());
            desk.replace(Some(seat_of(on_failure, move || {
                let log = log.clone();
                classifying(1, wrong(admission.clone()), move |event, _| {
                    log.lock().push(in_words(event));
                    Ok(Vec::new())
                })
            })));
            let life = desk.begin();
            let arrived = desk.arrive(arrival("a"), &life, 1);
            match on_failure {
                OnFailure::Default | OnFailure::Skip | OnFailure::LastGood => {
                    assert_eq!(admitted(arrived), arrival("a").unchanged());
                    assert_eq!(*told.lock(), ["admitted a"], "it is to know what became of it");
                }
                OnFailure::Reject => {
                    let error = arrived.expect_err("refused");
                    assert_eq!(error, ClassificationError::Failed(Cause::BadOutput));
                    assert_eq!(error.kind(), "request_classifier_failed");
                    assert!(told.lock().is_empty());
                }
            }
            let bad = desk
                .counts()
                .failures
                .iter()
                .find(|(cause, _)| *cause == Cause::BadOutput)
                .cloned();
            assert_eq!(bad, Some((Cause::BadOutput, 1)));
            drop(life);
            desk.catch_up(2);
            assert_eq!(told.lock().last().map(String::as_str), Some("aborted a nowhere"));
        }
    }
}
