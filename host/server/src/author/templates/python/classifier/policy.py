"""Lets so many requests through at a time, the others behind them in their order.

Each call gets a new object, so what lasts from call to call stands in the module. There is no clock and no chance: the
same calls get the same answers.
"""

from guest import SCHEMA, Parameters, told
from wit_world import exports
from wit_world.exports.about import Description
from wit_world.exports.request_classifier import (
    Admission,
    ClassifierDeclaration,
    ClassifierEnvironment,
    ClassifyRequest,
    LifecycleEvent,
    LifecycleEvent_Aborted,
    LifecycleEvent_Admitted,
    LifecycleEvent_Completed,
    LifecycleEvent_Inherited,
    Release,
    Verdict,
    Verdict_Admit,
    Verdict_Hold,
    Verdict_Reject,
)

at_a_time = 256
most_waiting = 10_000
under_way: set[str] = set()
# In their order, which a dictionary keeps.
waiting: dict[str, None] = {}


class About(exports.About):
    def describe(self) -> Description:
        return Description("{{name}}", "0.1.0", "{{summary}}.", SCHEMA)


class RequestClassifier(exports.RequestClassifier):
    @told
    def configure_classifier(self, environment: ClassifierEnvironment) -> ClassifierDeclaration:
        """Reads the YAML's `parameters`, and says how often it wants a tick and how many it holds at most."""
        global at_a_time, most_waiting
        given = Parameters(environment.parameters)
        at_a_time = given.count("at_a_time", 256, least=1)
        most_waiting = given.count("most_waiting", 10_000, least=0)
        given.end()
        return ClassifierDeclaration(tick_ms=0, most_held=most_waiting)

    @told
    def classify(self, request: ClassifyRequest) -> Verdict:
        """Who may go, who waits, who is refused."""
        if len(under_way) < at_a_time:
            under_way.add(request.request_id)
            return Verdict_Admit(as_it_came())
        if len(waiting) >= most_waiting:
            return Verdict_Reject("too many requests wait")
        waiting[request.request_id] = None
        return Verdict_Hold()

    @told
    def on_event(self, event: LifecycleEvent, now_ms: int) -> list[Release]:
        """What happens to requests; the answer lets others go on."""
        match event:
            # Admitted by whoever was here before, or by the host: it is under way all the same.
            case LifecycleEvent_Inherited(live):
                under_way.add(live.request.request_id)
            case LifecycleEvent_Admitted(request_id):
                waiting.pop(request_id, None)
                under_way.add(request_id)
            case LifecycleEvent_Completed((request_id, _)) | LifecycleEvent_Aborted((request_id, _)):
                under_way.discard(request_id)
                waiting.pop(request_id, None)
        released = []
        while waiting and len(under_way) < at_a_time:
            request_id = next(iter(waiting))
            del waiting[request_id]
            under_way.add(request_id)
            released.append(Release(request_id, Verdict_Admit(as_it_came())))
        return released


def as_it_came() -> Admission:
    """Nothing about the request is changed."""
    return Admission(policy_class=None, due_at_ms=None, scheduling_cost_tokens=None, selection_target=None)
