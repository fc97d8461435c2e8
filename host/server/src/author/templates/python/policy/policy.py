"""Warm caches first, but no crowd: a filter, a scorer and a picker.

Leave out what you don't need: without a filter all rows are kept, without a picker the host picks the lowest cost.
Each call gets a new object, so what lasts from call to call stands in the module. There is no clock and no chance but
what a request brings: the same call gives the same answer.
"""

import math

from guest import SCHEMA, Parameters, Random, told
from wit_world import exports
from wit_world.exports.about import Description
from wit_world.exports.worker_selection import Declaration, Environment, Stage
from wit_world.imports.types import Candidates, Request

most_requests = 64.0
blocks_per_request = 8.0
block_size = 16


class About(exports.About):
    def describe(self) -> Description:
        return Description("{{name}}", "0.1.0", "{{summary}}.", SCHEMA)


class WorkerSelection(exports.WorkerSelection):
    @told
    def configure(self, environment: Environment) -> Declaration:
        """Reads the YAML's `parameters`, and says which stages there are and what they read."""
        global most_requests, blocks_per_request, block_size
        given = Parameters(environment.parameters)
        most_requests = given.number("most_requests", 64, least=1)
        blocks_per_request = given.number("blocks_per_request", 8, least=0)
        given.end()
        block_size = environment.partition.block_size
        return Declaration(
            filters=[Stage("has-room", ["active-requests"])],
            scorers=[Stage("work", ["active-requests", "device-overlap-blocks"])],
            picker=Stage("lowest-cost", []),
            prefix_hash_blocks=0,
            properties=["stateless"],
        )

    @told
    def keep(self, filter: int, request: Request, candidates: Candidates) -> list[int]:
        """Leaves out who has enough to do. Row r is kept if bit r % 64 of word r // 64 is set."""
        words = [0] * -(-candidates.rows // 64)
        for row, active in enumerate(candidates.numbers):
            if active < most_requests:
                words[row // 64] |= 1 << (row % 64)
        return words

    @told
    def score(self, scorer: int, request: Request, candidates: Candidates) -> list[float]:
        """One cost a row, the lowest wins. Columns come one after the other, in the order in which they were declared."""
        rows, numbers = candidates.rows, candidates.numbers
        requests, overlaps = numbers[:rows], numbers[rows : 2 * rows]
        blocks = math.ceil(request.prompt_tokens / block_size)
        return [blocks - overlap + blocks_per_request * active for active, overlap in zip(requests, overlaps)]

    @told
    def pick(self, request: Request, candidates: Candidates, costs: list[float]) -> int:
        """The lowest cost; among equals each with the same chance, as the host would pick."""
        chance = Random(request.seed)
        best, ties = 0, 0
        for row, cost in enumerate(costs):
            if ties == 0 or cost < costs[best]:
                best, ties = row, 1
            elif cost == costs[best]:
                ties += 1
                if chance.unit() < 1 / ties:
                    best = row
        return best
