"""A denial by the sandbox comes back as such, with a way to ask for more."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.process.sandbox.box import Box

from ferrule.process.profile import Profile
from ferrule.process.sandbox.denials import explain

WORKSPACE = Path("/ws")
PROFILE = Profile((WORKSPACE,), WORKSPACE, hidden=(WORKSPACE / ".env",))


@pytest.mark.parametrize(
    ("said", "kind", "subject"),
    [
        ("bash: /etc/foo: Read-only file system", "unkept", "/etc/foo"),
        ("touch: cannot touch '/etc/foo': Read-only file system", "unkept", "/etc/foo"),
        ("OSError: [Errno 30] Read-only file system: '/etc/foo'", "unkept", "/etc/foo"),
        ("Error: EROFS: read-only file system, open '/etc/foo'", "unkept", "/etc/foo"),
        ("mkdir: cannot create directory ‘/opt/x’: Read-only file system", "unkept", "/opt/x"),
        ("failed to write: Read-only file system (os error 30)", "unkept", ""),
        ("/bin/sh: 1: cannot create /etc/foo: Read-only file system", "unkept", "/etc/foo"),
        ("/etc/foo: Read-only file system", "unkept", "/etc/foo"),
        ("bash: /ws/.git/config: Read-only file system", "guarded", "/ws/.git/config"),
        ("rm: cannot remove '/ws/.git/hooks': Device or resource busy", "guarded", "/ws/.git/hooks"),
        ("cat: /ws/.env: Permission denied", "read", "/ws/.env"),
        ("cat: /root/.bashrc: Permission denied", "unseen", "/root/.bashrc"),
        ("curl: (6) Could not resolve host: example.org", "network", "example.org"),
        ("fatal: unable to access 'https://github.com/': Could not resolve host: github.com", "network", "github.com"),
        ("npm ERR! getaddrinfo EAI_AGAIN registry.npmjs.org", "network", "registry.npmjs.org"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "network", ""),
        ("connect: Network is unreachable", "network", ""),
        ("bash: fork: retry: Resource temporarily unavailable", "processes", ""),
        ("RuntimeError: can't start new thread", "processes", ""),
        ("write error: File too large", "file size", ""),
        ("Bad system call", "system call", ""),
    ],
)
def test_it_is_told_apart(said: str, kind: str, subject: str) -> None:
    denial = explain(1, f"some words\n{said}\n", PROFILE)
    assert denial is not None
    assert (denial.kind, denial.subject) == (kind, subject)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "AssertionError",
        "cat: x: No such file or directory",
        "bash: /ws/script: Permission denied",
        "Connection refused",
    ],
)
def test_what_failed_for_its_own_reasons_is_not_the_sandboxes(said: str) -> None:
    assert explain(1, said, PROFILE) is None


WITHOUT_LAYERS = [
    ("touch: cannot touch 'made': Permission denied", "made"),
    ("bash: line 1: made: Permission denied", "made"),
    ("bash: line 1: sub/made: Permission denied", "sub/made"),
    ("/usr/bin/ld: cannot open output file made: Permission denied", "made"),
    ("PermissionError: [Errno 13] Permission denied: 'made'", "made"),
    ("Error: EACCES: permission denied, open 'made'", "made"),
    ("sed: couldn't open temporary file ./sedX: Permission denied", "sedX"),
    ("mkdir: cannot create directory ‘made’: Permission denied", "made"),
    ("chmod: changing permissions of 'there': Read-only file system", "there"),
    ("there: fine\nbash: line 1: there: Permission denied", "there"),
]


@pytest.mark.parametrize(("said", "name"), WITHOUT_LAYERS)
@pytest.mark.parametrize("code", [0, 1])
def test_p4_without_layers_a_refused_change_is_named_however_the_command_ended(
    tmp_path: Path, said: str, name: str, code: int
) -> None:
    """`echo x > made; ls` ends well: the change that it lost is asked about all the same."""
    (tmp_path / "there").touch()
    (tmp_path / "sub").mkdir()
    denial = explain(code, said, Profile((tmp_path,), tmp_path, look=True))
    assert denial is not None
    assert (denial.kind, denial.subject) == ("write", str(tmp_path / name))
    if "Read-only" not in said:
        assert explain(code, said, Profile((tmp_path,), tmp_path)) is None


@pytest.mark.parametrize(
    "said",
    [
        "PermissionError: [Errno 1] Operation not permitted",
        "PermissionError: [Errno 13] Permission denied",
        "connect: Operation not permitted",
        "df: cannot read table of mounted file systems: Permission denied",
        "ls: cannot open directory '.': Permission denied",
        "head: cannot open 'there' for reading: Permission denied",
        "tar: Cannot open: Permission denied",
    ],
)
def test_without_layers_no_word_of_a_complaint_passes_for_a_file(tmp_path: Path, said: str) -> None:
    (tmp_path / "there").touch()
    for code in (0, 1):
        assert explain(code, said, Profile((tmp_path,), tmp_path, look=True)) is None


def test_success_is_never_a_denial() -> None:
    assert explain(0, "bash: /etc/foo: Read-only file system", PROFILE) is None


@given(st.text(max_size=200), st.integers(-64, 255))
def test_any_words_can_be_read(said: str, code: int) -> None:
    explain(code, said, PROFILE)


def test_long_complaints_take_no_longer_than_they_should() -> None:
    assert explain(1, "/a" * 500_000 + "'" * 1000, PROFILE) is None


def test_the_words(box: Box) -> None:
    told: dict[str, list[str]] = {}
    for script in ("echo x >/etc/foo", "cat .env", "curl https://example.org"):
        explained = box.run(script, hidden=(box.write(".env"),)).explained
        assert explained is not None
        told[script] = [explained.message, explained.suggestion]
    assert told == snapshot(
        {
            "echo x >/etc/foo": [
                "The sandbox kept the command from writing `/etc/foo`: only the workspace and `/tmp` are writable.",
                "Write inside the workspace or below `/tmp`, or ask the user to add the folder to `writable` of `[sandbox]` in their settings.",
            ],
            "cat .env": [
                "The sandbox hides `.env`: reading it needs approval, or a rule denies it.",
                "Do without it, or ask the user to allow reading it.",
            ],
            "curl https://example.org": [
                "The sandbox kept the command from reaching `example.org`: it has no network.",
                "Do without the network, or ask the user to allow `example.org` in `hosts` of `[sandbox]` in their settings.",
            ],
        }
    )
