"""What each tool is doing and what came of it, in the person's language («reading…», «found 12 files»; M2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ferrule.agent.doing import CALLING
from ferrule.cli.chatting.visible_text import one_line
from ferrule.cli.words import _

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ferrule.core.result import ToolResult

Data = dict[str, Any]


def doing(tool: str, said: str = "") -> str:
    """While it runs; of a tool that is not ours, what it says of itself, if that is more than its name."""
    if said == CALLING.format(tool=tool):
        said = ""
    return _doing().get(tool) or (f"{one_line(said)}…" if said else _("working…"))


def outcome(result: ToolResult) -> str:
    """Of a call that went well; a tool of someone else's says it in its own words."""
    words = _OUTCOMES.get(result.tool)
    data = result.data
    if words is not None and isinstance(data, dict):
        said = words({**cast("Data", data), **{f"meta_{key}": value for key, value in result.metadata.items()}})
        if said:
            return said
    return one_line(result.display_content.split("\n")[0])[:200] or _("done")


def _doing() -> Mapping[str, str]:
    reading, searching, running = _("reading…"), _("searching…"), _("running…")
    listing, writing, looking = _("listing…"), _("writing…"), _("looking for files…")
    return {
        "Read": reading, "readFile": reading, "Write": writing, "Edit": _("editing…"), "MultiEdit": _("editing…"),
        "Glob": looking, "searchFiles": looking, "Grep": searching, "FileSearch": searching,
        "listFiles": listing, "LS": listing,
        "Bash": running, "executeCommand": running, "BashInput": _("typing…"), "BashOutput": _("reading output…"),
        "KillShell": _("stopping…"), "Task": _("working on it…"),
    }  # fmt: skip


def counted(number: object, one: str, many: str) -> str:
    """`1 line`, `1,200 lines`."""
    return one if number == 1 else many.format(n=f"{number:,}" if isinstance(number, int) else number)


def _read(data: Data) -> str:
    if "lines_read" in data and data.get("encoding", "") is not None:  # which a binary file has none of
        if data.get("media_type") == "application/x-ipynb+json":
            return counted(data["lines_read"], _("read 1 cell"), _("read {n} cells"))
        said = counted(data["lines_read"], _("read 1 line"), _("read {n} lines"))
        total = data.get("total_lines")
        return said + (_(" of {n}").format(n=f"{total:,}") if data.get("has_more") and total else "")
    return counted(data["size"], _("read 1 byte"), _("read {n} bytes")) if "size" in data else ""


def _written(data: Data) -> str:
    lines = counted(data.get("line_count", 0), _("1 line"), _("{n} lines"))
    return (_("overwritten, {lines}") if data.get("is_overwrite") else _("created, {lines}")).format(lines=lines)


def _edited(data: Data) -> str:
    return _("edited (+{added} −{removed})").format(added=data.get("added", 0), removed=data.get("removed", 0))


def _files(data: Data) -> str:
    count = data.get("count")
    return counted(count, _("found 1 file"), _("found {n} files")) if isinstance(count, int) else ""


def _matches(data: Data) -> str:
    files = data.get("total_files")
    if not isinstance(files, int):
        return ""
    if not files:
        return _("found nothing")
    matches = data.get("total_matches", data.get("matches"))
    if not isinstance(matches, int):
        return counted(files, _("found 1 file"), _("found {n} files"))
    return counted(matches, _("found 1 match"), _("found {n} matches")) + counted(
        files, _(" in 1 file"), _(" in {n} files")
    )


def _replaced(data: Data) -> str:
    if data.get("applied") is None:
        return _matches(data)
    many = counted(data.get("matches", 0), _("1 place"), _("{n} places"))
    in_files = counted(data.get("total_files", 0), _(" in 1 file"), _(" in {n} files"))
    if data["applied"]:
        return _("replaced {where}").format(where=many + in_files)
    return _("would replace {where}").format(where=many + in_files) if data.get("total_files") else _("found nothing")


def _ran(data: Data) -> str:
    if data.get("shell_id"):
        goes_on = _("goes on as {id}") if data.get("timed_out") else _("started as {id}")
        return goes_on.format(id=data["shell_id"])
    if data.get("waiting_for_input") is not None:
        return _("waits for input")
    code = data.get("exit_code", data.get("exitCode"))
    if code is None:
        return _("done")
    said = _("done") if code == 0 else _("ended with code {code}").format(code=code)
    changed = data.get("meta_changed")
    return said + (counted(changed, _(", changed 1 file"), _(", changed {n} files")) if changed else "")


def _shell(data: Data) -> str:
    return one_line(f"{data.get('shell_id', '')}: {_(str(data.get('status', '')))}")


def _listed(data: Data) -> str:
    entries = data.get("entries")
    total = len(cast("list[Any]", entries)) if isinstance(entries, list) else data.get("total")
    return counted(total, _("found 1 entry"), _("found {n} entries")) if isinstance(total, int) else ""


_OUTCOMES: Mapping[str, Callable[[Data], str]] = {
    "Read": _read, "readFile": _read, "Write": _written, "Edit": _edited, "MultiEdit": _edited,
    "Glob": _files, "searchFiles": _files, "Grep": _matches, "FileSearch": _replaced,
    "listFiles": _listed, "LS": _listed,
    "Bash": _ran, "executeCommand": _ran, "BashInput": _ran, "BashOutput": _shell, "KillShell": _shell,
}  # fmt: skip
