"""Warm caches first, but no crowd: what is left to compute of the prompt, and what is under way, in blocks.

Each call gets a new object, so what lasts from call to call stands in the module. There is no clock and no chance but
what a request brings: the same call gives the same answer.
"""

import math

from componentize_py_types import Err
from guest import SCHEMA, Parameters, told
from wit_world import exports
from wit_world.exports.about import Description
from wit_world.exports.worker_selection import Declaration, Environment, Stage
from wit_world.imports.types import Candidates, Request

blocks_per_request = 8.0
block_size = 16


class About(exports.About):
    def describe(self) -> Description:
        return Description("{{name}}", "0.1.0", "{{summary}}.", SCHEMA)


class WorkerSelection(exports.WorkerSelection):
    @told
    def configure(self, environment: Environment) -> Declaration:
        """Reads the YAML's `parameters`, and says which stages there are and what they read."""
        global blocks_per_request, block_size
        given = Parameters(environment.parameters)
        blocks_per_request = given.number("blocks_per_request", 8, least=0)
        given.end()
        block_size = environment.partition.block_size
        return Declaration(
            filters=[],
            scorers=[Stage("work", ["active-requests", "device-overlap-blocks"])],
            picker=None,
            prefix_hash_blocks=0,
            properties=["stateless"],
        )

    @told
    def keep(self, filter: int, request: Request, candidates: Candidates) -> list[int]:
        raise Err("there is no filter")

    @told
    def score(self, scorer: int, request: Request, candidates: Candidates) -> list[float]:
        """One cost a row, the lowest wins. Columns come one after the other, in the order in which they were declared."""
        rows, numbers = candidates.rows, candidates.numbers
        requests, overlaps = numbers[:rows], numbers[rows : 2 * rows]
        blocks = math.ceil(request.prompt_tokens / block_size)
        return [blocks - overlap + blocks_per_request * active for active, overlap in zip(requests, overlaps)]

    @told
    def pick(self, request: Request, candidates: Candidates, costs: list[float]) -> int:
        raise Err("there is no picker: the host takes the lowest cost, by chance among equals")
