"""What calls touch, and when their order matters (P5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.access import NOTHING, READS_ANYTHING, WRITES_ANYTHING, Touch, reads, writes
from tests.collisions import waits


def test_a_touch_reads_as_a_line_of_the_audit():
    assert str(reads("path", "/etc/hosts")) == "read path:/etc/hosts"
    assert str(writes("host", "example.org")) == "write host:example.org"


@pytest.mark.parametrize(
    ("left", "right", "order_matters"),
    [
        (reads("path", "/a"), reads("path", "/a"), False),
        (reads("path", "/a"), writes("path", "/a"), True),
        (writes("path", "/a"), writes("path", "/a"), True),
        (writes("path", "/a"), writes("path", "/b"), False),
        (writes("path", "/a"), reads("path", "/a/b/c"), True),
        (writes("path", "/a/b"), reads("path", "/a"), True),
        (writes("path", "/a"), writes("path", "/ab"), False),
        (writes("path", "/"), reads("path", "/a"), True),
        (writes("host", "a"), reads("host", "a/b"), False),
        (writes("host", "/a"), reads("path", "/a"), False),
        (writes("shell", "main"), reads("shell", "main"), True),
        (writes("path", "/a"), Touch("*"), True),
        (reads("path", "/a"), Touch("*"), False),
        (reads("path", "/a"), Touch("*", write=True), True),
    ],
)
def test_collisions(left: Touch, right: Touch, order_matters: bool):
    """P5: one writes what the other touches."""
    assert waits((left,), (right,)) is order_matters


NAMES = st.lists(st.sampled_from("abc"), max_size=3).map(lambda parts: "/" + "/".join(parts))
RESOURCES = st.builds("{}:{}".format, st.sampled_from(["path", "host"]), NAMES) | st.just("*")
TOUCH = st.builds(Touch, RESOURCES, st.booleans())
TOUCHES = st.lists(TOUCH, max_size=4).map(tuple)


@given(TOUCHES, TOUCHES)
def test_it_does_not_matter_which_is_asked_first(left: tuple[Touch, ...], right: tuple[Touch, ...]):
    assert waits(left, right) == waits(right, left)


@given(TOUCHES, TOUCHES, TOUCHES)
def test_touching_more_never_makes_calls_independent(
    left: tuple[Touch, ...], right: tuple[Touch, ...], more: tuple[Touch, ...]
):
    if waits(left, right):
        assert waits(left + more, right)


@given(TOUCHES)
def test_nothing_and_everything(touches: tuple[Touch, ...]):
    assert not waits(touches, NOTHING)
    assert waits(touches, WRITES_ANYTHING) is bool(touches)
    assert waits(touches, READS_ANYTHING) is any(touch.write for touch in touches)


@given(TOUCHES)
def test_readers_never_collide(touches: tuple[Touch, ...]):
    readers = tuple(Touch(touch.resource) for touch in touches)
    assert not waits(readers, readers)
    written = tuple(Touch(touch.resource, write=True) for touch in touches)
    assert waits(written, readers) is bool(touches)


@given(NAMES, st.sampled_from("abc"))
def test_a_folder_holds_what_is_in_it(folder: str, name: str):
    inner = folder.rstrip("/") + "/" + name
    assert waits((writes("path", folder),), (reads("path", inner),))
    assert not waits((writes("path", inner),), (writes("path", inner + "x"),))
