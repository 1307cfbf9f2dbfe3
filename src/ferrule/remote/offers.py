"""Tools that only workers have: they join the registry while somebody offers them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from ferrule.core.description import Description
from ferrule.core.errors import DefinitionError
from ferrule.core.function_tool import RawTool
from ferrule.core.tool import Tool, output_schema_of
from ferrule.remote.link import NotReachedError
from ferrule.remote.wire import RemoteError, unsigned

if TYPE_CHECKING:
    from ferrule.registry.registry import Registry
    from ferrule.remote.caller import Desk, RemoteCalls
    from ferrule.remote.roster import Announcement

logger = logging.getLogger("ferrule.remote")

_PLAIN = ("display_name", "version", "category", "strict", "concurrency_safe", "dangerous", "requires_permission",
          "idempotent", "timeout", "max_result", "grace", "read_only", "cache", "doing", "repair")  # fmt: skip
_LISTED = ("tags", "roles", "needs")


class OfferedTool(RawTool):
    """A tool of a worker's, of which only its definition is here."""

    def __init__(self, name: str, told: dict[str, Any], pool: str, digest: str) -> None:
        self.offered_digest = digest
        """Of the definition as its worker has it."""
        options: dict[str, Any] = {one: told[one] for one in (*_PLAIN, *_LISTED) if told.get(one) is not None}
        if told["kind_given"]:
            options["kind"] = told["kind"]
        else:
            options.pop("read_only", None)
        super().__init__(
            name,
            told["input_schema"],
            _runs_elsewhere,
            output_schema=told["output_schema"],
            description=Description(told["description"]),
            remote=pool,
            **options,
        )


def _runs_elsewhere(_: Any) -> Any:
    raise RuntimeError("it runs on a worker")


def definition_of(tool: Tool[Any]) -> bytes:
    """What a caller must know of a tool to show it and to decide about its calls."""
    told: dict[str, Any] = {one: getattr(tool, one) for one in _PLAIN}
    told |= {"requires_permission": tool.asks_anyway, "concurrency_safe": not tool.takes_turns}
    told |= {one: sorted(getattr(tool, one)) for one in _LISTED}
    return to_json(
        {
            **told,
            "kind": tool.kind,
            "kind_given": tool.kind_given,
            "description": tool.description.text,
            "input_schema": tool.input_schema,
            "output_schema": output_schema_of(tool),
        }
    )


class Following:
    """Keeps a registry up to date with what the workers of some pools offer. A tool of our own comes first."""

    def __init__(self, desk: Desk, registry: Registry, pools: tuple[str, ...]) -> None:
        self._desk, self._registry, self._pools = desk, registry, pools
        self._known: dict[tuple[str, str], OfferedTool | None] = {}
        """By name and digest; None while it is asked for, or where it cannot be had."""
        desk.roster.heard = self._heard

    async def first(self, seconds: float) -> None:
        """Wait a moment for those who are there already."""
        until = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until:
            if any(self._desk.roster.workers(pool) for pool in self._pools) and None not in self._known.values():
                return
            await asyncio.sleep(0.01)

    def _heard(self, said: Announcement) -> None:
        if said.pool not in self._pools:
            return
        offered = {
            (name, digest)
            for pool in self._pools
            for one in self._desk.roster.workers(pool)
            for name, digests in one.tools.items()
            for digest in digests
        }
        for key in [key for key in self._known if key not in offered]:
            if (tool := self._known.pop(key)) is not None:
                self._registry.unregister(tool)
        for name, digests in said.tools.items():
            for digest in digests:
                if not said.leaving and (name, digest) not in self._known and name not in self._registry:
                    self._known[name, digest] = None
                    self._desk.tasks.spawn(self._register(said, name, digest))

    async def _register(self, said: Announcement, name: str, digest: str) -> None:
        link = self._desk.link
        try:
            answer = await link.ask(f"define.{said.pool}.{said.worker}", f"{name} {digest}".encode())
            if link.key.verify(answer.data) is None:
                return
            tool = OfferedTool(name, from_json(unsigned(answer.data)), said.pool, digest)
            self._registry.register(tool, origin="remote")
        except NotReachedError:
            self._known.pop((name, digest), None)  # at its next announcement
        except (DefinitionError, ValueError, KeyError, TypeError) as error:
            logger.warning("The tool %s of worker %s cannot be used: %s", name, said.worker, error)
        else:
            self._known[name, digest] = tool


async def follow(calls: RemoteCalls, registry: Registry, seconds: float) -> None:
    """Have the registry show what the workers of all pools offer. A server that cannot be reached is reported, and
    keeps nothing else from working.
    """
    try:
        following = Following(desk := await calls.desk(), registry, tuple(calls.pools))
    except RemoteError as problem:
        logger.warning("%s", problem)
        return
    await desk.roster.ask_again()
    await following.first(seconds)
