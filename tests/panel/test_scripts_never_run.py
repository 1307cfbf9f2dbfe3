"""Whatever a tool, a model, a user or a server says: on a page it is text, and never runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
        await client.create_key("admin", name=ALL.replace("\n", " ")[:100])
        await http.patch("/v1/tenants/default", json={"display_name": PAYLOADS[0]})
        await http.put("/v1/roles/odd", json={"allow": [f"Bash(echo {PAYLOADS[2]})"]})
        intent: dict[str, Any] = {
            "description": ALL[:1900],
            "name": PAYLOADS[0],
            "handler": {"type": "tool", "tool": "hostile"},
        }
        intent["parameters"] = {"type": "object", "properties": {"payload": {"type": "string", "description": ALL}}}
        await http.put("/v1/intents/odd", content=json.dumps(intent), headers={"Content-Type": "application/json"})
        seen += ["/admin/keys", "/admin/tenants", "/admin/roles?edit=odd", "/admin/intents", "/tools/hostile"]
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
        # And what comes while a page is open.
        await me.open("/")
        await me.page.wait_for_function("() => document.querySelector('#connection').textContent !== ''")
        last = ""
        for payload in PAYLOADS:
            last = (await http.post("/v1/calls", json={"tool": payload[:256], "arguments": {}})).json()["id"]
        await me.page.wait_for_selector(f"tr[data-call='{last}']")
        assert await me.page.evaluate("window.ran === undefined")
        assert me.faults == []
