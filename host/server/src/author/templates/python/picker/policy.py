"""Picks the worker that holds most of the prompt, among those with hardly more requests than the fewest.

It only picks: filters and scorers can stand beside it in the YAML, and `costs` is what those say. Each call gets a new
object, so what lasts from call to call stands in the module. There is no clock and no chance but what a request
brings: the same call gives the same answer.
"""

from componentize_py_types import Err
from guest import SCHEMA, Parameters, told
from wit_world import exports
from wit_world.exports.about import Description
from wit_world.exports.worker_selection import Declaration, Environment, Stage
from wit_world.imports.types import Candidates, Request

more_requests = 4.0


class About(exports.About):
    def describe(self) -> Description:
        return Description("{{name}}", "0.1.0", "{{summary}}.", SCHEMA)


class WorkerSelection(exports.WorkerSelection):
    @told
    def configure(self, environment: Environment) -> Declaration:
        """Reads the YAML's `parameters`, and says which stages there are and what they read."""
        global more_requests
        given = Parameters(environment.parameters)
        more_requests = given.number("more_requests", 4, least=0)
        given.end()
        return Declaration(
            filters=[],
            scorers=[],
            picker=Stage("warmest-of-the-idle", ["active-requests", "device-overlap-blocks"]),
            prefix_hash_blocks=0,
            properties=["stateless"],
        )

    @told
    def keep(self, filter: int, request: Request, candidates: Candidates) -> list[int]:
        raise Err("there is no filter")

    @told
    def score(self, scorer: int, request: Request, candidates: Candidates) -> list[float]:
        raise Err("there is no scorer")

    @told
    def pick(self, request: Request, candidates: Candidates, costs: list[float]) -> int:
        """The most of the prompt in device memory; among equals the fewest requests, and then the first row. Columns
        come one after the other, in the order in which they were declared."""
        rows, numbers = candidates.rows, candidates.numbers
        requests, overlaps = numbers[:rows], numbers[rows : 2 * rows]
        enough = min(requests) + more_requests
        idle = [row for row in range(rows) if requests[row] <= enough]
        return min(idle, key=lambda row: (-overlaps[row], requests[row]))
