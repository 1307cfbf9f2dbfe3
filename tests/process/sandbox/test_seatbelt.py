"""The rules for macOS, as text: nothing here runs on a Mac."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ferrule.process.profile import Profile
from ferrule.process.sandbox.denials import SandboxRefused
from ferrule.process.sandbox.places import Places
from ferrule.process.sandbox.seatbelt import PROGRAM, Seatbelt, rules_for

PLACES = Places("/Users/ada", ("/usr",), ("/Users/ada/.cargo/bin",), hidden=("/usr/key",), secrets=("/Users/ada/.ssh",))


def rules(profile: Profile) -> list[str]:
    return rules_for(profile, ["/Users/ada/ws"], "/private/tmp/x", PLACES).splitlines()


def test_what_is_denied_comes_after_what_is_allowed() -> None:
    workspace = Path("/Users/ada/ws")
    lines = rules(Profile((workspace,), workspace, guarded=(workspace / "keys",), hidden=(workspace / ".env",)))
    order = [
        lines.index("(deny file-write*)"),
        lines.index("(deny file-read-data)"),
        next(at for at, line in enumerate(lines) if line.startswith('(allow file-read* (subpath "/usr") ')),
        lines.index('(deny file-read* (subpath "/usr/key"))'),
        next(at for at, line in enumerate(lines) if line.startswith("(allow file-write* (subpath")),
        next(at for at, line in enumerate(lines) if line.startswith("(deny file-write* (regex")),
        lines.index('(deny file-write* (subpath "/Users/ada/ws/keys"))'),
        lines.index('(deny file-read* file-write* (subpath "/Users/ada/ws/.env"))'),
    ]
    assert order == sorted(order)
    assert "(deny network*)" in lines


@pytest.mark.parametrize(
    ("path", "guarded"),
    [(".git/config", True), (".git/hooks/x", True), ("a/b/.git/hooks", True), (".git/modules/m/config", True),
     (".git/index", False), ("config", False), ("a.git/config", False)],
)  # fmt: skip
def test_git_is_guarded_at_any_depth(path: str, guarded: bool) -> None:
    workspace = Path("/Users/ada/ws")
    line = next(line for line in rules(Profile((workspace,), workspace)) if "(regex #" in line and "\\.git" in line)
    found = re.search(r'#"(.*?)"', line)
    assert found is not None
    assert bool(re.search(found[1], f"/Users/ada/ws/{path}")) is guarded


def test_a_name_with_quotes_cannot_end_its_rule() -> None:
    text = rules_for(Profile((), Path("/")), ['/w"s) (allow network*) ("'], "/p", PLACES)
    assert '(subpath "/w\\"s) (allow network*) (\\"")' in text
    assert "\n(allow network*)" not in text


def test_a_start(tmp_path: Path) -> None:
    with Seatbelt().prepare(Profile((tmp_path,), tmp_path), ["true"]) as prepared:
        arguments = prepared.launch.arguments
        assert arguments[arguments.index(PROGRAM) + 1] == "-p"
        assert arguments[-1] == "true"
        assert prepared.after_command() == ()


def test_the_network_by_host_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxRefused):
        Seatbelt().prepare(Profile((tmp_path,), tmp_path, hosts=("x.org",)), ["true"])
