"""What isolation costs, in one run: `python benchmarks/plugins.py`.

The same echo as a plugin in its box and as a bare server of the SDK outside of any, called through the same runtime in
turn; and `ferrule tools` without plugins and with twenty. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

from _measure import Row, in_turn, report

HERE = Path(__file__).parent
CALL_BAR, START_BAR, PLUGINS = 1.2, 1.1, 20
CODE = '''
from ferrule import tool

@tool(kind="readonly")
async def echo(text: str) -> str:
    """Say it again."""
    return text
'''


def main() -> int:
    arguments = argparse.ArgumentParser(description="What isolating plugins costs.")
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments.add_argument("--rounds", type=int, default=200)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FERRULE_DATA"] = f"{folder}/data"
        os.environ["FERRULE_CONFIG"] = os.devnull
        workspace = Path(folder, "workspace")
        workspace.mkdir()
        wheels = [_wheel(Path(folder, "wheels"), f"echo-{at}") for at in range(PLUGINS)]
        for wheel in wheels:
            subprocess.run(
                [sys.executable, "-m", "ferrule", "plugin", "install", str(wheel), "--yes"],
                cwd=workspace, check=True, capture_output=True,
            )  # fmt: skip
        rows = [asyncio.run(_call(workspace, chosen.rounds)), _start(workspace, Path(folder, "empty"))]
    return report(rows, as_json=chosen.json)


def _wheel(folder: Path, name: str) -> Path:
    sys.path.insert(0, str(HERE.parent))
    from tests.plugins.wheels import make_wheel

    return make_wheel(folder, name, CODE, tools={"echo": "readonly"})


async def _call(workspace: Path, rounds: int) -> Row:
    from ferrule import RulePolicy, Runtime
    from ferrule.mcp_client.server_config import ServerConfig
    from ferrule.mcp_client.servers import Servers
    from ferrule.plugins.enabled import enabled_plugins
    from ferrule.registry.registry import Registry

    registry = Registry()
    bare = ServerConfig("bare", (sys.executable, str(HERE / "_mcp_gateway_servers.py"), "bare", str(workspace)))
    agreed = [one for one in enabled_plugins(workspace)[0] if one.name == "echo-0"]
    servers = Servers([bare], registry, folders=[workspace], data=workspace / "data", agreed=agreed)
    runtime = Runtime(registry, policy=RulePolicy(allow=["mcp__*"], doubts=servers.approvals))
    try:
        await servers.start()

        async def through(tool: str) -> None:
            result = await runtime.run(tool, {"text": "hello"})
            assert result.llm_content == "hello", result.llm_content

        times = await in_turn(
            {"plugin": lambda: through("mcp__echo-0__echo"), "bare": lambda: through("mcp__bare__echo")}, rounds=rounds
        )
    finally:
        await servers.close()
    ratio = times["plugin"].best / times["bare"].best
    note = f"{times['plugin'].best * 1e3:.2f} ms against {times['bare'].best * 1e3:.2f} ms"
    return Row("a call to a plugin in its box, against a bare MCP server", ratio, "×", CALL_BAR, note)


def _listing(workspace: Path, data: Path | None = None) -> float:
    """The processor's seconds of one listing: what else the machine does counts less than on the clock."""
    environment = {**os.environ, **({"FERRULE_DATA": str(data)} if data else {})}
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "ferrule", "tools"], cwd=workspace, env=environment, check=True, capture_output=True
    )
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _start(workspace: Path, empty: Path) -> Row:
    pairs = [(_listing(workspace), _listing(workspace, empty)) for _ in range(15)]
    with_plugins, without = (min(one[at] for one in pairs) for at in (0, 1))
    middle = median(one[0] for one in pairs) / median(one[1] for one in pairs)
    note = f"{with_plugins * 1e3:.0f} ms against {without * 1e3:.0f} ms; medians {middle:.2f} ×"
    return Row(f"`ferrule tools` with {PLUGINS} plugins, against none", with_plugins / without, "×", START_BAR, note)


if __name__ == "__main__":
    sys.exit(main())
