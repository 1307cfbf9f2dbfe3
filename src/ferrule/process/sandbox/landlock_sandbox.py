"""The second choice, where bubblewrap does not work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.process.sandbox.sandbox import Denial, Name, Prepared, SandboxRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.process.profile import Profile


class LandlockSandbox:
    """Not there yet."""

    @property
    def name(self) -> Name:
        return "landlock"

    @property
    def notes(self) -> tuple[str, ...]:
        return ()

    def missing(self) -> str | None:
        """Why it cannot be used."""
        return "it is not part of this version"

    def prepare(self, profile: Profile, arguments: Sequence[str]) -> Prepared:
        """Refused."""
        raise SandboxRefused("There is no Landlock sandbox.", "Install bubblewrap.")

    def explain_denial(self, exit_code: int, stderr_text: str, profile: Profile) -> Denial | None:
        """Nothing."""
        return None
