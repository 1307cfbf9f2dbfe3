"""The properties of a note: the YAML between `---` lines at its start, read, and changed key by key.

What is not set stays as it is, to the byte: order, comments, quotes and line endings of every other key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import accumulate
from typing import Any, ClassVar, Literal, cast

from ferrule import ToolError
from ferrule.extension import Edit, apply_edits, phrase
from ferrule.toolbox.failures import invalid

_OPENING = re.compile(r"---[ \t]*(?:\r\n|\n|\r)")
_CLOSING = re.compile(r"(?<=[\r\n])---[ \t]*(?:\r\n|\n|\r|\Z)")
_MOST = 100_000
"""Characters of YAML that are read; nobody writes more by hand."""
_DEEPEST = 100
_ENDINGS = re.compile(r"\r\n|\n|\r")
_COMMENT = re.compile(r"[ \t]+#")


def front_matter_span(text: str) -> tuple[int, int, int] | None:
    """Where the YAML starts and ends, and where the note's body starts; None where there is no front matter."""
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    return (opening.end(), closing.start(), closing.end()) if opening and closing else None


def properties(text: str) -> dict[str, Any]:
    """What the front matter says. Dates stay text; `ToolError` where it is not a YAML mapping."""
    span = front_matter_span(text)
    return {} if span is None else _read(text[span[0] : span[1]])


def quoted_texts(text: str) -> Iterator[tuple[int, int, str]]:
    """Where each text of the front matter stands, and how it is quoted; none where that is not YAML."""
    span = front_matter_span(text)
    if span is None or "[[" not in text[span[0] : span[1]]:
        return
    try:
        waiting = [_parsed(text[span[0] : span[1]], "compose")]
    except ToolError:
        return
    while waiting:
        node = waiting.pop()
        if isinstance(node, str | None):
            continue
        if node.id == "scalar":
            yield span[0] + node.start_mark.index, span[0] + node.end_mark.index, node.style or ""
        else:
            waiting += [one for pair in node.value for one in pair] if node.id == "mapping" else node.value


def property_edits(text: str, changes: Mapping[str, Any]) -> list[Edit]:
    """What to change in a note so that these properties are set; None removes one."""
    newline = found[0] if (found := _ENDINGS.search(text)) else "\n"
    kept = {name: value for name, value in changes.items() if value is not None}
    span = front_matter_span(text)
    if span is None:
        block = "".join(_entry(name, value) for name, value in kept.items())
        return [Edit(0, 0, f"---\n{block}---\n".replace("\n", newline))] if kept else []
    yaml_text = text[span[0] : span[1]]
    before = _read(yaml_text)
    node = _parsed(yaml_text, "compose")
    pairs: list[Any] = [] if node is None else node.value
    if node is not None and node.flow_style:
        raise _unchangeable(phrase("its properties are written in braces"))
    edits: list[Edit] = []
    for name, value in changes.items():
        matching = [pair for pair in pairs if pair[0].value == name]
        if len(matching) > 1:
            raise _unchangeable(phrase("`{name}` is there more than once", name=name))
        if matching:
            edits.append(_changed(yaml_text, matching[0], value))
    added = "".join(_entry(name, value) for name, value in kept.items() if name not in before)
    if added:
        edits.append(Edit(len(yaml_text), len(yaml_text), added))
    edits = sorted((Edit(one.start, one.end, one.new.replace("\n", newline)) for one in edits), key=lambda e: e.start)
    whole = {**before, **changes}
    expected = {name: value for name, value in whole.items() if value is not None or name not in changes}
    if _read(apply_edits(yaml_text, edits)) != expected:
        raise _unchangeable(phrase("the change would alter other properties"))
    return [Edit(one.start + span[0], one.end + span[0], one.new) for one in edits]


def _changed(yaml_text: str, pair: tuple[Any, Any], value: Any) -> Edit:
    """One key with another value, or without the whole of its lines."""
    key, old = pair
    end = _content_end(old)
    if value is None:
        start = max(yaml_text.rfind(mark, 0, key.start_mark.index) for mark in "\r\n") + 1
        line_end = _ENDINGS.search(yaml_text, end)
        return Edit(start, line_end.end() if line_end else len(yaml_text), "")
    colon = yaml_text.index(":", key.end_mark.index) + 1
    flow = old.id != "scalar" and bool(old.flow_style)
    if isinstance(value, list) and value and not flow and not _COMMENT.match(yaml_text, end):
        new = _entry("k", cast("Any", value)).removeprefix("k:").rstrip("\n")
    else:
        new = " " + _flow(value)
    on_the_line = _ENDINGS.split(yaml_text[colon:end], maxsplit=1)[0]
    if old.id != "scalar" and not flow and _COMMENT.search(on_the_line):  # `key: # why`, and the value below it
        colon += len(on_the_line)
        new = new if new.startswith("\n") else f"\n {new}"
    return Edit(colon, max(end, colon), new)


