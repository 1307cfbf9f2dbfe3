"""Stage seven: what a record and those who keep it are."""

from __future__ import annotations

from ferrule import Caller, CallRecord
from ferrule.pipeline.record import Watcher


def test_a_record_starts_as_a_success_that_went_all_the_way() -> None:
    record = CallRecord("c", None, "s", Caller(), "t", "1", "readonly", None, 0.0)
    assert (record.stage, record.outcome, record.verdict, record.answer, record.error) == (
        "record", "success", "", None, None,
    )  # fmt: skip


def test_a_recorder_watches_when_it_has_both_methods() -> None:
    class Both:
        def looked_up(self, call: object, session: object, *, found: bool) -> None: ...

        def started(self, invocation: object, session: object) -> None: ...

    class One:
        def looked_up(self, call: object, session: object, *, found: bool) -> None: ...

    assert isinstance(Both(), Watcher)
    assert not isinstance(One(), Watcher)
