"""Every example in README and docs runs, and shows what really comes out."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest
from tests.docs.provider import provider_at_hand
from tests.models.local.weights_here import smollm2
from tests.needs import slow
from tests.plugins.market_site import Site, make_wheel, serving
from tests.plugins.wheels import make_wheel as plugin_wheel
from tests.warm_start import can_be_warm, start_warm

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

FILE = re.compile(r"# ([\w/]+\.py)\n")
"""How a python block begins that is a file of its own."""


@dataclass
class Example:
    language: str
    text: str
    line: int


def examples(page: Path) -> list[Example]:
    source = page.read_text(encoding="utf-8")
    return [Example(m[1], m[2], source.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(source)]


def of_language(language: str) -> list[Path]:
    return [page for page in PAGES if any(example.language == language for example in examples(page))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def steady(text: str) -> str:
    """Text with what differs from run to run taken out."""
    text = re.sub(r"\d{4}-\d\d-\d\d(T| )?", "<date>", text)
    text = re.sub(r"\d\d:\d\d:\d\d([+-]\d\d:\d\d|Z)?", "<time>", text)
    text = re.sub(r"\b(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b", "<weekday>", text)
    text = re.sub(r"\b1[6-9]\d{8}(\.\d+)?\b", "<timestamp>", text)
    text = re.sub(r'"timezone":"[^"]*"', '"timezone":"<zone>"', text)
    text = re.sub(r'<time> [A-Z]{2,5}"', '<time> <zone>"', text)
    text = re.sub(r"\b\d+\.\d+ ms", "<ms>", text)
    text = re.sub(r"(?m)(^  (Workspace|Toolchains|System|Hidden): .*\n)+", "  <places of this machine>\n", text)
    text = re.sub(r"\bcall_[0-9a-f]{6}_\d+\b", "<call>", text)
    text = re.sub(r"\b[0-9a-f]{32,64}\b", "<hash>", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.mark.parametrize("page", of_language("python"), ids=name)
def test_python_examples_print_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The python blocks of a page are one program; a `text` block shows what the block before it prints."""
    monkeypatch.chdir(tmp_path)
    if 'open_model("local")' in page.read_text(encoding="utf-8"):
        (tmp_path / "data").mkdir()
        (tmp_path / "data/models").symlink_to(smollm2().parent)
        monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    module: dict[str, object] = {"__name__": "example"}
    monkeypatch.setitem(sys.modules, "example", type(sys)("example"))
    try:
        with provider_at_hand(monkeypatch) if page.name == "testing-agents.md" else contextlib.nullcontext():
            run_blocks(page, module)
    finally:
        for left in [one for one in module.values() if isinstance(one, subprocess.Popen)]:
            left.kill()  # where an example failed before the one that ends it
            left.wait()


def run_blocks(page: Path, module: dict[str, object]) -> None:
    blocks = examples(page)
    for position, example in enumerate(blocks):
        if example.language != "python" or (FILE.match(example.text) and page in of_language("console")):
            continue  # a file is run by the terminal sessions of its page
        printed = io.StringIO()
        code = compile("\n" * example.line + example.text, str(page), "exec", dont_inherit=True)
        with contextlib.redirect_stdout(printed):
            exec(code, module)
        shown = blocks[position + 1] if position + 1 < len(blocks) else None
        if shown is not None and shown.language == "text":
            assert steady(printed.getvalue()) == steady(shown.text), f"{name(page)}:{shown.line}"
        else:
            assert not printed.getvalue(), f"{name(page)}:{example.line} prints what the page does not show"


TRANSLATED = "README.zh-CN.md"
"""Its sessions are those of README.md."""


@pytest.mark.parametrize(
    "page", [slow(page) if page.name == TRANSLATED else page for page in of_language("console")], ids=name
)
def test_terminal_sessions_show_what_really_comes_out(page: Path, tmp_path: Path) -> None:
    """A python block that begins with `# folder/file.py` is that file."""
    with staged(page, tmp_path) as stage:
        run_sessions(page, tmp_path, stage)


class Stage:
    """What a page takes for granted; most take nothing."""

    def typed(self, command: str) -> str:
        return command

    def shown(self, output: str) -> str:
        return output


class MarketStage(Stage):
    """The market that the page publishes is served at the address that it names, and has a key of its own."""

    ADDRESS = "https://plugins.acme.example/"

    def __init__(self, site: Site) -> None:
        self.site = site

    def typed(self, command: str) -> str:
        if not (index := self.site.folder / "index.signed").exists():
            return command
        key = index.read_text(encoding="utf-8").split(" ")[2]
        return re.sub("ed25519:[0-9a-f]{64}", key, command).replace(self.ADDRESS, self.site.url)

    def shown(self, output: str) -> str:
        return output.replace(self.site.url, self.ADDRESS)


