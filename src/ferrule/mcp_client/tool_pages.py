"""A page of a server's tools of which one that is no tool costs only itself.

The SDK takes a page whole or not at all, so a server with one careless definition would offer nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from ferrule.mcp_client.bounds import TOOLS
from ferrule.mcp_client.failures import first_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.client.session import ClientSession

_METHOD = "tools/list"
_OF_THE_SDK = re.compile(r"(?<=a valid dictionary) or instance of \w+")


def sift_pages(session: ClientSession, protocol: str, left_out: Callable[[str], None]) -> None:
    """Have the session see of every page only what it will take; `left_out` hears of the rest."""
    dispatcher: Any = session._dispatcher  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    ask = dispatcher.send_raw_request

    async def sifted(method: str, params: Mapping[str, Any] | None, *more: Any) -> Any:
        answer = await ask(method, params, *more)
        return sift(answer, protocol, left_out) if method == _METHOD else answer

    dispatcher.send_raw_request = sifted


def sift(page: Any, protocol: str, left_out: Callable[[str], None]) -> Any:
    """The page with the tools that are tools, and no more than are used; as it came where the fault is another."""
    if not isinstance(page, dict) or not isinstance(cast("dict[str, Any]", page).get("tools"), list):
        return cast("Any", page)
    given = cast("dict[str, Any]", page)
    page = {**given, "tools": given["tools"][: TOOLS + 1]}
    if _problem(page, protocol) is None:
        return page
    kept: list[Any] = []
    for at, tool in enumerate(page["tools"], 1):
        problem = _problem({**page, "tools": [tool]}, protocol)
        if problem is None:
            kept.append(tool)
        else:
            left_out(f"{_named(tool, at)} is left out: {problem}")
    return {**page, "tools": kept}


def _named(tool: Any, at: int) -> str:
    name: Any = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
    return f"the tool `{name[:100]}`" if isinstance(name, str) else f"number {at} of its tools"


def _problem(page: Any, protocol: str) -> str | None:
    try:
        validate_server_result(_METHOD, protocol, page)
    except ValidationError as error:
        return _OF_THE_SDK.sub("", first_problem(error)).replace("`tools.0.", "`", 1).removeprefix("`tools.0`: ")
    except KeyError:  # a revision of which the SDK checks nothing here
        return None
    return None
