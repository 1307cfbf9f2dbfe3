"""How far an audit log was verified, kept so that the next check can go on from there.

The mark is sealed with a key that only the user can read. Changing the log is not enough to make a changed log pass for
a verified one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from typing import TYPE_CHECKING, Any

from ferrule.core.files import write_atomically
from ferrule.core.phrases import phrase
from ferrule.records.database import AuditError
from ferrule.records.verification import Head

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_KEY_BYTES = 32


class VerifiedMark:
    """The mark of one log, in a folder of the user's."""

    def __init__(self, log: Path, folder: Path) -> None:
        self._log = str(log.resolve())
        self._key_file = folder / "verified.key"
        self.file = folder / f"{hashlib.sha256(self._log.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"

    def read(self) -> Head | None:
        """The head up to which the log was verified; None where it never was. Raises `AuditError` for a false mark."""
        try:
            told: Any = json.loads(self.file.read_bytes())
            key = self._key_file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as problem:
            raise self._refused(str(problem)) from None
        try:
            head, seal = Head.parse(told["head"]), str(told["seal"])
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._refused(phrase("it names no row")) from None
        if not hmac.compare_digest(seal, self._seal(key, head)):
            raise self._refused(phrase("it was changed, or is of another log"))
        return head

    def write(self, head: Head) -> None:
        """Keep it. The folder and the key are made when they are first needed."""
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            key = self._key_file.read_bytes()
        except FileNotFoundError:
            key = secrets.token_bytes(_KEY_BYTES)
            write_atomically(self._key_file, key, mode=0o600)
        said: Mapping[str, str] = {"log": self._log, "head": str(head), "seal": self._seal(key, head)}
        write_atomically(self.file, json.dumps(said).encode(), mode=0o600)

    def _seal(self, key: bytes, head: Head) -> str:
        return hmac.new(key, f"{self._log}\n{head}".encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()

    def _refused(self, why: str) -> AuditError:
        return AuditError(
            phrase(
                "The mark of how far the audit log was verified cannot be trusted: {why}. Remove it ({file}) to have "
                "the whole log read.",
                why=why,
                file=self.file,
            )
        )
