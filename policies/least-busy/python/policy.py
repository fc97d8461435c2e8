"""Sends a request to the worker with the fewest active requests among those that hold enough of its prompt; a tool's
result goes to the worker that holds most.

Each call gets a new object, so what lasts from call to call stands in the module.
"""

import functools
import json
import math
from pathlib import Path

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.about import Description
from wit_world.exports.worker_selection import Declaration, Environment, Stage
from wit_world.imports.types import Candidates, InputTrigger, Request

# Read while the component is made: a policy has no files later.
SCHEMA = (Path(__file__).parent / "parameters.schema.json").read_text()
PARAMETER = "min_device_overlap_blocks"

# Blocks of the prompt that a worker must hold in device memory to be considered.
least_blocks = 0.0


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
            name="least-busy-python",
            version="0.1.0",
            summary="Fewest active requests; cache-local on a tool result.",
            parameters_schema=SCHEMA,
        )


class WorkerSelection(exports.WorkerSelection):
    @told
    def configure(self, environment: Environment) -> Declaration:
        global least_blocks
        least_blocks = read(json.loads(environment.parameters))
        overlap = ["device-overlap-blocks"]
        return Declaration(
            filters=[Stage("device-overlap", overlap)],
            scorers=[Stage("active-requests", ["active-requests"])],
            picker=Stage("cache-local-on-tool-result", overlap),
            prefix_hash_blocks=0,
            properties=["stateless", "replicable"],
        )

    @told
    def keep(self, filter: int, request: Request, candidates: Candidates) -> list[int]:
        words = [0] * ((candidates.rows + 63) // 64)
        for row, blocks in enumerate(candidates.numbers):
            if blocks >= least_blocks:
                words[row // 64] |= 1 << (row % 64)
        return words

    @told
    def score(self, scorer: int, request: Request, candidates: Candidates) -> list[float]:
        return candidates.numbers

    @told
    def pick(self, request: Request, candidates: Candidates, costs: list[float]) -> int:
        """The lowest cost, the first among equals; on a tool result the most overlap, the last among equals."""
        if request.trigger != InputTrigger.TOOL_RESULT:
            return costs.index(min(costs))
        overlap = candidates.numbers
        return candidates.rows - 1 - overlap[::-1].index(max(overlap))


def read(parameters: dict) -> float:
    """The one parameter, or all that is wrong, a sentence a line."""
    wrong = [
        f'unknown parameter "{name}", expected "{PARAMETER}"' for name in parameters if name != PARAMETER
    ]
    if PARAMETER not in parameters:
        wrong.append(f'missing parameter "{PARAMETER}"')
    value = parameters.get(PARAMETER, 0)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and value >= 0):
        wrong.append(f'parameter "{PARAMETER}" is {json.dumps(value)}; give a finite number, 0 or more')
    if wrong:
        raise Err("\n".join(wrong))
    return float(value)
