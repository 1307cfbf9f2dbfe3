"""All that a model reads of a tool, as lines for the user who agrees to it; what addresses the model is marked.

Nothing is left out: names of parameters, enum values and defaults reach a model as well as descriptions do. A mark is a
help for the eye, and no list of words finds every sentence that steers a model; so all of it is shown, marked or not.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, cast

from ferrule.extension.hosting import plain_letters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LONGEST_LINE = 400
_MOST_COMPARED = 4_000_000
"""Pairs of lines; two definitions that have more are shown as a whole."""
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Of a schema: what holds schemas by names that others chose."""
_SCHEMAS = {"inputSchema": "input", "outputSchema": "output"}
_DIALECTS = ("http://json-schema.org/", "https://json-schema.org/")

_ADDRESSES = re.compile(
    r"""
    \b(?: always | never | ignor(?:e|es|ing) | disregard | overrid(?:e|es|ing) | secretly | silently | supersedes?
        | forget\s+(?:all|any|every|everything|about|what|your|the|previous|prior)
        | you\s+(?:must|should|shall|may\s+not|have\s+to|are\s+(?:required|not|now|an?)|will)
        | (?:do\s+not|don.?t|must\s+not|should\s+not|without)\s+(?:first\s+)?
          (?:tell|telling|mention|mentioning|inform|informing|reveal|revealing|ask|asking|show|showing|warn|warning
            |say|saying|use|using|call|calling|notify|notifying|confirm|confirming|disclose|disclosing)
        | (?:first|before|beforehand)[,:]?\s+(?:call|use|run|invoke|read|send)
        | (?:call|use|run|invoke)\s+(?:this|it|me|the\s+tool)?\s*(?:tool\s+)?(?:first|before|instead|every\s+time)
        | before\s+(?:(?:any|every|all|each)(?:\s+other)?|(?:using|calling|running)\s+(?:any|other|another|every))
        | instead\s+of\s+(?:any|other|another|every|all|the\s+other)
        | (?:prefer|only\s+use|use\s+only)\s+this | in\s+every\s+(?:answer|reply|response|turn)
        | (?:previous|prior|earlier|above|other|system|hidden|secret)\s+(?:instructions?|prompts?|rules?|messages?)
        | (?:user|owner|administrator)\s+has\s+(?:approved|agreed|allowed|authori[sz]ed|consented)
        | already\s+(?:been\s+)?(?:approved|agreed|allowed|authori[sz]ed|consented|confirmed)
        | (?:needs?|requires?)\s+no\s+(?:further\s+)?(?:approval|confirmation|permission|consent)
        | (?:the|an?|dear)\s+(?:assistant|agent|language\s+model|ai|llm) | as\s+an\s+(?:ai|assistant)
      )\b
    | \b(?:important|attention)\s*[:!] | (?:^|(?<=[.\n])|(?<=[.!?:,]\s))(?:system|assistant|developer)\s*:
    | </?\s*(?:system|important|instructions?|assistant|user|admin)\b
    | 始终|始終|总是|總是|永远|永遠|务必|務必|忽略|无视|無視|忘记|忘記|不得|切勿|请勿|請勿|绝不|絕不|绕过|繞過|悄悄
    | (?:不要|不能|别|別|无需|無需|不必|不用)再?
      (?:告诉|告訴|告知|提及|提到|透露|询问|詢問|显示|顯示|使用|调用|調用|通知|确认|確認|说|說)
    | (?:先|首先|优先|優先)请?(?:调用|調用|使用|运行|執行|执行|读取)
    | 在(?:任何|其他|所有|每次|每个|使用|调用)[^。\n]{0,20}(?:之前|以前|前) | 每次(?:都|回答|回复)
    | (?:系统|系統)(?:提示|消息|指令) | (?:之前|以上|上述|先前|原有)的?(?:指令|提示|规则|規則|说明)
    | (?:用户|用戶)已经?(?:批准|同意|授权|授權|允许|允許|确认|確認)
    | [你您](?:必须|应该|應該|需要|要|不)
    """,
    re.VERBOSE,
)


@dataclass(slots=True, frozen=True)
class ReadLine:
    """A line of what a model reads, and whether it is marked because it addresses the model."""

    text: str
    marked: bool = False


def read_lines(definition: Mapping[str, Any]) -> list[ReadLine]:
    """All that a model reads of a tool, from its definition in the form of MCP."""
    hints: Any = definition.get("annotations") or {}
    name = str(definition.get("name", ""))
    said = {key: one for key, one in {**hints, **definition}.items() if key in ("title", "description")}
    texts = [*_texts({key: one for key, one in said.items() if one != name}, name)]
    for key, label in _SCHEMAS.items():
        if key in definition:
            texts += _texts(definition[key], label)
    return [line for text in texts for line in _cut_into_lines(text)]


def changed_lines(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ReadLine]:
    """What a model reads otherwise than before: each line with `-` or `+` in front."""
    old, new = read_lines(before), read_lines(after)
    if len(old) * len(new) > _MOST_COMPARED:
        return [ReadLine(f"{sign}{one.text}", one.marked) for sign, some in (("-", old), ("+", new)) for one in some]
    found: list[ReadLine] = []
    for what, start, end, other_start, other_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what != "equal":
            found += [ReadLine(f"-{one.text}", one.marked) for one in old[start:end]]
            found += [ReadLine(f"+{one.text}", one.marked) for one in new[other_start:other_end]]
    return found


def _texts(value: Any, path: str, *, named: bool = False) -> Iterator[str]:
    """Everything in a schema, a line or more for each place in it: `input.text (string): Any text.`"""
    if isinstance(value, dict):
        fields = dict(cast("dict[str, Any]", value))
        head = path
        if not named:
            if isinstance(kind := fields.get("type"), str):
                head = f"{path} ({kind})"
                del fields["type"]
            if isinstance(said := fields.get("description"), str):
                head = f"{head}: {said}"
                del fields["description"]
            if str(fields.get("$schema", "")).startswith(_DIALECTS):
                del fields["$schema"]
            if fields.get("additionalProperties") is False:
                del fields["additionalProperties"]
        if head != path or not fields:
            yield head
        for name, one in fields.items():
            below = path if name == "properties" and not named else f"{path}.{name}"
            yield from _texts(one, below, named=name in _NAMED and not named)
    elif isinstance(value, list) and any(isinstance(one, (dict, list)) for one in cast("list[Any]", value)):
        for at, one in enumerate(cast("list[Any]", value), 1):
            yield from _texts(one, f"{path}.{at}")
    elif isinstance(value, list):
        yield f"{path}: {', '.join(map(_plain, cast('list[Any]', value)))}"
    else:
        yield f"{path}: {_plain(value)}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _cut_into_lines(text: str) -> Iterator[ReadLine]:
    """The text on lines that a screen shows whole. What is marked is looked for across them."""
    spans = [*addressing(text)]
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        at = start
        while at < end or at == start:
            stop = min(at + _LONGEST_LINE, end)
            if stop < end and (space := text.rfind(" ", at + _LONGEST_LINE // 2, stop)) > 0:
                stop = space + 1
            marked = any(first < stop and last > at for first, last in spans)
            if line.strip() or at == 0:
                yield ReadLine(("  " if at else "") + text[at:stop].rstrip(), marked)
            if stop <= at:
                break
            at = stop
        start = end + 1


def addressing(text: str) -> Iterable[tuple[int, int]]:
    """Where a text tells a model what to do, whatever letters, widths and invisible characters it is written with."""
    letters, places = plain_letters(text)
    for found in _ADDRESSES.finditer(letters):
        yield places[found.start()], places[found.end() - 1] + 1
