"""Cassettes: record what tools answered once, and replay it in tests without running them."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from ferrule.core.secrets import redact_value
from ferrule.registry.registry import Registry
from ferrule.registry.source import Entry, ToolSource
from ferrule.registry.views import View
from ferrule.testing.cassette_file import CassetteContent, canonical, read_cassette, write_cassette
from ferrule.testing.recording import RecordingTool
from ferrule.testing.replaying import ReplayingTool
from ferrule.testing.tape import Tape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from ferrule.core.tool import Tool
    from ferrule.testing.cassette_file import TapedCall

Mode = Literal["auto", "record", "replay"]


class CassetteMiss(AssertionError):  # noqa: N818 - reads as what it says
    """A call came that the cassette does not hold."""


class ToolChanged(UserWarning):
    """A tool is not the one that was recorded: its version or its parameters differ."""


class Cassette:
    """Recorded calls in a file: `with Cassette("tests/weather.json") as cassette: …`.

    `mode` is `record` (run the tools and write the file anew), `replay` (answer from the file and run nothing) or
    `auto` (replay when the file exists, else record). Equal calls replay in the order recorded, then the last one
    again. Leaving the `with` block writes a recording, unless the test failed, and raises `CassetteMiss` for calls
    that were not recorded: a runtime turns what a tool raises into a result, so it cannot be raised earlier.

    `redact` gets every JSON value before it is written, and the arguments before they are looked up; it must give
    equal values for equal values.
    """

    def __init__(self, path: str | Path, *, mode: Mode = "auto", redact: Callable[[Any], Any] = redact_value) -> None:
        if mode not in ("auto", "record", "replay"):
            raise ValueError(f'A cassette\'s mode is "auto", "record" or "replay", not {mode!r}.')
        self.path = Path(path)
        self.recording = mode == "record" or (mode == "auto" and not self.path.exists())
        self.misses: list[str] = []
        """What was said of each call that is not on the cassette."""
        self._digests: dict[tuple[str, str], str] = {}
        self._recorded: dict[str, dict[str, str]] = {}
        calls: list[TapedCall] = []
        if not self.recording:
            content = read_cassette(self.path)
            self._recorded, calls = content.tools, content.calls
        self._tape = Tape(calls, redact)

    def tools(self, tools: ToolSource | Iterable[Tool[Any]]) -> ToolSource:
        """The same tools, recording or replaying; for a runtime, or to be registered among others.

        Warns with `ToolChanged` of each that is not what it was when it was recorded.
        """
        source = tools if isinstance(tools, ToolSource) else Registry(tools)
        for _, entry in source.entries():
            if change := self._change(entry.tool):
                warnings.warn(change, ToolChanged, stacklevel=2)
        return _Taped(source, self._double)

    @property
    def calls(self) -> list[TapedCall]:
        """Every call on the cassette, sorted by tool and arguments."""
        return self._tape.calls

    @property
    def unused(self) -> list[TapedCall]:
        """Calls that were recorded and, in this replay, not made."""
        return [] if self.recording else self._tape.unused

    def save(self) -> None:
        """Write what was recorded; leaving a `with` block does this."""
        calls = self._tape.calls
        tools: dict[str, dict[str, str]] = {}
        for call in calls:
            tools.setdefault(call.tool, {})[call.version] = self._digests[call.tool, call.version]
        write_cassette(self.path, CassetteContent(tools=tools, calls=calls))

    def check(self) -> None:
        """Fail the test if a call was not on the cassette."""
        if self.misses:
            raise CassetteMiss("\n".join(self.misses))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for miss in self.misses:
                error.add_note(miss)  # most likely the cause of the failure that is under way
        elif self.recording:
            self.save()
        else:
            self.check()

    def _double(self, tool: Tool[Any]) -> Tool[Any]:
        if self.recording:
            self._digests[tool.name, tool.version] = _digest(tool)
            return RecordingTool(tool, self._tape)
        versions = self._recorded.get(tool.name, {})
        # A tool with a new version number still answers from its old recording; `tools` has warned of it.
        version = tool.version if tool.version in versions or not versions else list(versions)[-1]
        return ReplayingTool(tool, self._tape, version, self._missed)

    def _change(self, tool: Tool[Any]) -> str | None:
        versions = self._recorded.get(tool.name)
        if versions is None:
            return None
        if tool.version not in versions:
            was = ", ".join(versions)
            return f"`{tool.name}` is version {tool.version} now; {self.path} was recorded with {was}. {self._again}"
        if versions[tool.version] != _digest(tool):
            return f"The parameters of `{tool.name}` have changed since {self.path} was recorded. {self._again}"
        return None

    def _missed(self, tool: str, arguments: Any) -> str:
        near = self._tape.nearest(tool, arguments)
        told = (
            f"The nearest that was: {near.tool} {canonical(near.arguments)}"
            if near is not None
            else f"No call of `{tool}` was, nor of a tool with a name like it."
        )
        miss = f"Not recorded in {self.path}: {tool} {self._tape.shown(arguments)}\n{told}\n{self._again}"
        self.misses.append(miss)
        return miss

    @property
    def _again(self) -> str:
        return 'To record again, delete the file or open it with mode="record".'


class _Taped(View):
    """The tools of another source, each in its recording or replaying double."""

    def __init__(self, source: ToolSource, double: Callable[[Tool[Any]], Tool[Any]]) -> None:
        super().__init__(source)
        self._double = double
        self._doubles: dict[Tool[Any], Tool[Any]] = {}

    def entry(self, name: str, version: str | None = None) -> Entry | None:
        found = self.source.entry(name, version)
        return self._wrap(found) if found is not None else None

    def entries(self) -> list[tuple[str, Entry]]:
        return [(name, self._wrap(entry)) for name, entry in self.source.entries()]

    def _wrap(self, entry: Entry) -> Entry:
        double = self._doubles.get(entry.tool)
        if double is None:
            double = self._doubles.setdefault(entry.tool, self._double(entry.tool))
        return Entry(double, entry.origin, entry.enabled)


def _digest(tool: Tool[Any]) -> str:
    return hashlib.sha256(canonical(tool.input_schema).encode()).hexdigest()[:16]
