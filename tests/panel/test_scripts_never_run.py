"""Whatever a tool, a model, a user or a server says: on a page it is text, and never runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from ferrule import Output, ToolContext, ToolError, tool
from tests.panel.browser import chromium, visitor
from tests.panel.served import shown
from tests.service.serving import note

pytestmark = pytest.mark.slow

RUN = "window.ran=1"
PAYLOADS = (
    f"<script>{RUN}</script>", f"<ScRiPt>{RUN}</sCrIpT>", f"<img src=x onerror={RUN}>", f"<svg onload={RUN}>",
    f"<svg><script>{RUN}</script></svg>", f"<body onload={RUN}>", f"<iframe srcdoc='<script>parent.{RUN}</script>'>",
    f"<a href=javascript:{RUN}>x</a>", f"javascript:{RUN}", f"'><script>{RUN}</script>", f'"><script>{RUN}</script>',
    f"</textarea><script>{RUN}</script>", f"</title><script>{RUN}</script>", f"</pre><script>{RUN}</script>",
    f"</script><script>{RUN}</script>", f"' onmouseover='{RUN}", f'" onfocus="{RUN}" autofocus="', f"` onload=`{RUN}",
    f"<input autofocus onfocus={RUN}>", f"<details open ontoggle={RUN}>", f"<video><source onerror={RUN}>",
    f"<math><mi//xlink:href='data:x,<script>{RUN}</script>'>", f"<object data='javascript:{RUN}'>",
    f"<embed src='javascript:{RUN}'>", f"<form action='javascript:{RUN}'><button>x</button></form>",
    f"<meta http-equiv=refresh content='0;url=javascript:{RUN}'>", f"<base href='javascript:{RUN}//'>",
    f"<link rel=stylesheet href='javascript:{RUN}'>", f"<style>@import 'javascript:{RUN}'</style>",
    f"<div style='background:url(javascript:{RUN})'>", f"{{{{constructor.constructor('{RUN}')()}}}}",
    "{% for x in [].__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}", "${7*7}#{7*7}",
    f"<div hx-get='/' hx-trigger='load' hx-on:htmx:load='{RUN}'>", f"<div hx-on::load='{RUN}' hx-get='/'>",
    f"<template><script>{RUN}</script></template>", f"<noscript><img src=x onerror={RUN}></noscript>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;", f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e",
    f"<!--<img src='--><img src=x onerror={RUN}//'>",
)  # fmt: skip
ALL = "\n".join(PAYLOADS)


@tool(kind="readonly")
async def hostile(context: ToolContext, payload: str) -> Output[dict[str, str]]:
    """Say back what it was given, in every way a tool can."""
    context.progress(1, 2, payload)
    return Output(data={payload[:200]: payload}, display_content=payload, metadata={"said": payload})


@tool(kind="readonly")
def failing(payload: str) -> str:
    """Fail in the words that it was given."""
    raise ToolError(payload, suggestion=payload)


def described() -> tuple[Any, ...]:
    """Tools whose descriptions, as those of an MCP server, hold each payload."""
    made: list[Any] = []
    for number, payload in enumerate(PAYLOADS):

        def run(value: str = "") -> str:
            return value

        run.__doc__ = f"Do something. {payload}\n\n{payload}"
        made.append(tool(name=f"described_{number}", kind="readonly")(run))
    return tuple(made)


def test_the_corpus_has_forty() -> None:
    assert len(set(PAYLOADS)) == 40


async def administer(http: httpx2.AsyncClient, number: int, payload: str) -> None:
    """Put a payload into every field of what is administered that takes any text."""
    parameters = {"type": "object", "properties": {"payload": {"type": "string", "description": payload}}}
    intent = {"description": payload, "name": payload[:100], "handler": {"type": "tool", "tool": "hostile"}}
    for method, place, body in (
        ("POST", "/v1/keys", {"user": "admin", "name": payload[:100]}),
        ("POST", "/v1/tenants", {"name": f"t{number}", "display_name": payload[:100]}),
        ("PUT", f"/v1/roles/r{number}", {"allow": [f"Bash(echo {payload})"]}),
        ("PUT", f"/v1/intents/i{number}", {**intent, "parameters": parameters}),
    ):
        answer = await http.request(method, place, json=body)
        # A rule that cannot be parsed is refused in words of its own, which are on the page of the form below.
        assert answer.status_code < 300 or (place.startswith("/v1/roles") and answer.status_code == 422), answer.text


async def test_stored_script_never_runs(tmp_path: Path) -> None:
    async with shown(tmp_path, tools=(hostile, failing, note, *described())) as service, chromium() as browser:
        client, http = await service.client(), await service.http()
        seen: list[str] = ["/", "/tools", "/statistics", "/audit", "/approvals", "/approvals?status=denied"]
        for number, payload in enumerate(PAYLOADS):
            await http.post("/v1/calls", json={"tool": payload[:256], "arguments": {}})  # a name that a model made up
            for name in ("hostile", "failing"):
                sent = {"tool": name, "arguments": {"payload": payload}, "metadata": {"by": payload[:900]}}
                seen.append(f"/calls/{(await http.post('/v1/calls', json=sent)).json()['id']}")
            asked = {"tool": "note", "arguments": {"text": payload}}
            call = (await http.post("/v1/calls", json=asked, headers={"Prefer": "respond-async"})).json()["id"]
            if number % 2:
                waiting = next(one for one in await client.approvals() if one.call == call)
                await client.deny(waiting, reason=payload)
                seen.append(f"/calls/{call}")
            seen.append(f"/tools/described_{number}")
            await administer(http, number, payload)
        seen += ["/admin/keys", "/admin/tenants", "/admin/roles?edit=r2", "/admin/intents", "/tools/hostile"]
        seen += [f"/audit/row/{number}" for number in range(1, 40)]
        seen += [f"/?tool={payload}" for payload in PAYLOADS[:3]]
        seen += [f"/audit?q={payload}" for payload in PAYLOADS[:3]]
        me = await visitor(browser, service.url)
        await me.open(f"/sign-in?next={PAYLOADS[9]}")
        await me.sign_in(service.key)
        for path in seen:
            await me.page.goto(service.url + path.replace("#", "%23"), wait_until="load")
            assert await me.page.evaluate("window.ran === undefined"), path
            assert me.faults == [], path
        # What a form says back, with what is wrong with it.
        for field in ("#testtool", "#testarguments", "#testroles"):
            await me.open("/admin/roles")
            await me.page.fill("#testtool", "hostile")
            await me.page.fill(field, ALL)
            await me.page.click("#tester button.primary")
            await me.page.wait_for_selector("[role=alert]")
            assert await me.page.evaluate("window.ran === undefined"), field
        # And what comes while a page is open.
        await me.open("/")
        await me.page.wait_for_function("() => document.querySelector('#connection').textContent !== ''")
        last = ""
        for payload in PAYLOADS:
            last = (await http.post("/v1/calls", json={"tool": payload[:256], "arguments": {}})).json()["id"]
        await me.page.wait_for_selector(f"tr[data-call='{last}']")
        assert await me.page.evaluate("window.ran === undefined")
        assert me.faults == []
