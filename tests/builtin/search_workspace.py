"""A small project to search in, with the names that break naive tools."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from ferrule import Runtime, Session, ToolResult
from ferrule.core.tool import Tool

FILES = {
    "src/app.py": "import os\n\ndef main():\n    print('needle')\n",
    "src/util/text.py": "NEEDLE = 1\n# a needle, and a needle\n",
    "src/view.ts": "const needle = {}\n",
    "docs/a guide.md": "The needle.\r\n",
    "docs/名前.md": "needle 针\n",
    "-rf": "needle\n",
    ".config/settings.toml": "key = 'needle'\n",
    "build/out.txt": "needle\n",
    "node_modules/m/index.js": "needle\n",
    ".git/config": "needle\n",
    ".gitignore": "build/\n*.log\n",
    "trace.log": "needle\n",
}


def plant(folder: Path) -> Path:
    """A workspace in which every file is a second younger than the one before."""
    root = folder / "ws"
    for second, (name, text) in enumerate(FILES.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))
    return root


def ask(tool: Tool[Any], root: Path, arguments: dict[str, Any] | None = None, **session: Any) -> ToolResult:
    runtime = Runtime([tool], session=Session(workspace=root, **session))
    return asyncio.run(runtime.run(tool.name, arguments or {}))


def words(tool: Tool[Any], root: Path, arguments: dict[str, Any] | None = None) -> str:
    """What a model reads, without the name of the test's folder."""
    return ask(tool, root, arguments).llm_content.replace(str(root), "/ws")
