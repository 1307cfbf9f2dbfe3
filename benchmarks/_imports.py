"""What importing Ferrule costs, in CPU time of fresh processes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from _measure import Row

SOURCE = Path(__file__).parents[1] / "src"
STATEMENTS = {
    "nothing": "pass",
    "pydantic": "from pydantic import BaseModel",
    "ferrule": "import ferrule",
    "runtime": "from ferrule import Runtime, tool",
}


def measure_imports(rounds: int) -> list[Row]:
    """Each statement in its own process, in turn; the least CPU of each counts."""
    least = dict.fromkeys(STATEMENTS, float("inf"))
    for _ in range(rounds):
        for name, statement in STATEMENTS.items():
            least[name] = min(least[name], _cpu(statement))
    bare, peer = least["nothing"], least["pydantic"]
    behind = f"{peer:.0f} ms for pydantic's BaseModel, {bare:.0f} ms for Python alone"
    return [
        Row("g. import ferrule", least["ferrule"] / peer, "×", 1.6, f"{least['ferrule']:.0f} ms CPU; {behind}"),
        Row(
            "   from ferrule import Runtime, tool", least["runtime"] / peer, "×", None, f"{least['runtime']:.0f} ms CPU"
        ),
    ]


def _cpu(statement: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": ""}  # compiled, as installed
    subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3