def _content_end(node: Any) -> int:
    """Where a value ends, without the comments and blank lines after it."""
    if node.id != "scalar" and not node.flow_style and node.value:
        last = node.value[-1]
        return _content_end(last[1] if node.id == "mapping" else last)
    if node.id == "scalar" and node.style in ("|", ">"):
        written: str = node.start_mark.buffer[node.start_mark.index : node.end_mark.index]
        return node.start_mark.index + len(written.rstrip())
    return node.end_mark.index


def _read(yaml_text: str) -> dict[str, Any]:
    found = _parsed(yaml_text.rstrip("\0"), "load")
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _unreadable(phrase("it is not a list of `name: value`"))
    return {str(name): value for name, value in cast("dict[Any, Any]", found).items()}


def _parsed(yaml_text: str, how: Literal["load", "compose"]) -> Any:
    """Refuses what would take pyyaml minutes: its time grows with the square of the depth."""
    import yaml

    if len(yaml_text) > _MOST:
        raise _unreadable(phrase("it has more than {most} characters", most=f"{_MOST:,}"))
    depths = accumulate((one in "[{") - (one in "]}") for one in yaml_text)
    if max(depths, default=0) > _DEEPEST:
        raise _unreadable(phrase("it is nested too deeply"))
    try:
        return getattr(yaml, how)(yaml_text, _loader())
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or phrase("it is nested too deeply")
        why = phrase("{problem} in line {n}", problem=problem, n=mark.line + 2) if mark else str(problem)
        raise _unreadable(why) from None


def _entry(name: str, value: Any) -> str:
    import yaml

    if isinstance(value, list) and value:
        items = "".join(f"  - {_flow(one)}\n" for one in cast("list[Any]", value))
        return f"{_flow(name)}:\n{items}"
    written = yaml.dump({name: None}, Dumper=_dumper(), allow_unicode=True, width=10**9).rsplit(":", 1)[0]
    return f"{written}: {_flow(value)}\n"


def _flow(value: Any) -> str:
    """A value on one line."""
    import yaml

    written = yaml.dump(value, Dumper=_dumper(), allow_unicode=True, width=10**9, default_flow_style=True)
    return written.removesuffix("\n").removesuffix("\n...")


@cache
def _loader() -> Any:
    """Reads as Obsidian does: `yes` and dates are texts. Aliases, which may grow without end, are refused."""
    import yaml
    from yaml.composer import ComposerError

    class PropertyLoader(yaml.SafeLoader):
        yaml_implicit_resolvers: ClassVar[Any] = {}

        def compose_node(self, parent: Any, index: Any) -> Any:
            events = cast("Any", self)
            if events.check_event(yaml.AliasEvent):
                mark = events.peek_event().start_mark
                raise ComposerError(None, None, "aliases are not supported", mark)
            return super().compose_node(parent, index)

    plain = {"null": r"~|null|Null|NULL|", "bool": r"true|True|TRUE|false|False|FALSE", "int": r"[-+]?\d+",
             "float": r"[-+]?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+"}  # fmt: skip
    for name, pattern in plain.items():
        PropertyLoader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(f"(?:{pattern})$"), None)  # type: ignore[reportUnknownMemberType]
    # `010` is ten, and not the eight of YAML 1.1.
    PropertyLoader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(cast("Any", node).value))  # type: ignore[reportUnknownMemberType]
    PropertyLoader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(cast("Any", node).value))  # type: ignore[reportUnknownMemberType]
    return PropertyLoader


@cache
def _dumper() -> Any:
    """Quotes what any YAML reader could take for something else, dates excepted."""
    import yaml

    class PropertyDumper(yaml.SafeDumper):
        yaml_implicit_resolvers: ClassVar[Any] = {
            first: [one for one in known if not one[0].endswith(":timestamp")]
            for first, known in yaml.SafeDumper.yaml_implicit_resolvers.items()
        }

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        style = '"' if _ENDINGS.search(value) or re.fullmatch(r"[-+.\d]*[eE.][-+\d]*", value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    PropertyDumper.add_representer(str, text)
    return PropertyDumper


def _unreadable(why: str) -> ToolError:
    return invalid(
        phrase("The front matter cannot be read: {why}.", why=why),
        phrase("Correct the lines between the `---` with Edit."),
    )


def _unchangeable(why: str) -> ToolError:
    return invalid(
        phrase("The front matter was not changed: {why}.", why=why),
        phrase("Change the lines between the `---` with Edit."),
    )
