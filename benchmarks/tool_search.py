"""Finding one tool of more than a thousand: how often, how fast, and what it saves, beside `bm25s` in the same run.

    python benchmarks/tool_search.py [--cache FOLDER] [--json]

The tools are those of public packages, which npm fetches into the cache: GitHub's REST API (@octokit/openapi, MIT),
Notion's (@notionhq/notion-mcp-server, MIT), and AMap's MCP server, whose descriptions are Chinese
(@amap/amap-maps-mcp-server, ISC). The questions in `tool_search_questions.json` were written by hand from what a person
wants to do. Without `bm25s` (`pip install bm25s`) its columns are left out. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, Any

from _measure import Row, report
from ferrule import Registry, Runtime, Tool, raw_tool
from ferrule.core.tool import description_of
from ferrule.dialects import Exporter
from ferrule.registry.search import ToolIndex
from ferrule.registry.search_tools import ToolSearch
from ferrule.toolbox.openapi import OpenApi, read_document

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTIONS = Path(__file__).parent / "tool_search_questions.json"
DOCUMENTS = {
    "@octokit/openapi@23.0.2": "generated/api.github.com.json",
    "@notionhq/notion-mcp-server@2.5.2": "scripts/notion-openapi.json",
}
SERVER = "@amap/amap-maps-mcp-server@0.0.8"
SIZES = 100, 1_000, 10_000
FOUND = 5
CHARACTERS_A_TOKEN = 4

# The tools of the packages


def package(name: str, cache: Path) -> Path:
    """The files of an npm package."""
    folder = cache / re.sub(r"\W+", "-", name).strip("-")
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(["npm", "pack", name], cwd=cache, check=True, capture_output=True, text=True)
        with tarfile.open(cache / packed.stdout.split()[-1]) as archive:
            archive.extractall(folder, filter="data")
    return next(folder.iterdir())


def api_tools(document: Path) -> list[Tool[Any]]:
    """The operations of an OpenAPI document."""
    tools: list[Tool[Any]] = []
    for one in OpenApi(read_document(document), "https://api.example.com").operations:
        description = f"{one.summary}\n\n{one.description}"
        tools.append(raw_tool(one.id, one.details.schema, str, description=description, kind="readonly"))
    return tools


def server_tools(source: str) -> list[Tool[Any]]:
    """The tools that a server's script declares, with their descriptions and parameters, without running it."""
    tools: list[Tool[Any]] = []
    for block in re.split(r'(?=^    name: ")', source, flags=re.MULTILINE)[1:]:
        name = block.split('"')[1]
        said = re.findall(r'(?:^ {4}|^ {8,})description: "([^"]*)"', block, re.MULTILINE)
        if not said:
            continue  # the server's own name
        keys = re.findall(r"^ {12}(\w+): \{", block, re.MULTILINE)
        properties = {key: {"type": "string", "description": one} for key, one in zip(keys, said[1:], strict=False)}
        schema = {"type": "object", "properties": properties}
        tools.append(raw_tool(name, schema, str, description=said[0], kind="readonly"))
    return tools


def all_tools(cache: Path) -> list[Tool[Any]]:
    tools = [one for name, path in DOCUMENTS.items() for one in api_tools(package(name, cache) / path)]
    return [*tools, *server_tools((package(SERVER, cache) / "build" / "index.js").read_text())]


# The two engines


def ours(tools: list[Tool[Any]]) -> Any:
    registry = Registry(tools)

    def search(question: str) -> list[str]:
        return [one.name for one in registry.search(question, 10)]

    return search


def text_of(tool: Tool[Any]) -> str:
    """All that is said of a tool, as an engine without fields reads it."""
    properties: dict[str, Any] = tool.input_schema.get("properties", {})
    said = " ".join(f"{name} {one.get('description', '')}" for name, one in properties.items())
    return f"{tool.name} {description_of(tool).text} {said}"


def theirs(tools: list[Tool[Any]], texts: list[str]) -> Any:
    import bm25s

    engine = bm25s.BM25()
    engine.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def search(question: str) -> list[str]:
        words = bm25s.tokenize([question], show_progress=False)
        most = min(10, len(tools))
        found = engine.retrieve(words, k=most, show_progress=False)
        return [tools[at].name for at, score in zip(found[0][0], found[1][0], strict=True) if score > 0]

    return search


# What is measured


def recall(search: Any, questions: list[dict[str, Any]]) -> float:
    """The share of questions for which one of the right tools is among the first five, in per cent."""
    return (
        100
        * sum(not set(one["tools"]).isdisjoint(search(one["question"])[:FOUND]) for one in questions)
        / len(questions)
    )


