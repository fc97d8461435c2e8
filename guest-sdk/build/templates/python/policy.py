"""Warm caches first, but no crowd: what is left to compute of the prompt, and what is under way, in blocks.

Each call gets a new object, so what lasts from call to call stands in the module. There is no clock and no chance but
what a request brings: the same call gives the same answer.
"""

import functools
import json
import math
from pathlib import Path

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.about import Description
from wit_world.exports.worker_selection import Declaration, Environment, Stage
from wit_world.imports.types import Candidates, Request

# Read while the component is made: a policy has no files later.
SCHEMA = (Path(__file__).parent / "parameters.schema.json").read_text()
PARAMETER = "blocks_per_request"

blocks_per_request = 8.0
block_size = 16


def told(method):
    """Makes a refusal of an exception, so that its words reach the router's log."""

    @functools.wraps(method)
    def call(*arguments):
        try:
            return method(*arguments)
        except Err:
            raise
        except Exception as error:
            place = error.__traceback__
            while place and place.tb_next:
                place = place.tb_next
            line = place.tb_lineno if place else "?"
            raise Err(f"line {line}: {type(error).__name__}: {error}") from None

    return call


class About(exports.About):
    def describe(self) -> Description:
        return Description(
            name="new-policy",
            version="0.1.0",
            summary="Warm caches first, but no crowd.",
            parameters_schema=SCHEMA,
        )


class WorkerSelection(exports.WorkerSelection):
    @told
    def configure(self, environment: Environment) -> Declaration:
        """Reads the YAML's `parameters`, and says which stages there are and what they read."""
        global blocks_per_request, block_size
        blocks_per_request = read(json.loads(environment.parameters))
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
        return [
            blocks - overlap + blocks_per_request * under_way for under_way, overlap in zip(requests, overlaps)
        ]

    @told
    def pick(self, request: Request, candidates: Candidates, costs: list[float]) -> int:
        raise Err("there is no picker: the host takes the lowest cost, by chance among equals")


def read(parameters: dict) -> float:
    """The one parameter, or all that is wrong, a sentence a line."""
    wrong = [
        f'unknown parameter "{name}", expected "{PARAMETER}"' for name in parameters if name != PARAMETER
    ]
    value = parameters.get(PARAMETER, 8)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and value >= 0):
        wrong.append(f'parameter "{PARAMETER}" is {json.dumps(value)}; give a finite number, 0 or more')
    if wrong:
        raise Err("\n".join(wrong))
    return float(value)
