"""`sed` and `awk`."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.analyse import analyse


@pytest.mark.parametrize(
    "command",
    [
        "sed -n 1,5p a",
        "sed 's/[/]/x/g' a",
        "sed '/a/,/b/{s/x/y/;p}' a",
        "sed '$!N;P;D' a",
        "sed 'a\\\ntext' a",
        "awk '{print $1}' a",
        "awk '$1 > 5' a",
        "awk '/a|b/' a",
        "awk -F'|' '{print $2}' a",
        "awk '{print (1 > 2)}'",
    ],
)
def test_these_only_read(command: str):
    assert analyse(command).read_only


@pytest.mark.parametrize(
    "command",
    [
        "sed -i s/a/b/ a",
        "sed 'w b' a",
        "sed 's/a/b/w c' a",
        "sed 's/a/b/e' a",
        "sed '1e id' a",
        "sed -f x a",
        "sed 'v 1;w b' a",
        "awk '{print > \"b\"}' a",
        "awk '{print | \"sh\"}' a",
        "awk 'BEGIN{system(\"id\")}'",
        "awk -f x a",
        'awk \'x++ /1; print "a" > "f"; y=1/ 2\'',
    ],
)
def test_these_ask(command: str):
    assert not analyse(command).read_only
