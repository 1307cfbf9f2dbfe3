"""What `ferrule plugin` and `ferrule market` do, for programs: JSON in and out, and a yes names its question.

The service's API and the panel are made of it. What installs or starts a plugin takes long, and code of strangers is
near: that runs in a process of its own (`perform`), which ends when whoever wanted it is gone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from ferrule import ErrorKind, ToolError
from ferrule.extension import LineReader, MissingExtraError, TooLong, cut, phrase, said_by, take_stdout
from ferrule.extension.hosting import catalogue, dangers_of, tool_name, translated
from ferrule.plugins import consent
from ferrule.plugins.consent import NotAgreed, PluginQuestion, PluginWishes
from ferrule.plugins.lock import LockedPlugin, must_find, read_lock
from ferrule.plugins.plugin_files import plugins_folder, withdrawn_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_SECONDS = 1_800
_SECONDS_TO_END = 5.0
_MOST_OFFERS = 200
_MOST_LINE = 2_000
_MOST_SAID = 10_000
_LONGEST_ANSWER = 1 << 26

logger = logging.getLogger("ferrule.plugins")


# Documents


def plugin_document(plugin: LockedPlugin, workspace: Path | None = None) -> dict[str, Any]:
    """What there is to know of an installed plugin. Where its secrets are kept is not in it."""
    manifest = plugin.manifest
    dangers = dangers_of(plugin.grants.folders, workspace)
    worst = dict.fromkeys(one.folder for one in dangers)
    gone = withdrawn_names(plugin.market).get(plugin.offered, "") if plugin.market else ""
    return {
        "name": plugin.name, "version": manifest.version, "summary": manifest.summary,
        "publisher": manifest.publisher, "proof": plugin.proof, "published": plugin.published,
        "source": plugin.source, "market": plugin.market, "address": manifest.url, "withdrawn": gone,
        "enabled": plugin.enabled, "installed": plugin.installed, "agreed": plugin.agreed,
        "tools": [one.model_dump() for one in manifest.tools],
        "tool_names": [tool_name(plugin.name, one) for one in plugin.definitions],
        "hosts": plugin.grants.hosts, "folders": [*dict.fromkeys((*worst, *plugin.grants.folders))],
        "dangers": [{"folder": one.folder, "why": one.why} for one in dangers], "secrets": consent.secrets_of(plugin),
        "programs": manifest.needs.programs, "added_hosts": consent.added_grants(plugin).hosts,
        "packages": [{"name": one.name, "version": one.version, "hashes": one.hashes} for one in plugin.packages],
        "settings": [
            {"name": name, "summary": one.summary, "value": plugin.settings.get(name, one.default or "")}
            for name, one in manifest.settings.items()
        ],
    }  # fmt: skip


def _question_document(question: PluginQuestion) -> dict[str, Any]:
    return {
        "about": question.about,
        "digest": question.digest,
        "plugin": plugin_document(question.plugin, question.workspace),
        "before": question.before.manifest.version if question.before is not None else "",
        "near": question.near,
        "changes": [asdict(one) for one in question.changes],
        "widens": question.widens,
        "tools": [
            {"name": cut(one.name, _MOST_LINE), "how": one.how, "lines": [asdict(line) for line in one.lines]}
            for one in question.tools
        ],
    }  # fmt: skip


def _answer(
    plugin: LockedPlugin | None, question: PluginQuestion | None = None, notes: list[str] | None = None
) -> dict[str, Any]:
    return {
        "plugin": plugin_document(plugin) if plugin is not None else None,
        "question": _question_document(question) if question is not None else None,
        "notes": notes or [],
    }


# Quick ones


def list_plugins() -> dict[str, Any]:
    return {"plugins": [plugin_document(consent.as_asked(one)) for one in read_lock().values()]}


def show_plugin(name: str, language: str = "en") -> dict[str, Any]:
    plugin = must_find(read_lock(), name)
    return _worded(
        {**plugin_document(consent.as_asked(plugin)), "near": consent.near_plugins(plugin)}, catalogue(language)
    )


def disable(name: str) -> dict[str, Any]:
    return plugin_document(consent.disable_plugin(name))


# Those that take long


def _install(source: str, market: str, agreed: list[str], workspace: str) -> dict[str, Any]:
    """Install it, disabled; in place of one that is used, once its user has agreed to the difference."""
    from ferrule.plugins.install import fetched

    notes: list[str] = []
    with consent.found_plugin(source, market or None, notes.append, files=False) as found, fetched(found) as staged:
        before = read_lock().get(staged.plugin.name)
        if before is not None and consent.is_newest(before, staged):
            return _answer(before, notes=notes)
        enable = before is not None and before.enabled
        try:
            plugin = consent.install_staged(staged, Path(workspace), PluginWishes(), _agreed_to(agreed), enable=enable)
        except NotAgreed as answer:
            return _answer(before, answer.question, notes)
        return _answer(plugin, notes=notes)


def _update(name: str, agreed: list[str], workspace: str) -> dict[str, Any]:
    from ferrule.plugins.install import newest_source

    plugin = must_find(read_lock(), name)
    source, market = newest_source(plugin)
    if market is None and not source.startswith(("pypi:", "npm:")):
        raise ToolError(
            phrase("`{name}` was installed from a file, so there is nowhere to look for a newer one.", name=name),
            suggestion=phrase("On the machine itself: ferrule plugin install FILE"),
        )
    return _install(source, market or "", agreed, workspace)


def _enable(
    name: str, agreed: list[str], hosts: list[str] | None, settings: dict[str, str], workspace: str
) -> dict[str, Any]:
    plugin = must_find(read_lock(), name)
    added = consent.added_grants(plugin)
    wishes = PluginWishes(added.hosts if hosts is None else hosts, added.folders, settings=settings)
    try:
        return _answer(consent.enable_plugin(name, Path(workspace), wishes, _agreed_to(agreed)))
    except NotAgreed as answer:
        return _answer(plugin, answer.question)


def _agreed_to(digests: list[str]) -> Callable[[PluginQuestion], bool | None]:
    return lambda question: True if question.digest in digests else None


def _remove(name: str) -> dict[str, Any]:
    consent.remove_plugin(name)
    return {}


def _verify(name: str) -> dict[str, Any]:
    from ferrule.plugins.installed_files import is_intact

    plugin = must_find(read_lock(), name)
    return {"name": name, "intact": is_intact(plugin), "again": plugin.again}


def _search(words: str) -> dict[str, Any]:
    from ferrule.plugins.market import markets
    from ferrule.plugins.offers import find_offers

    notes: list[str] = []
    found = find_offers(words, note=notes.append)
    offers = [
        {
            "name": one.name, "version": one.version, "market": one.market, "summary": one.summary,
            "publisher": one.publisher, "proof": one.proof, "kinds": one.kinds, **one.needs.model_dump(),
            "published": one.published_at.date().isoformat() if one.published_at else "",
            "reviewed": one.reviewed.date().isoformat() if one.reviewed else "",
        }
        for one in found[:_MOST_OFFERS]
    ]  # fmt: skip
    if len(found) > _MOST_OFFERS:
        notes.append(phrase("There are more; the first {count} are shown.", count=_MOST_OFFERS))
    return {"offers": offers, "notes": notes, "markets": [one.name for one in markets()]}


_ACTIONS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "install": _install, "update": _update, "enable": _enable, "remove": _remove, "verify": _verify, "search": _search,
}  # fmt: skip


# In a process of its own


class ActionProblem(Exception):  # noqa: N818 - reads as what it says
    """Why something was not done, in the language that was asked for."""

    def __init__(self, message: str, suggestion: str, kind: str) -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion
        self.kind = kind


def problem_in(language: str, error: ToolError | MissingExtraError) -> ActionProblem:
    """An error of the layers below in the words of whoever asked."""
    said = catalogue(language)
    if isinstance(error, MissingExtraError):
        return ActionProblem(translated(said_by(error), said), "", ErrorKind.EXECUTION)
    return ActionProblem(translated(error.message, said), translated(error.suggestion or "", said), error.kind)


async def perform(action: str, language: str, **given: Any) -> dict[str, Any]:
    """Do something that takes long, without holding anybody up; raises `ActionProblem`."""
    plugins_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    asked = json.dumps({"action": action, "language": language, "given": given}).encode() + b"\n"
    with tempfile.TemporaryFile() as said:
        line = await _line_of_child(asked, said)
        if not isinstance(line, bytes):
            said.seek(max(said.seek(0, os.SEEK_END) - _MOST_SAID, 0))
            logger.error("%s of a plugin ended without an answer:\n%s", action, said.read().decode(errors="replace"))
    answer: dict[str, Any] = json.loads(line) if isinstance(line, bytes) else {}
    if "done" in answer:
        return answer["done"]
    ended = phrase("The program that works on plugins ended without an answer.")
    look = phrase("The log says what it wrote.")
    said_here = catalogue(language)
    problem = answer.get("problem") or [translated(ended, said_here), translated(look, said_here), ErrorKind.EXECUTION]
    raise ActionProblem(*problem)


async def _line_of_child(asked: bytes, said: IO[bytes]) -> bytes | TooLong | None:
    """The child's answer; None where it ended without one, or took too long."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", __name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=said, start_new_session=True, cwd=plugins_folder(),
    )  # fmt: skip
    assert child.stdin is not None  # noqa: S101 - a pipe was asked for
    assert child.stdout is not None  # noqa: S101
    try:
        child.stdin.write(asked)
        async with asyncio.timeout(_SECONDS):
            return await LineReader(child.stdout, _LONGEST_ANSWER).read()
    except TimeoutError:
        return None
    finally:
        child.stdin.close()  # it ends when nobody waits for it any more
        with suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_END):
                await child.wait()
        with suppress(ProcessLookupError):  # with whatever it started
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()


def _worded(document: Any, said: Callable[[str], str]) -> Any:
    """A document with the phrases in it in a language."""
    if isinstance(document, dict):
        return {key: _worded(value, said) for key, value in cast("dict[str, Any]", document).items()}
    if isinstance(document, (list, tuple)):
        return [_worded(one, said) for one in cast("list[Any]", document)]
    return translated(document, said) if isinstance(document, str) else document


def _main() -> None:
    """One action from standard input, whose end means that nobody waits for it."""
    import _thread
    import threading

    asked: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    answers = os.fdopen(take_stdout(), "wb")

    def watch() -> None:
        sys.stdin.buffer.read()
        _thread.interrupt_main()

    threading.Thread(target=watch, daemon=True).start()
    language = asked["language"]
    try:
        done = _ACTIONS[asked["action"]](**asked["given"])
        answer: dict[str, Any] = {"done": _worded(done, catalogue(language))}
    except (ToolError, MissingExtraError) as error:
        problem = problem_in(language, error)
        answer = {"problem": [problem.message, problem.suggestion, problem.kind]}
    except KeyboardInterrupt:
        return
    with answers:
        answers.write(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    _main()
