"""A new plugin to begin with, and what is wrong with one before it is published."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.extension import phrase
from ferrule.plugins.manifest import PLUGIN_NAME, Manifest, PluginError, normal, read_project

if TYPE_CHECKING:
    from pathlib import Path


_PROJECT = """\
[project]
name = "{name}"
version = "0.1.0"
description = "Says how many words a text has"
requires-python = ">=3.11"
dependencies = []

[tool.ferrule.plugin]
publisher = "Your name"
ferrule = ">={ferrule}"
entry = "{module}"
tools = [{{ name = "count_words", kind = "readonly", summary = "Count the words of a text" }}]

# What it needs beyond its own files; its user sees this, agrees to it, and the sandbox holds it to it.
[tool.ferrule.plugin.needs]
hosts = []      # ["api.example.com"]
folders = []    # ["."] to read the workspace, [".:write"] to change it
secrets = []    # ["EXAMPLE_TOKEN"]
programs = []   # ["git"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["{module}"]

[tool.hatch.build.targets.wheel.force-include]
"pyproject.toml" = "{module}/ferrule-plugin.toml"
"""
_CODE = '''\
"""Tools for Ferrule: every function with `@tool` is one."""

from ferrule import tool


@tool(kind="readonly")
def count_words(text: str) -> int:
    """Count the words of a text.

    Args:
        text: The text to count in.
    """
    return len(text.split())
'''
_TEST = """\
from ferrule import Runtime

from {module} import count_words


def test_words_are_counted():
    result = Runtime([count_words]).run_sync("count_words", {{"text": "one two three"}})
    assert result.data == 3
"""
_README = """\
# {name}

A plugin for Ferrule. Try it, check it, build it, install it:

    pytest
    ferrule plugin check
    pip wheel --no-deps --wheel-dir dist .
    ferrule plugin install dist/*.whl
"""


def make_plugin(folder: Path, name: str, ferrule: str) -> list[Path]:
    """The files of a plugin that works, in a folder that is new or empty."""
    if not PLUGIN_NAME.fullmatch(name) or "/" in name:
        raise PluginError(
            phrase("`{name}` cannot name a plugin.", name=name),
            suggestion=phrase("Use small letters, digits, `.`, `_` and `-`."),
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PluginError(phrase("`{folder}` is there already and not empty. Nothing was written.", folder=folder))
    module = re.sub(r"[^a-z0-9_]", "_", name)
    if not module.isidentifier():
        module = f"plugin_{module}"
    files = {
        "pyproject.toml": _PROJECT.format(name=name, module=module, ferrule=ferrule),
        f"{module}/__init__.py": _CODE,
        "tests/test_tools.py": _TEST.format(module=module),
        "README.md": _README.format(name=name),
    }
    made: list[Path] = []
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        made.append(file)
    return made


def check_plugin(folder: Path) -> tuple[Manifest, list[str]]:
    """What a project declares, and what its users would stumble over; raises `PluginError` where it declares nothing.

    Its code is imported, as its author's tests do.
    """
    file = folder / "pyproject.toml"
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise PluginError(
            phrase("{file} cannot be read: {why}.", file=file, why=error.strerror),
            suggestion=phrase("`ferrule plugin new NAME` begins a plugin."),
        ) from None
    except UnicodeDecodeError:
        raise PluginError(phrase("{file} is not UTF-8.", file=file)) from None
    try:
        manifest = read_project(text)
    except PluginError as error:
        raise PluginError(phrase("{file}: {why}.", file=file, why=error.message)) from None
    return manifest, [*_of_declaration(manifest, text), *_of_code(folder, manifest)]


def _of_declaration(manifest: Manifest, text: str) -> list[str]:
    needed: dict[str, object] = {
        phrase("`entry` is missing: name the module that holds the tools."): manifest.entry,
        phrase("`tools` is missing: list each tool with its kind, so that users see them before."): manifest.tools,
        phrase("`publisher` is missing: users want to know who you are."): manifest.publisher,
        phrase("`description` is missing in [project]."): manifest.summary,
    }
    found = [words for words, given in needed.items() if not given]
    found += [
        phrase("`{name}` has no kind: write readonly, write or execute.", name=one.name)
        for one in manifest.tools
        if one.kind == "unknown"
    ]
    if normal(manifest.package) != normal(manifest.short_name):
        found.append(
            phrase("The plugin is called `{name}`, and its package `{package}`: give both the same name.",
                   name=manifest.name, package=manifest.package)
        )  # fmt: skip
    if "ferrule-plugin.toml" not in text:
        found.append(
            phrase('The wheel would carry no declaration: add "pyproject.toml" = "PACKAGE/ferrule-plugin.toml" to '
                   "[tool.hatch.build.targets.wheel.force-include].")
        )  # fmt: skip
    return found


def _of_code(folder: Path, manifest: Manifest) -> list[str]:
    """Whether its tools are those that it declares."""
    import sys

    from ferrule.plugins.discovery import load_entry
    from ferrule.plugins.plugin import reason_of

    if not manifest.entry:
        return []
    paths = [str(folder), str(folder / "src")]
    sys.path[:0] = paths
    try:
        plugin, broken = load_entry(manifest.entry, manifest.short_name, manifest.version)
    except Exception as error:  # noqa: BLE001 - whatever its code does is a finding
        return [phrase("`{entry}` cannot be loaded: {why}.", entry=manifest.entry, why=reason_of(error))]
    finally:
        for path in paths:
            sys.path.remove(path)
    found = [f"{one.source}: {one.reason}" for one in broken]
    kinds = {tool.name: tool.kind.value for tool in plugin.tools}
    declared = {one.name: one.kind for one in manifest.tools}
    found += [phrase("`{name}` is not in `tools`.", name=name) for name in kinds if name not in declared]
    for name, kind in declared.items():
        if name not in kinds:
            found.append(phrase("`{name}` is in `tools`, but the code has no such tool.", name=name))
        elif kind not in (kinds[name], "unknown"):
            found.append(
                phrase("`{name}` is {declared} in `tools`, but {found} in the code.",
                       name=name, declared=kind, found=kinds[name])
            )  # fmt: skip
    return found
