"""Texts that strangers would put into any field, and bubblewrap's arguments as bubblewrap reads them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from ferrule.mcp_client.server_config import ServerBox, ServerConfig
from ferrule.mcp_client.stdio_transport import start_program
from ferrule.process import box
from ferrule.process.profile import Profile, clean_environment
from ferrule.process.references import Variables
from ferrule.process.sandbox.bubblewrap import Bubblewrap

CANARY = "tiger-canary"
PIECES = (
    "\0", "\0--bind\0/\0/", "--bind", "--", "-", "-c", "--setenv\0A\0B", "\n", "\r\n", "$", "{", "}", "${", "$$",
    "${HOME}", "{CANARY}", "${CANARY}", "${user_config.a}", "${user_config.b}", "${user_config.", "${CANARY:-x}",
    "${keyring:a/b}", "${file:/etc/passwd}", "${command:id}", "${__dirname}", "${workspace}", '"', "'", "\\", ";", "|",
    "`id`", "$(id)", "\u202e", "\ud800", "\udcff", "é", "e\u0301", "=", "A=B", " ", "", "x" * 1_500, "/", "..", "~",
)  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=4).map("".join)

TAKES = {
    "--unshare-all": 0, "--die-with-parent": 0, "--new-session": 0, "--cap-drop": 1, "--hostname": 1, "--ro-bind": 2,
    "--bind": 2, "--ro-bind-fd": 2, "--bind-fd": 2, "--proc": 1, "--dev": 1, "--remount-ro": 1, "--perms": 1,
    "--size": 1, "--tmpfs": 1, "--dir": 1, "--file": 2, "--seccomp": 1, "--args": 1, "--info-fd": 1, "--chdir": 1,
    "--setenv": 2, "--symlink": 2,
}  # fmt: skip
"""How many words each option takes that we use, from bubblewrap's manual."""
DESCRIPTORS = {"--seccomp", "--args", "--info-fd", "--file"}


def read_by_bubblewrap(words: Sequence[bytes]) -> tuple[list[tuple[str, ...]], list[str]]:
    """The options in order, those of `--args` in their place, and the command; fails where bubblewrap would."""
    options: list[tuple[str, ...]] = []
    at = 0
    while at < len(words):
        name = os.fsdecode(words[at])
        if name == "--":
            return options, list(map(os.fsdecode, words[at + 1 :]))
        assert name in TAKES, f"not an option of ours: {name!r}"
        values = tuple(map(os.fsdecode, words[at + 1 : at + 1 + TAKES[name]]))
        at += 1 + TAKES[name]
        if name == "--args":
            descriptor = int(values[0])
            stream = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
            inner, command = read_by_bubblewrap(stream.split(b"\0")[:-1])
            assert command == []
            options += inner
        else:
            options.append((name, *values))
    return options, []


class Received:
    """What a start would give to bubblewrap: mounts and the like, variables, and the command."""

    def __init__(self, profile: Profile, words: Sequence[str]) -> None:
        with Bubblewrap("/usr/bin/bwrap", by_descriptor=False).prepare(profile, words) as prepared:
            line = [os.fsencode(word) for word in prepared.launch.arguments]
            options, command = read_by_bubblewrap(line[1:])
            assert prepared.launch.environment == {}
        self.variables = {values[0]: values[1] for name, *values in options if name == "--setenv"}
        self.set_once = len(self.variables) == sum(name == "--setenv" for name, *_ in options)
        self.rest = [one[:1] if one[0] in DESCRIPTORS else one for one in options if one[0] != "--setenv"]
        self.command = command[4:] if command[:2] == ["/bin/sh", "-c"] else command


async def received(config: ServerConfig, environment: dict[str, str], monkeypatch: Any) -> Received:
    """What the sandbox gets for a server, by the very way on which servers are started."""
    caught: list[Received] = []

    async def catch(sandbox: object, profile: Profile, words: Sequence[str], **streams: int) -> box.Box:
        caught.append(Received(profile, words))
        raise box.BoxFailed("start", "caught")

    monkeypatch.setattr("ferrule.mcp_client.stdio_transport.open_box", catch)
    monkeypatch.setattr("ferrule.mcp_client.stdio_transport._confining_sandbox", lambda: None)
    await started(config, environment, swallow=True)
    return caught[0]


async def started(config: ServerConfig, environment: dict[str, str], *, swallow: bool = False) -> Any:
    """The program itself, started as a connection starts it."""
    from pathlib import Path

    from ferrule.mcp_client.stdio_transport import CannotStart

    variables = Variables(environment)
    try:
        return await start_program(
            [variables.fill(word) for word in config.command],
            folder=Path(variables.fill(config.folder)),
            environment=clean_environment(environment, variables.fill_table(config.env), closed=True),
            confinement=config.confinement or ServerBox(),
        )
    except CannotStart as why:
        if not swallow or "caught" not in str(why):
            raise
