"""Programs that pack and unpack."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.analyse import analyse


@pytest.mark.parametrize(
    "command",
    [
        "tar tf a",
        "tar -tvzf a.tgz",
        "tar xOf a",
        "unzip -l a",
        "gzip -dc a",
        "7z l a",
        "ar t a",
        "cpio -t",
    ],
)
def test_these_only_read(command: str):
    assert analyse(command).read_only


@pytest.mark.parametrize(
    "command",
    [
        "tar xf a",
        "tar cf a b",
        "tar tf a --to-command=x",
        "tar tf a -T x",
        "tar tf h:x",
        "unzip a",
        "gzip a",
        "7z x a",
        "zip a b",
        "zstd -dc -o b a",
    ],
)
def test_these_ask(command: str):
    assert not analyse(command).read_only
