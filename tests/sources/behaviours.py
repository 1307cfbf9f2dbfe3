"""What a source description asks for, and what shows that Ferrule does it or why it does something better."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One behaviour of a description.

    `line` is where it begins there. `tests` are ids such as `tests/core/test_lint.py::test_parameters`; one without a
    file is in the file that lists the behaviour. `better` is set where Ferrule differs on purpose: it is a line of
    docs/concepts/differences.md, word for word.
    """

    line: int
    requirement: str
    statement: str
    tests: tuple[str, ...]
    better: str


def shown(line: int, requirement: str, statement: str, *tests: str, better: str = "") -> Behaviour:
    return Behaviour(line, requirement, statement, tests, better)
