"""What tests look at: the records of calls, and the definitions that a model is shown."""

from __future__ import annotations

import json
import os
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule.pipeline.stages import CallRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ferrule.core.tool import Tool


class Recorded(list[CallRecord]):
    """A list of every call's record, in the order they ended: `Runtime(tools, recorders=[recorded])`.

    Each filter gives another such list, so filters can follow each other: `recorded.of("Read").failed`.
    """

    def record(self, record: CallRecord) -> None:
        self.append(record)

    @property
    def only(self) -> CallRecord:
        """The one record there is; fails the test when there are none or several."""
        if len(self) != 1:
            raise AssertionError(f"Exactly one record was expected, and there are {len(self)}: {self.tools}")
        return self[0]

    @property
    def tools(self) -> list[str]:
        """The names of the called tools; unknown names are kept as they were asked for."""
        return [record.tool for record in self]

    def of(self, tool: str) -> Recorded:
        """The calls of one tool."""
        return self._where(lambda record: record.tool == tool)

    def ended_with(self, outcome: str) -> Recorded:
        """The calls with one outcome: `success`, or an error type such as `timeout_error`."""
        return self._where(lambda record: record.outcome == outcome)

    def made_by(self, call_id: str) -> Recorded:
        """The calls that the tool of another call made."""
        return self._where(lambda record: record.parent_id == call_id)

    @property
    def succeeded(self) -> Recorded:
        return self.ended_with("success")

    @property
    def failed(self) -> Recorded:
        """All that did not succeed, refusals included."""
        return self._where(lambda record: record.outcome != "success")

    @property
    def refused(self) -> Recorded:
        """The calls that were not allowed to run; a tool's own permission error is not a refusal."""
        stages = ("authorise", "confirm")
        return self._where(lambda record: record.outcome == "permission_error" and record.stage in stages)

    def _where(self, keep: Callable[[CallRecord], bool]) -> Recorded:
        return Recorded(record for record in self if keep(record))


# Snapshots of definitions: what a model is shown of each tool, pinned in a file that a review can read.


UPDATE = "FERRULE_UPDATE_SNAPSHOTS"
NEUTRAL = "neutral"
_FLAGS = ("read_only", "strict", "concurrency_safe", "dangerous", "requires_permission", "idempotent")
_SHOWN_LINES = 200


def definitions_snapshot(tools: Iterable[Tool[Any]], dialect: str = "openai") -> str:
    """The definitions of tools as text: JSON, sorted by name, the same for the same tools.

    `dialect` is a provider's (`openai`, `anthropic`, `gemini`, `mcp`, …), or `neutral` for everything Ferrule itself
    knows of a tool. Inside a definition the order is the one the model sees.
    """
    ordered = sorted(tools, key=lambda tool: (tool.name, tool.version))
    return json.dumps(_definitions(ordered, dialect), indent=2, ensure_ascii=False) + "\n"


def assert_definitions(
    tools: Iterable[Tool[Any]], path: str | Path, dialect: str = "openai", *, update: bool | None = None
) -> None:
    """Fail the test, with a diff, unless the definitions are those in the file.

    With `update`, or the environment variable `FERRULE_UPDATE_SNAPSHOTS=1`, the file is written instead.
    """
    path = Path(path)
    now = definitions_snapshot(tools, dialect)
    if os.environ.get(UPDATE, "") not in ("", "0") if update is None else update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(now, "utf-8", newline="\n")
        return
    try:
        before = path.read_text("utf-8")
    except FileNotFoundError:
        raise AssertionError(f"There is no snapshot {path} yet. Write it: run the test with {UPDATE}=1.") from None
    if now == before:
        return
    diff = list(unified_diff(before.splitlines(), now.splitlines(), str(path), "now", lineterm=""))
    left_out = len(diff) - _SHOWN_LINES
    shown = "\n".join(diff[:_SHOWN_LINES]) + (f"\n… and {left_out} lines more" if left_out > 0 else "")
    raise AssertionError(
        f"What models are shown of the tools is not what {path} says.\n{shown}\n"
        f"If that is meant, run the test with {UPDATE}=1 and commit the file."
    )


def _definitions(tools: list[Tool[Any]], dialect: str) -> list[dict[str, Any]]:
    if dialect == NEUTRAL:
        return [_neutral(tool) for tool in tools]
    from ferrule.dialects import Exporter

    return Exporter(dialect).definitions(tools)


def _neutral(tool: Tool[Any]) -> dict[str, Any]:
    """Everything a tool declares; flags only where they are set."""
    return {
        "name": tool.name,
        "version": tool.version,
        "kind": tool.kind.value,
        "flags": [flag for flag in _FLAGS if getattr(tool, flag)],
        "description": tool.description.text,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
    }
