"""Makes the pages of the site that nobody writes: tools, commands, the Python modules, and what lies beside `docs`."""

from __future__ import annotations

import posixpath
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "src")]

from command_page import command_reference  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402
from tool_pages import tool_pages  # noqa: E402

MODULES = (
    "ferrule", "ferrule.tools", "ferrule.policy", "ferrule.hooks", "ferrule.mcp", "ferrule.agent", "ferrule.code",
    "ferrule.models", "ferrule.adapters", "ferrule.records", "ferrule.dialects", "ferrule.testing", "ferrule.client",
    "ferrule.intents", "ferrule.remote", "ferrule.extension", "ferrule.extension.hosting",
)  # fmt: skip
"""All that is public."""

BESIDE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages of the repository's top folder, and where they are on the site."""

_LINK = re.compile(r"(\]\()((?!https?:|#|mailto:)[^)#\s]+)")
_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`]+`")
"""In a table GitHub wants a backslash before a bar, also inside code; Markdown for Python would show it."""
_COMMANDS_MARK = "<!-- the reference of every command -->"
_pages: dict[str, str] = {}


def on_config(config: Any) -> None:
    """Make the generated pages, and put them into the navigation."""
    _pages.clear()
    tools = {f"reference/tools/{name}": text for name, text in tool_pages().items()}
    modules = {f"reference/python/{name}.md": _module_page(name) for name in MODULES}
    _pages.update({**tools, **modules})
    _pages.update({ours: (ROOT / theirs).read_text(encoding="utf-8") for theirs, ours in BESIDE.items()})
    generated = {"Built-in tools": [*tools], "Python": ["reference/api.md", *modules]}
    reference = next(part["Reference"] for part in config.nav if "Reference" in part)
    for entry in reference:
        entry.update({title: generated[title] for title, page in entry.items() if page == "GENERATED"})


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    for path, text in _pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """What the site needs otherwise than GitHub: links out of `docs`, bars in tables, the commands in their place."""
    here = page.file.src_uri
    beside = {ours: theirs for theirs, ours in BESIDE.items()}.get(here)
    folder = posixpath.dirname(beside or f"docs/{here}")

    def led(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found[2]))
        if target in BESIDE:
            inside = BESIDE[target]
        elif beside and target.startswith("docs/"):
            inside = target.removeprefix("docs/")
        else:
            return found[0]
        return found[1] + posixpath.relpath(inside, posixpath.dirname(here) or ".")

    if _COMMANDS_MARK in markdown:
        markdown = markdown.replace(_COMMANDS_MARK, command_reference())
    markdown = _ROW.sub(lambda row: _CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown)
    return _LINK.sub(led, markdown)


def _module_page(name: str) -> str:
    module = import_module(name)
    names = sorted((one for one in module.__all__ if not one.startswith("__")), key=str.lower)
    # A name that a submodule has too is described where it comes from: its documentation is looked for by path.
    hidden = [one for one in names if find_spec(f"{name}.{one}") is not None] if hasattr(module, "__path__") else []
    members = "".join(f"\n        - {one}" for one in names if one not in hidden)
    page = f"# {name}\n\n::: {name}\n    options:\n      members:{members}\n"
    for one in hidden:
        page += f"\n::: {getattr(module, one).__module__}.{one}\n    options:\n      show_root_heading: true\n"
    return page
