"""The documentation as a site: it builds without a warning, asks nobody else for anything, and leaves nothing out."""

from __future__ import annotations

import fcntl
import html
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from scripts.site.command_page import contexts
from tests.docs.test_examples import PUBLIC

from ferrule.tools import builtin_tools

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once for a whole run however many processes take part in it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, said = shared / "site", shared / "site.txt"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False
            )
            said.write_text(f"{done.returncode}\n{done.stdout}{done.stderr}", encoding="utf-8")
    code, _, words = said.read_text(encoding="utf-8").partition("\n")
    assert code == "0", words
    return folder


def text_of(page: Path) -> str:
    """What a reader sees of it."""
    source = page.read_text(encoding="utf-8").split("<article", 1)[1].split("</article>", 1)[0]
    return html.unescape(re.sub(r"<[^>]+>", "", source))


def test_it_builds_without_a_warning(site: Path) -> None:
    words = (site.parent / "site.txt").read_text(encoding="utf-8")
    assert [line for line in words.splitlines() if re.match(r"(WARNING|ERROR)\b", line)] == []


def test_a_reader_fetches_nothing_from_elsewhere(site: Path) -> None:
    """No font, script, style or picture: the site works without a network."""
    loaded = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?([^\"\s>]+)|<link\b[^>]*\bhref=\"?([^\"\s>]+)")
    found = [
        f"{page.relative_to(site)}: {address}"
        for page in site.rglob("*.html")
        for match in loaded.finditer(page.read_text(encoding="utf-8"))
        if (address := match[1] or match[2]).startswith(("http:", "https:", "//"))
    ]
    found += [
        f"{style.relative_to(site)}: {address}"
        for style in site.rglob("*.css")
        for address in re.findall(
            r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", style.read_text(encoding="utf-8")
        )
    ]
    assert found == []


def test_no_page_shows_its_markdown(site: Path) -> None:
    """A table or a link that was not understood would stand there as it was typed."""
    wrong = [
        f"{page.relative_to(site)}: {line.strip()}"
        for page in site.rglob("*.html")
        if "<article" in page.read_text(encoding="utf-8")
        for line in re.sub(
            r"<(pre|code)\b.*?</\1>",
            "",
            page.read_text(encoding="utf-8").split("<article", 1)[1].split("</article>")[0],
            flags=re.DOTALL,
        ).splitlines()
        if re.search(r"\|---|^\s*\| |\]\(|^\s*```|\]\[ferrule|^:::", line)
    ]
    assert wrong == []


@pytest.mark.parametrize("tool", builtin_tools(family="all"), ids=lambda tool: tool.name)
def test_every_tool_has_a_page_with_calls_that_were_run(site: Path, tool: object) -> None:
    name, schema = tool.name, tool.input_schema  # type: ignore[attr-defined]
    shown = text_of(site / f"reference/tools/{name}.html")
    assert [one for one in schema.get("properties", {}) if one not in shown] == []
    example, errors = shown.split("Example¶")[1].split("Errors¶")
    assert "Error (" not in example
    assert "Error (" in errors


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_every_public_name_is_described(site: Path, module: str) -> None:
    page = (site / f"reference/python/{module}.html").read_text(encoding="utf-8")
    names = [name for name in import_module(module).__all__ if not name.startswith("__")]
    assert [name for name in names if not re.search(rf'id="{re.escape(module)}[\w.]*\.{name}"', page)] == []


def test_every_command_and_option_is_listed(site: Path) -> None:
    shown = text_of(site / "reference/command-line.html")
    commands = list(contexts())
    assert len(commands) > 20
    names = [context.command_path for context in commands]
    names += [
        name
        for context in commands
        for option in context.command.params
        if isinstance(option, click.Option) and not option.hidden
        for name in option.opts
    ]
    assert [name for name in names if name not in shown] == []


def test_every_page_can_be_found() -> None:
    """Whoever adds a page puts it into the navigation; decisions are listed on a page of their own."""
    listed = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    decisions = {page for page in pages if page.startswith("adr/0")}
    assert pages - decisions - set(listed) == {"reference/api.md"}
    index = (ROOT / "docs/adr/README.md").read_text(encoding="utf-8")
    assert [page for page in sorted(decisions) if f"({page.removeprefix('adr/')})" not in index] == []
