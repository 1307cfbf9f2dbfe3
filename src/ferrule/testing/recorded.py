"""A recorder that keeps the records in memory, and finds the ones a test is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.pipeline.record import CallRecord

if TYPE_CHECKING:
    from collections.abc import Callable


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