def measure_recall(tools: list[Tool[Any]], questions: list[dict[str, Any]], *, beside: bool) -> list[Row]:
    names = {one.name for one in tools}
    if wrong := {name for one in questions for name in one["tools"]} - names:
        sys.exit(f"The questions name tools that there are not: {sorted(wrong)}")
    own, other = ours(tools), theirs(tools, [text_of(one) for one in tools]) if beside else None
    rows: list[Row] = []
    for kind in dict.fromkeys(one["kind"] for one in questions):
        some = [one for one in questions if one["kind"] == kind]
        mine = recall(own, some)
        note = f"bm25s {recall(other, some):.0f} %" if other is not None else ""
        # A bar is a largest value: what is missed must be no more than what the other misses.
        bar = 100 - recall(other, some) if other is not None else None
        rows.append(
            Row(f"not among the first {FOUND} of {len(tools):,}: {kind} ({len(some)})", 100 - mine, "%", bar, note)
        )
    return rows


def measure_cost(tools: list[Tool[Any]], questions: list[str], *, beside: bool) -> list[Row]:
    rows: list[Row] = []
    for size in SIZES:
        some = [copied(tools[at % len(tools)], at // len(tools)) for at in range(size)]
        texts = [text_of(one) for one in some]
        registry = Registry(some)
        index = cpu(lambda registry=registry: registry.search("first"))
        query = median(cpu(lambda one=one, registry=registry: registry.search(one, 10)) for one in questions)
        change: list[float] = []
        for at in range(9):
            registry.register(copied(tools[at], 99), replace=True)
            change.append(cpu(registry._up_to_date_index))  # pyright: ignore[reportPrivateUsage]
        one_tool = median(cpu(lambda at=at: ToolIndex().put("x", tools[at])) for at in range(9))
        made: list[Any] = []
        other = cpu(lambda some=some, texts=texts, made=made: made.append(theirs(some, texts))) if beside else 0.0
        asked = median(cpu(lambda one=one, made=made: made[0](one)) for one in questions) if beside else 0.0
        rows += [
            Row(f"{size:,} tools: index", index, "ms", None, f"bm25s {other:.3g} ms" if beside else "CPU"),
            Row(f"{size:,} tools: query", query, "ms", None, f"bm25s {asked:.3g} ms" if beside else "median"),
            Row(f"{size:,} tools: one tool changed", median(change), "ms", 20 * one_tool,
                f"indexing one alone {one_tool:.3g} ms; bm25s indexes all again" if beside else ""),
        ]  # fmt: skip
    return rows


def measure_tokens(tools: list[Tool[Any]], questions: list[str]) -> list[Row]:
    some = tools[-1_000:]
    whole = tokens(some)
    first: list[int] = []
    after: list[int] = []
    for question in questions:
        runtime = Runtime(some).with_search(ToolSearch(most=FOUND))
        first.append(tokens(runtime.tools.tools()))
        view: Any = runtime.tools
        view.show(view.find([question]))
        after.append(tokens(runtime.tools.tools()))
    return [
        Row("1,000 tools: tokens of all definitions", whole, "", None, f"{CHARACTERS_A_TOKEN} characters each"),
        Row("… before a search, of all", 100 * median(first) / whole, "%", 15.0, f"{median(first):,.0f} tokens"),
        Row("… after a search, of all", 100 * median(after) / whole, "%", 15.0, f"{median(after):,.0f} tokens"),
    ]  # fmt: skip


def tokens(tools: list[Tool[Any]]) -> int:
    definitions = Exporter("anthropic").definitions(tools)
    return len(json.dumps(definitions, ensure_ascii=False)) // CHARACTERS_A_TOKEN


def copied(tool: Tool[Any], number: int) -> Tool[Any]:
    """The tool once more, under a name of its own."""
    name = f"{tool.name}_{number}"[:128]
    return raw_tool(name, tool.input_schema, str, description=description_of(tool).text, kind="readonly")


def cpu(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return (process_time() - began) * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description="How well and how fast tools are found.")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "ferrule-benchmarks")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = parser.parse_args()
    tools, questions = all_tools(given.cache), json.loads(QUESTIONS.read_text())
    beside = find_spec("bm25s") is not None
    if not beside:
        print("bm25s is not installed, so nothing is compared with it.", file=sys.stderr)
    asked = [one["question"] for one in questions]
    rows = measure_recall(tools, questions, beside=beside)
    rows += measure_tokens(tools, asked[:20])
    rows += measure_cost(tools, asked, beside=beside)
    return report(rows, as_json=given.json)


if __name__ == "__main__":
    raise SystemExit(main())
