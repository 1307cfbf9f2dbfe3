"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from runpy import run_path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ferrule"
MODULES = sorted(path for path in SOURCE.rglob("*.py"))
MOST_LINES = 800
HOUSE = run_path(str(ROOT / "scripts" / "house"))
VAGUE = re.compile(r"(^|_)(utils?|helpers?|managers?|base|common|misc)($|_)")


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@cache
def parsed(path: Path) -> ast.Module:
    return HOUSE["parsed"](path)


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def calls() -> list[tuple[str, str, bool]]:
    """Every call in the package: its module, what is called, and whether it has one argument and no named one."""
    return [
        (name(path), _words_of(node.func), len(node.args) == 1 and not node.keywords)
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
    ]


def _words_of(called: ast.expr) -> str:
    """As `ast.unparse`, which takes ten times as long for what most calls name: `module.function`."""
    words, node = list[str](), called
    while isinstance(node, ast.Attribute):
        words.insert(0, node.attr)
        node = node.value
    return ".".join([node.id, *words]) if isinstance(node, ast.Name) else ast.unparse(called)


def test_a_module_is_small() -> None:
    lines = {name(module): len(module.read_text(encoding="utf-8").splitlines()) for module in MODULES}
    assert {one: many for one, many in lines.items() if many >= MOST_LINES} == {}, "which idea can move out?"


def test_a_module_says_what_it_is_for() -> None:
    texts = {name(module): module.read_text(encoding="utf-8") for module in MODULES}
    assert [one for one, text in texts.items() if not text.startswith(('"""', 'r"""'))] == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [name(module) for module in MODULES if VAGUE.search(module.stem)] == []


def test_no_modules_import_each_other() -> None:
    modules = {HOUSE["name_of"](path, SOURCE): path for path in MODULES}
    trees = {name: parsed(path) for name, path in modules.items()}
    imports = {name: HOUSE["imported"](name, tree, modules) for name, tree in trees.items()}
    assert HOUSE["circles_of"](HOUSE["at_once"](imports, trees)) == []


def test_no_class_name_occurs_twice() -> None:
    assert HOUSE["classes_twice"]({name(path): parsed(path) for path in MODULES}) == {}


def test_whatever_the_tests_import_is_installed_with_them() -> None:
    """What happens to be on a developer's machine is not on a new one."""
    declared, ahead = set[str](), ["ferrule[test]"]
    while ahead:
        one = re.match(r"([\w.-]+)\s*(?:\[([\w,\s-]+)\])?", ahead.pop())
        assert one
        wanted, extras = one[1].lower().replace("_", "-"), re.split(r"\s*,\s*", one[2] or "")
        for extra in ("", *extras):
            if (key := f"{wanted}[{extra}]") not in declared:
                declared.add(key)
                ahead += _required(wanted, extra)
    offered = packages_distributions()
    tops = {
        top: str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        for top in re.findall(r"^\s*(?:import|from) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        if top in offered and top not in sys.stdlib_module_names
    }
    assert {
        top: file
        for top, file in tops.items()
        if not any(f"{one.lower().replace('_', '-')}[]" in declared for one in offered[top])
    } == {}


STARTERS = re.compile(
    r"(subprocess\.(run|Popen|call|check_\w+)|create_subprocess_\w+|subprocess_exec|os\.(exec|spawn|posix_spawn)\w+)$"
)
OF_OURS = {
    "cli/chatting/clipboard.py", "cli/chatting/own_commands.py", "cli/chatting/prompt_input.py",
    "cli/chatting/session_commands.py", "cli/server_talk/questions.py", "models/local/local_model.py",
    "models/local/weights.py", "plugins/plugin_documents.py", "policy/program_hook.py", "process/box.py",
    "process/launcher.py", "process/references.py", "process/sandbox/choose.py", "process/sandbox/forwarder.py",
    "remote/server.py", "toolbox/child.py", "toolbox/documents/writing.py",
}  # fmt: skip
"""Start programs of ours, or what the user alone wrote: no text from elsewhere is among the words."""
FROM_OUTSIDE = {"plugins/install.py", "process/sandbox/obeyed.py", "workspace/child.py"}
"""Start programs with texts from elsewhere, as a `CommandLine`."""


def test_a_program_gets_text_from_outside_through_the_one_builder() -> None:
    """X1: `process/arguments.py` refuses a NUL, and what looks like an option; types say that it was used."""
    starting = {module for module, called, _ in calls() if STARTERS.search(called)}
    assert starting == OF_OURS | FROM_OUTSIDE, "build its words with `process/arguments.py`, or say why it need not"
    texts = {name(path): path.read_text(encoding="utf-8") for path in MODULES}
    assert [one for one in FROM_OUTSIDE if not re.search(r"(command|arguments): CommandLine", texts[one])] == []
    sandbox = "process/sandbox/sandbox.py"
    assert re.search(r"class Launch:.*?arguments: CommandLine\n.*?checked_environment\(self", texts[sandbox], re.DOTALL)


def test_a_stream_of_options_is_made_by_the_one_builder() -> None:
    texts = {name(path): path.read_text(encoding="utf-8") for path in MODULES}
    assert [one for one, text in texts.items() if '"--args"' in text] == ["process/sandbox/bubblewrap.py"]
    assert [one for one, text in texts.items() if "--setenv\\0" in text] == []


def test_what_stands_for_a_variable_is_filled_in_by_the_one_template() -> None:
    """X1: what was filled in is never looked at again."""
    texts = {name(path): path.read_text(encoding="utf-8") for path in MODULES}
    assert [one for one, text in texts.items() if re.search(r"""\.replace\(f?["']\$\{""", text)] == []


def _required(distribution: str, extra: str) -> list[str]:
    """What a distribution asks for by itself, or for one of its extras."""
    try:
        lines = requires(distribution) or []
    except PackageNotFoundError:
        return []
    named = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
    return [line for line in lines if (found[1] if (found := named.search(line)) else "") == extra]
