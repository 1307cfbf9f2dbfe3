"""What the file tools keep back when they go through a folder: what a rule denies, and what a rule would ask about.

A search of `.` is one call with one decision, so it must not show lines of a file whose reading would be refused or
asked about if it were named. `ferrule.workspace.restrictions` says how the tools ask.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from ferrule.policy.rules import BUILT_IN, About

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ferrule.pipeline.authorise import Mode
    from ferrule.policy.rules import Rule, RuleSet
    from ferrule.policy.sensitive import Guarded


class PathRules(Protocol):
    """The rules of a policy that are about paths."""

    mode: Mode
    deny: RuleSet
    ask: RuleSet
    allow: RuleSet
    guarded: Guarded

    def guards(self, path: str, roots: tuple[str, ...], *, write: bool) -> Rule | None: ...


class RuleRestrictions:
    """The rules about paths, as the file tools need them. Every answer is the rule in words, or None."""

    def __init__(self, policy: PathRules) -> None:
        self._policy = policy
        self._places: tuple[object, list[str]] = (None, [])

    def denies_read(self, path: str, roots: tuple[str, ...]) -> str | None:
        """Who denies reading this real path."""
        return _words(self._policy.deny.concerning_path(path, roots, write=False))

    def denies_write(self, path: str, roots: tuple[str, ...]) -> str | None:
        """Who denies writing it."""
        policy = self._policy
        return _words(
            policy.deny.concerning_path(path, roots, write=True)
            or policy.guarded.never.concerning_path(path, roots, write=True)
        )

    def asks_to_write(self, path: str, start: str, roots: tuple[str, ...]) -> str | None:
        """Who asks before this path is written, where only its folder was asked about."""
        policy = self._policy
        for asking in (policy.ask.concerning_path(path, roots, write=True), policy.guards(path, roots, write=True)):
            if asking is not None and asking.path is not None and not asking.path.concerns(start, roots):
                return _words(asking)
        return None

    def holds_back(self, path: str, start: str, roots: tuple[str, ...]) -> str | None:
        """Who keeps the content of this path out of a search that starts elsewhere.

        A question that was asked about the start itself is not asked again about what lies in it.
        """
        policy = self._policy
        if denied := policy.deny.concerning_path(path, roots, write=False):
            return _words(denied)
        if policy.mode == "bypass" and not policy.ask:
            return None
        for asking in self._asking(path, roots):
            if asking.path is not None and not asking.path.concerns(start, roots):
                return _words(asking)
        return None

    def held_back(self, paths: Sequence[str], start: str, roots: tuple[str, ...]) -> list[bool]:
        """The same of many paths: hardly any has a rule, and those that may have one are found by a quick look."""
        held = {path for path in self._perhaps(paths, roots) if self.holds_back(path, start, roots) is not None}
        return [path in held for path in paths] if held else [False] * len(paths)

    def may_hold_back(self, start: str, roots: tuple[str, ...]) -> bool:
        """Whether a search from `start` on may have to hold back anything."""
        return next(self._about(start, roots), None) is not None

    def held_in(self, folder: str, listing: str, start: str, roots: tuple[str, ...]) -> list[str]:
        r"""Those of a listing of the paths below a folder, each as `./a/b\0`, that are held back."""
        listing = f"\0{listing}"
        found = self._perhaps_in(folder, listing, roots)
        if (small := listing.lower()) != listing and found is not None:
            also = self._perhaps_in(folder.lower(), small, roots) if len(small) == len(listing) else None
            found = None if also is None else found | also
        if found is None:
            inner = listing.split("\0")[1:-1]
        else:
            inner = {listing[listing.rfind("\0", 0, at) + 1 : listing.find("\0", at)] for at in found if at}
        root = f"{folder.rstrip('/')}/"
        paths = [root + one.removeprefix("./") for one in inner]
        return [path for path, held in zip(paths, self.held_back(paths, start, roots), strict=True) if held]

    def _perhaps_in(self, folder: str, listing: str, roots: tuple[str, ...]) -> set[int] | None:
        found = set[int]()
        for rules in self._policy.deny, self._policy.ask, self._policy.guarded.asks:
            if rules.about(About.READ):
                places = rules.may_concern_in(folder, listing, roots, write=False)
                if places is None:
                    return None
                found |= places
        return found

    # What a box hides, as the rules say. A user's yes to a command may open some of it again.

    def hides(self, path: str, roots: tuple[str, ...]) -> str | None:
        """Who hides this real path from commands: what is denied, and what asks before it is read."""
        policy = self._policy
        if denied := policy.deny.concerning_path(path, roots, write=False):
            return _words(denied)
        return _words(next(self._asking(path, roots), None))

    def hidden_among(self, paths: Iterable[str], roots: tuple[str, ...]) -> list[str]:
        """Of a listing of real paths those that are hidden, without what lies in a folder that is."""
        found: list[str] = []
        for path in self._perhaps(sorted(paths), roots):
            if not (found and path.startswith(f"{found[-1]}/")) and self.hides(path, roots):
                found.append(path)
        return found

    def may_hide(self, folder: str, names: str, roots: tuple[str, ...]) -> list[str]:
        """Of the names in a folder, each with `/` behind it, those that are hidden, or may be for what they hold."""
        folder, guarded = folder.rstrip("/"), self._policy.guarded
        if not self._looks({folder}, f"/{names}", roots):
            return []

        def may(path: str) -> bool:
            named = guarded.named(path, roots, write=False)
            if named is None or not guarded.depends(named):
                return self.hides(path, roots) is not None
            return self.hides(path, roots) is not None or not os.path.isdir(path)  # noqa: PTH112 - text is faster

        paths = [f"{folder}/{name}" for name in names.split("/")[:-1]]
        return [path[len(folder) + 1 :] for path in self._perhaps(paths, roots) if may(path)]

    def _perhaps(self, paths: Sequence[str], roots: tuple[str, ...]) -> list[str]:
        """Those of many real paths that a rule about reading may concern, quickly and rather one too many."""
        if not paths:
            return []
        folder = paths[0].rpartition("/")[0]
        folders, names = {folder}, "\0".join(("", *paths)).replace(f"\0{folder}/", "/")
        if "\0" in names or names.count("/") != len(paths):  # they are of several folders
            folders = {path.rpartition("/")[0] for path in paths}
            names = "".join([f"/{path.rpartition('/')[2]}" for path in paths])
        looks = self._looks(folders, f"{names}/", roots)
        return [path for path in paths if any(look(path) or look(path.lower()) for look in looks)] if looks else []

    def _looks(
        self, folders: set[str], names: str, roots: tuple[str, ...]
    ) -> list[Callable[[str], re.Match[str] | None]]:
        """What to look at paths with, where a rule may concern reading one of these names, with `/` around each."""
        policy, forms = self._policy, [(folders, names)]
        if not (names.islower() and all(folder.islower() for folder in folders)):
            forms.append(({folder.lower() for folder in folders}, names.lower()))
        return [
            rules.any_path(roots, write=False).fullmatch
            for rules in (policy.deny, policy.ask, policy.guarded.asks)
            if rules.about(About.READ) and any(rules.may_concern_any(*form, roots, write=False) for form in forms)
        ]

    def hidden_places(self, roots: tuple[str, ...]) -> list[str]:
        """Real paths in the workspace that are hidden, also where nothing is yet: nobody may make it and have it read.
        Outside, where no box shows homes and keys anyway, only what a rule denies.
        """
        policy = self._policy
        known = (roots, policy.mode, *(len(one.rules) for one in (policy.deny, policy.ask, policy.allow)))
        if self._places[0] != known:  # asked before every command, and rules are only ever added
            self._places = known, self._find_hidden_places(roots)
        return self._places[1]

    def _find_hidden_places(self, roots: tuple[str, ...]) -> list[str]:
        policy = self._policy
        places: list[str] = []
        for rule in (
            *policy.deny.listed(About.READ),
            *policy.ask.listed(About.READ),
            *policy.guarded.asks.listed(About.READ),
        ):
            if rule.path is None:
                continue
            if rule.path.anywhere:
                name = rule.path.name
                places += [f"{root}/{name}" for root in roots if name and not set(name) & set("*?[")]
            else:
                places += [base for base in rule.path.bases(roots) if rule.path.concerns(f"{base}/x", roots)]
        hidden = self.hidden_among(dict.fromkeys(place for place in places if place not in (*roots, "/")), roots)
        return [
            place
            for place in hidden
            if any(place.startswith(f"{root}/") for root in roots)
            or any(self.denies_read(path, roots) is not None for path in (place, f"{place}/x"))
        ]

    def reading_bases(self, roots: tuple[str, ...]) -> list[str]:
        """The fixed beginnings of paths whose reading rules deny or ask about."""
        rules = (*self._policy.deny.listed(About.READ), *self._policy.ask.listed(About.READ))
        paths = (rule.path for rule in rules if rule.path is not None and not rule.path.anywhere)
        return list(dict.fromkeys(base for path in paths for base in path.bases(roots)))

    def unwritable_places(self, roots: tuple[str, ...]) -> list[str]:
        """The fixed places that a rule says may not be written: a box that may write can have them read-only."""
        rules = [rule.path for rule in self._policy.deny.listed(About.WRITE) if rule.path and not rule.path.anywhere]
        bases = [base for path in rules for base in path.bases(roots) if path.concerns(f"{base}/x", roots)]
        return list(dict.fromkeys(base for base in bases if base not in (*roots, "/")))

    @property
    def denies_reads(self) -> bool:
        return self._policy.deny.about(About.READ)

    @property
    def reading_rules(self) -> tuple[str, ...]:
        policy = self._policy
        return tuple(rule.text for rules in (policy.deny, policy.ask) for rule in rules.listed(About.READ))

    @property
    def denied_writes(self) -> tuple[str, ...]:
        return tuple(rule.text for rule in self._policy.deny.listed(About.WRITE))

    def left_out(self, start: str, roots: tuple[str, ...]) -> list[str]:
        # Where the person allows reading some path, only a look at each file tells which of Ferrule's own rules hold.
        allows, depends = self._policy.allow.about(About.READ), self._policy.guarded.depends
        about = (rule for rule in self._about(start, roots) if not (allows and rule.source is BUILT_IN))
        return [rule.path.name for rule in about if rule.path and rule.path.name and not depends(rule)]

    def _about(self, start: str, roots: tuple[str, ...]) -> Iterator[Rule]:
        """The rules that may hold something back from a search."""
        policy = self._policy
        yield from policy.deny.listed(About.READ)
        asking = [*policy.ask.listed(About.READ)]
        if policy.mode != "bypass":
            asking += policy.guarded.asks.listed(About.READ)
        for rule in asking:
            if rule.path is not None and not rule.path.concerns(start, roots):
                yield rule

    def _asking(self, path: str, roots: tuple[str, ...]) -> Iterator[Rule]:
        policy = self._policy
        if asked := policy.ask.concerning_path(path, roots, write=False):
            yield asked
        if policy.mode == "bypass" or policy.allow.covering_path(path, roots, write=False):
            return
        if guarded := policy.guarded.asking(path, roots, write=False):
            yield guarded


def _words(rule: Rule | None) -> str | None:
    return rule.words if rule is not None else None
