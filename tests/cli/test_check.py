"""One finding of the doctor."""

from __future__ import annotations

from dataclasses import asdict

from ferrule.cli.doctor import Check


def test_its_fields_are_the_keys_of_the_json() -> None:
    assert list(asdict(Check("a", "ok", "b"))) == ["name", "state", "message"]
