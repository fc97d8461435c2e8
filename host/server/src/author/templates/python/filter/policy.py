"""Leaves out the workers that have enough to do. The host picks one of the others, or whatever the YAML puts beside it.

Each call gets a new object, so what lasts from call to call stands in the module. There is no clock and no chance but
what a request brings: the same call gives the same answer.
"""

from componentize_py_types import Err
from guest import SCHEMA, Parameters, told
from wit_world import exports
from wit_world.exports.about import Description
from wit_world.exports.worker_selection import Declaration, Environment, Stage
from wit_world.imports.types import Candidates, Request

most_requests = 64.0


class About(exports.About):
    def describe(self) -> Description:
        return Description("{{name}}", "0.1.0", "{{summary}}.", SCHEMA)


class WorkerSelection(exports.WorkerSelection):
    @told
    def configure(self, environment: Environment) -> Declaration:
        """Reads the YAML's `parameters`, and says which stages there are and what they read."""
        global most_requests
        given = Parameters(environment.parameters)
        most_requests = given.number("most_requests", 64, least=1)
        given.end()
        return Declaration(
            filters=[Stage("has-room", ["active-requests"])],
            scorers=[],
            picker=None,
            prefix_hash_blocks=0,
            properties=["stateless"],
        )

    @told
    def keep(self, filter: int, request: Request, candidates: Candidates) -> list[int]:
        """Row r is kept if bit r % 64 of word r // 64 is set."""
        words = [0] * -(-candidates.rows // 64)
        for row, active in enumerate(candidates.numbers):
            if active < most_requests:
                words[row // 64] |= 1 << (row % 64)
        return words

    @told
    def score(self, scorer: int, request: Request, candidates: Candidates) -> list[float]:
        raise Err("there is no scorer")

    @told
    def pick(self, request: Request, candidates: Candidates, costs: list[float]) -> int:
        raise Err("there is no picker: the host takes the lowest cost, by chance among equals")
