"""Values from variables and the keyring, which are never shown."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from ferrule.process.references import MissingValueError, Variables, places_in


def test_places_are_filled_in() -> None:
    variables = Variables({"A": "one", "EMPTY": ""})
    assert variables.fill("x ${A} ${B:-two} ${EMPTY:-three} $A {A}") == "x one two three $A {A}"


def test_what_is_missing_is_named() -> None:
    with pytest.raises(MissingValueError, match="the variable `B` is not set"):
        Variables({}).fill("${B}")


def test_what_was_filled_in_is_masked() -> None:
    variables = Variables({"TOKEN": "hunter2hunter2"})
    variables.fill("Bearer ${TOKEN}")
    table = variables.fill_table({"KEY": "literal-secret", "SHORT": "no"})
    assert table == {"KEY": "literal-secret", "SHORT": "no"}
    assert variables.masked("got hunter2hunter2 and literal-secret, no more") == "got [TOKEN] and [KEY], no more"


def test_a_default_is_no_secret() -> None:
    variables = Variables({})
    variables.fill("${LEVEL:-information}")
    assert variables.masked("information") == "information"


def test_the_keyring_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = ModuleType("keyring")
    held = {("github", "me"): "from the ring"}
    keyring.get_password = lambda service, user: held.get((service, user))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    variables = Variables({})
    assert variables.fill("${keyring:github/me}") == "from the ring"
    assert variables.masked("from the ring") == "[keyring:github/me]"
    with pytest.raises(MissingValueError, match="has nothing for github/you"):
        variables.fill("${keyring:github/you}")
    with pytest.raises(MissingValueError, match=r"secret as `\$\{keyring:service/user\}`"):
        variables.fill("${keyring:github}")


def test_a_keyring_that_fails_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(service: str, user: str) -> str:
        raise RuntimeError("locked: hunter2")

    keyring = ModuleType("keyring")
    keyring.get_password = fail  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    with pytest.raises(MissingValueError, match=r"could not be read: RuntimeError$"):
        Variables({}).fill("${keyring:a/b}")
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(MissingValueError, match="pip install keyring"):
        Variables({}).fill("${keyring:a/b}")


def test_what_of_the_persons_would_be_filled_in_is_named_once() -> None:
    texts = ["${A} and ${B:-c}", "${A}", "$D {E} ${", "${keyring:s/u}"]
    assert places_in(texts) == ["${A}", "${B:-c}", "${keyring:s/u}"]


async def test_a_keyring_that_does_not_answer_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: a locked one waits for its person."""
    opened = threading.Event()
    keyring = ModuleType("keyring")
    keyring.get_password = lambda service, user: "late" if opened.wait(60) else None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    variables = Variables({})
    with pytest.raises(MissingValueError, match=r"the keyring did not answer within 0.01 s; it may be locked"):
        await variables.ask_keyring(["${keyring:a/b}"], 0.01)
    opened.set()
    await variables.ask_keyring(["x ${keyring:a/b}", "${A}"], 60)
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert variables.fill("${keyring:a/b}") == "late", "it is asked once"


async def test_what_the_keyring_lacks_is_said_when_it_is_asked_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    await Variables({}).ask_keyring(["${A}", "no place"], 60)
    with pytest.raises(MissingValueError, match="pip install keyring"):
        await Variables({}).ask_keyring(["${keyring:a/b}"], 60)


def test_the_users_own_settings_may_name_files_and_programs(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret-of-a-file\n")
    variables = Variables({}, of_the_user=True)
    assert variables.fill(f"${{file:{token}}}") == "s3cret-of-a-file"
    assert variables.fill("${command:printf 'from a program\\nmore'}") == "from a program"
    shown = variables.masked("s3cret-of-a-file, from a program")
    assert shown == f"[file:{token}], [command:printf 'from a program\\nmore']"


@pytest.mark.parametrize("place", ["file:/etc/hostname", "command:true"])
def test_nobody_elses_settings_do(place: str) -> None:
    with pytest.raises(MissingValueError, match="only be used in your own settings"):
        Variables({}).fill(f"${{{place}}}")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("file:/no/such/file", r"the file /no/such/file cannot be read: No such file"),
        ("file:/dev/zero", "too large"),
        ("file:/dev/null", "is empty"),
        ("command:", "as `.{command:program arguments}`"),
        ("command:'", "as `.{command:program arguments}`"),
        ("command:no-such-program-here", "`no-such-program-here` could not be run"),
        ("command:sh -c 'echo hunter2 >&2; exit 3'", "`sh` failed with exit code 3$"),
        ("command:true", "`true` printed nothing"),
    ],
)
def test_what_a_file_or_a_program_does_not_give_is_said(place: str, said: str) -> None:
    with pytest.raises(MissingValueError, match=said):
        Variables({}, of_the_user=True).fill(f"${{{place}}}")
