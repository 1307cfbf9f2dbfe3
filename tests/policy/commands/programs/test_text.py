"""Programs that print, search, cut and compare."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.analyse import analyse


@pytest.mark.parametrize(
    "command",
    [
        "cat -n a",
        "grep -e x -f p a",
        "rg -n x src",
        "sort -k2 -t, a",
        "uniq -c a",
        "jq -r .a f.json",
        "tail +5 a",
        "less -N a",
        "tee",
        "xxd -l 4 a",
        "base64 -d a",
        "yq .a f",
    ],
)
def test_these_only_read(command: str):
    assert analyse(command).read_only


@pytest.mark.parametrize(
    "command",
    [
        "sort -o b a",
        "sort --outp=b a",
        "uniq a b",
        "rg --pre x y",
        "rg --pre-glob '*' x",
        "shuf -o b a",
        "tee a",
        "xxd -r a",
        "less +!id a",
        "yq -i .a f",
        "base64 -o b a",
        "split a",
        "dc",
    ],
)
def test_these_ask(command: str):
    assert not analyse(command).read_only
