"""How often a model on this machine picks the right tool and the right arguments, and how long it takes.

    python benchmarks/local_model.py [--model smollm2-135m] [--part held-out] [--seconds 3600] [--all]

The requests are in local_requests.json, in English and Chinese, over all built-in tools. `tuning` ones were looked at
while the help for small models was made, `held-out` ones were not. Where several calls would do, each counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.model import Finished, ModelRequest, ModelSettings, UserMessage
from ferrule.models.local.local_model import local_model

if TYPE_CHECKING:
    from ferrule.core.call import RawCall

REQUESTS = Path(__file__).with_name("local_requests.json")
TOOLS = {tool.name: tool for tool in builtin_tools(family="all")}


def right_arguments(call: RawCall, accepted: dict[str, Any]) -> bool:
    """Whether a call is what one of the accepted forms says; what is not said must be left at its default."""
    given = json.loads(call.arguments)
    schema: Any = TOOLS[call.name].input_schema
    free = accepted.get("any", [])
    for name, wanted in accepted["arguments"].items():
        default = schema["properties"][name].get("default")
        value = given.get(name, default)
        if value not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    others = set(given) - set(accepted["arguments"]) - set(free)
    return all(given[name] == schema["properties"].get(name, {}).get("default", object()) for name in others)


def judge(call: RawCall | None, accept: list[dict[str, Any]]) -> tuple[bool, bool]:
    """Whether the tool is right, and the arguments too; no call is right where none is wanted."""
    if call is None or not accept:
        right = call is None and not accept
        return right, right
    fitting = [one for one in accept if one["tool"] == call.name]
    return bool(fitting), any(right_arguments(call, one) for one in fitting)


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", default="smollm2-135m")
    options.add_argument("--part", choices=("tuning", "held-out"))
    options.add_argument("--seconds", type=float, default=3600, help="stop after so long, and report what there is")
    options.add_argument("--all", action="store_true", help="show every request, not only the wrong ones")
    given = options.parse_args()
    rows: list[dict[str, Any]] = json.loads(REQUESTS.read_text(encoding="utf-8"))
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    taken: list[float] = []
    asked = 0
    model = local_model(given.model)
    begin = time.perf_counter()
    await model.prepare(print)
    print(f"{model.name}: ready after {time.perf_counter() - begin:.1f} s")
    for row in rows:
        if given.part not in (None, row["part"]) or time.perf_counter() - begin > given.seconds:
            continue
        start = time.perf_counter()
        call: RawCall | None = None
        request = ModelRequest(
            [UserMessage(row["request"])],
            tools=builtin_tools(family="all"),
            settings=ModelSettings(max_output_tokens=1),
        )
        async for event in model.stream(request):
            if isinstance(event, Finished):
                call = event.message.calls[0] if event.message.calls else None
                asked += event.usage.output_tokens > 0
        taken.append(time.perf_counter() - start)
        tool, arguments = judge(call, row["accept"])
        for key in ((row["part"], row["language"]), (row["part"], "both")):
            counts[key] = [old + new for old, new in zip(counts[key], (1, tool, arguments), strict=True)]
        if given.all or not arguments:
            shown = f"{call.name} {call.arguments}" if call else "no call"
            verdict = "ok" if arguments else "arguments" if tool else "tool"
            print(f"{verdict:9} {taken[-1]:5.1f} s  {row['request']}  →  {shown}")
    await model.close()
    print(f"{'part':9} {'language':8} {'requests':>8} {'tool':>5} {'and arguments':>14}")
    for (part, language), (total, tool, arguments) in sorted(counts.items()):
        print(f"{part:9} {language:8} {total:8} {tool:5} {arguments:14}")
    taken.sort()
    if taken:
        print(
            f"a call: median {taken[len(taken) // 2]:.2f} s, slowest {taken[-1]:.2f} s; the model was asked in {asked}"
        )


if __name__ == "__main__":
    asyncio.run(main())
