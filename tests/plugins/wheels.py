"""Wheels of plugins, made without a build tool, and the `ferrule` command in a home of its own."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path
from typing import Any

from ferrule.plugins.manifest import normal


def make_wheel(
    folder: Path,
    name: str = "wordy",
    code: str = "",
    *,
    version: str = "1.0",
    tools: dict[str, str] | None = None,
    needs: dict[str, list[str]] | None = None,
    requires: list[str] | None = None,
    table: str = "",
    members: dict[str, str] | None = None,
    project: str = "",
) -> Path:
    """A wheel whose package has this code; `tools` are names with kinds."""
    module = name.replace("-", "_").replace(".", "_")
    listed = ", ".join(f'{{ name = "{one}", kind = "{kind}" }}' for one, kind in (tools or {}).items())
    lines = [
        "[tool.ferrule.plugin]", f'name = "{name}"', f'version = "{version}"', 'publisher = "Ada"',
        'summary = "For tests"', f'entry = "{module}"', f"tools = [{listed}]", table, "[tool.ferrule.plugin.needs]",
        *(f"{key} = {value}" for key, value in (needs or {}).items()),
    ]  # fmt: skip
    info = f"{module}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {one}\n" for one in requires or [])
    files = {
        f"{module}/__init__.py": code,
        f"{module}/ferrule-plugin.toml": project or "\n".join(lines) + "\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **(members or {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{normal(name).replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        record = ""
        for path, text in files.items():
            archive.writestr(path, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(text.encode())}\n"
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return wheel


COUNT = """
from ferrule import tool

@tool(kind="readonly")
def count_words(text: str) -> int:
    '''Count the words of a text.'''
    return len(text.split())
"""


def wordy(folder: Path, **more: Any) -> Path:
    """A plugin that does what it says."""
    given: dict[str, Any] = {"code": COUNT, "tools": {"count_words": "readonly"}, **more}
    return make_wheel(folder, **given)