class PluginStage(Stage):
    """The plugin that the page begins is built before it is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def typed(self, command: str) -> str:
        if "plugin install" in command:
            project = self.folder / "wordy"
            table = (project / "pyproject.toml").read_text(encoding="utf-8")
            code = (project / "wordy/__init__.py").read_text(encoding="utf-8")
            plugin_wheel(self.folder / "dist", "wordy", code, version="0.1.0", project=table)
        return command

    def shown(self, output: str) -> str:
        return output.replace(f"{self.folder}/", "")


@contextlib.contextmanager
def staged(page: Path, folder: Path) -> Generator[Stage]:
    if page.name != "market.md":
        yield PluginStage(folder) if page.name == "plugins.md" else Stage()
        return
    (declared,) = [example.text for example in examples(page) if example.language == "toml"]
    make_wheel(folder / "dist", "acme/weather", "1.2.0", table=declared)
    with serving(folder / "site") as site:
        yield MarketStage(site)


def run_sessions(page: Path, tmp_path: Path, stage: Stage) -> None:
    for example in examples(page):
        if example.language == "python" and (file := FILE.match(example.text)):
            (tmp_path / file[1]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file[1]).write_text(example.text, encoding="utf-8")
        if example.language != "console":
            continue
        for command, shown in sessions(example.text):
            cold = page.name == "README.md"  # what is read first is run just as it is by a person
            output = stage.shown(run(stage.typed(command), tmp_path, cold))
            assert steady(output) == steady(shown), f"{name(page)}:{example.line}: {command}"


def sessions(text: str) -> list[tuple[str, str]]:
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n?)*)", text, re.MULTILINE)
    return [(command, output) for command, output in found]


def run(command: str, folder: Path, cold: bool) -> str:
    words = shlex.split(command)
    settings = dict(word.split("=", 1) for word in takewhile(re.compile(r"[A-Z_]+=").match, words))
    program, *arguments = words[len(settings) :]
    assert program in ("./run", "ferrule"), f"{command}: only ferrule is run here"
    environment = {
        **os.environ,
        "FERRULE_DATA": str(folder / "data"),
        "FERRULE_CONFIG": os.devnull,
        "LC_ALL": "C.UTF-8",
        **settings,
    }
    if "local" in arguments:
        with contextlib.suppress(FileExistsError):
            (folder / "data").mkdir(exist_ok=True)
            (folder / "data/models").symlink_to(smollm2().parent)
    with tempfile.TemporaryFile() as shown, Path(os.devnull).open("rb") as nothing:
        if cold or not can_be_warm(environment):
            command_line = [sys.executable, "-m", "ferrule", *arguments]
            subprocess.run(
                command_line, cwd=folder, env=environment, stdin=nothing, stdout=shown, stderr=shown,
                timeout=120, check=False,
            )  # fmt: skip
        else:
            descriptors = nothing.fileno(), shown.fileno(), shown.fileno()
            start_warm(["-m", "ferrule", *arguments], folder, environment, *descriptors).wait(120)
        shown.seek(0)
        return shown.read().decode()


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{name(page)} -> {link}"
        for page in PAGES
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", FENCE.sub("", page.read_text(encoding="utf-8")))
        if not (page.parent / link).exists()
    ]
    assert broken == []


MODULES = (
    "adapters",
    "tools",
    "policy",
    "hooks",
    "mcp",
    "agent",
    "code",
    "models",
    "records",
    "dialects",
    "testing",
    "client",
    "intents",
    "remote",
    "extension",
    "extension.hosting",
)
PUBLIC = {"ferrule", *(f"ferrule.{one}" for one in MODULES)}


def test_examples_import_public_modules_alone() -> None:
    """Whatever a page imports is promised to stay."""
    others = [
        f"{name(page)}: {module}"
        for page in PAGES
        for example in examples(page)
        if example.language == "python"
        for module in re.findall(r"^\s*(?:from|import) (ferrule[\w.]*)", example.text, re.MULTILINE)
        if module not in PUBLIC
    ]
    assert others == []


LOGGERS = {"ferrule.registry"}
"""Names that a module has too."""


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "guides"], ids=name)
def test_a_guide_names_public_modules_alone(page: Path) -> None:
    """A module inside a package may move; what a reader copies from a page must not."""
    named = re.findall(r"\bferrule(?:\.[a-z_]+)+", page.read_text(encoding="utf-8"))
    begun = {".".join(one.split(".")[:length]) for one in named for length in range(2, one.count(".") + 2)}
    paths = {one: ROOT / "src" / one.replace(".", "/") for one in begun}
    modules = {one for one, path in paths.items() if path.is_dir() or path.with_suffix(".py").exists()}
    assert modules <= PUBLIC | LOGGERS
