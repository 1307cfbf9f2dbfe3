"""The few words that a small model is shown: it reads slowly, and follows examples better than rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferrule.core.tool import Tool

NO_TOOL = "none"
_NOTHING_ASKED = "..."
_CHOOSE = f"""Pick the tool for each request, or {NO_TOOL}.

Request: thank you, that was nice
Tool: {NO_TOOL}

"""
_COPY = """Copy the part of the result that answers the question.

Question: which user am I?
Result:
name: ann
id: 1001
groups: staff, admin
Answer:
name: ann

Question: what is in this folder?
Result:
`.` holds 1 folder and 1 file:
src/
a.txt
Answer:
`.` holds 1 folder and 1 file:
src/
a.txt

Question: what does plan.txt say?
Result:
Meet Bob at noon.
Bring the map.
Answer:
Meet Bob at noon.
Bring the map.

"""
_SYSTEM = "You are Ferrule, an assistant for the files and programs of a project. Answer in one or two short sentences."
_FROM_RESULT = "Answer the question in one or two short sentences, with what the result says and nothing else."


def choose_prompt(request: str, tools: Sequence[Tool[Any]]) -> str:
    """Asks which tool is meant: an example of each, then the request."""
    return _CHOOSE + "".join(_example(tool) for tool in tools) + f"Request: {_line(request)}\nTool:"


def unasked_prompt(tools: Sequence[Tool[Any]]) -> str:
    """The same with no request: what a model says to this it says by habit, which is taken off its choice."""
    return choose_prompt(_NOTHING_ASKED, tools)


def arguments_prompt(request: str, tool: Tool[Any]) -> str:
    """Asks for the arguments of one tool: all its examples, then the request."""
    examples = "".join(_example(tool, at) for at in range(max(1, len(tool.description.examples))))
    return (
        f"{tool.name}: {tool.description.short}\n\n{examples}Request: {_line(request)}\nTool: {tool.name}\nArguments:"
    )


def passage_prompt(request: str, lines: Iterable[str]) -> str:
    """Asks for the lines of a result that answer."""
    return _COPY + f"Question: {_line(request)}\nResult:\n" + "\n".join(lines) + "\nAnswer:\n"


def result_messages(request: str, lines: Iterable[str]) -> list[dict[str, str]]:
    """Asks for words about a result."""
    shown = "\n".join(lines)
    asked = f"{request}\n\nResult:\n{shown}"
    return [{"role": "system", "content": _FROM_RESULT}, {"role": "user", "content": asked}]


def plain_messages(request: str) -> list[dict[str, str]]:
    """Asks for an answer without a tool."""
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": request}]


def _example(tool: Tool[Any], at: int = 0) -> str:
    examples = tool.description.examples
    if not examples:
        return f"Request: {_line(tool.description.short)}\nTool: {tool.name}\nArguments: {tool.expected_form}\n\n"
    one = examples[at]
    return f"Request: {one.description}\nTool: {tool.name}\nArguments: {json.dumps(dict(one.params))}\n\n"


def _line(text: str) -> str:
    return " ".join(text.split())
