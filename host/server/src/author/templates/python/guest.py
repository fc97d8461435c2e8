"""What any policy in Python needs of the contract; what this one decides stands in `policy.py`."""

import functools
import json
import math
from pathlib import Path

from componentize_py_types import Err

# Read while the component is made: a policy has no files later.
SCHEMA = (Path(__file__).parent / "parameters.schema.json").read_text()


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


class Parameters:
    """The YAML's `parameters`. All that is wrong with them is told at once, a sentence a line."""

    def __init__(self, text: str):
        self.given = json.loads(text)
        self.known: list[str] = []
        self.wrong: list[str] = []

    def number(self, name: str, default: float, least: float) -> float:
        """A finite number, `least` or more; `default` where it is left out."""
        value = self.take(name, default)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if math.isfinite(value) and value >= least:
                return float(value)
        self.refuse(name, value, f"a finite number, {least:g} or more")
        return default

    def count(self, name: str, default: int, least: int) -> int:
        """A whole number from `least` to 4,294,967,295."""
        value = self.take(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**32:
            return value
        self.refuse(name, value, f"a whole number, {least} or more")
        return default

    def end(self) -> None:
        """Refuses what is wrong, and what nobody asked for."""
        expected = ", ".join(f'"{name}"' for name in self.known)
        unknown = [name for name in self.given if name not in self.known]
        self.wrong += [f'unknown parameter "{name}", expected {expected}' for name in unknown]
        if self.wrong:
            raise Err("\n".join(self.wrong))

    def take(self, name: str, default: float):
        self.known.append(name)
        return self.given.get(name, default)

    def refuse(self, name: str, value, wanted: str) -> None:
        self.wrong.append(f'parameter "{name}" is {json.dumps(value)}; give {wanted}')


class Random:
    """Chance from a decision's seed, by the contract's SplitMix64: the same seed gives the same numbers."""

    def __init__(self, seed: int):
        self.state = seed

    def unit(self) -> float:
        """The next number in [0, 1)."""
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        mixed = (self.state ^ (self.state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
        return ((mixed ^ (mixed >> 31)) >> 11) / 2**53
