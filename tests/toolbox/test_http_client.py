"""The one way out to the web: whom it connects to, how much it takes, and what it never tells."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from tests.toolbox.web_server import WebServer

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.toolbox.accounts import Accounts, Credential, WebAccess
from ferrule.toolbox.http_client import (
    HttpClient,
    Reply,
    WebRequest,
    checked_headers,
    require_credential,
    with_credential,
)
from ferrule.toolbox.web_address import parse_address

SECRET = "s3cr3t/to+ken=="


def client(*private: str, timeout: float = 10.0, most_bytes: int = 1_000_000) -> HttpClient:
    return HttpClient(WebAccess(private=list(private or ("127.0.0.1",)), timeout=timeout, most_bytes=most_bytes))


def get(web: WebServer, path: str, by: HttpClient | None = None, *, follow: bool = False) -> Reply:
    return asyncio.run((by or client()).send(WebRequest("GET", parse_address(web.url + path)), follow=follow))


class Names:
    """A resolver that gives the next of its answers each time it is asked."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


# Whom it connects to


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "fe80::1%lo"],
)
def test_a_name_that_leads_to_a_private_address_is_not_connected_to(web: WebServer, address: str) -> None:
    by = HttpClient(WebAccess(timeout=5), Names([address]))
    with pytest.raises(ToolError, match="not on the public internet") as caught:
        asyncio.run(by.send(WebRequest("GET", parse_address(f"http://innocent.example:{web.server_port}/"))))
    assert caught.value.kind == ErrorKind.PERMISSION
    assert web.seen == []


def test_the_address_that_was_checked_is_the_one_connected_to(web: WebServer) -> None:
    """A name that is harmless when it is looked at and private a moment later is looked up only once."""
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    by = HttpClient(WebAccess(private=["opened.example"]), names)
    reply = asyncio.run(by.send(WebRequest("GET", parse_address(f"http://opened.example:{web.server_port}/x"))))
    assert reply.status == 200
    assert names.asked == ["opened.example"]
    assert web.seen[0]["headers"]["Host"] == f"opened.example:{web.server_port}"


def test_a_redirect_is_checked_like_the_first_request(web: WebServer) -> None:
    names = Names(["127.0.0.1"], ["10.0.0.1"], ["169.254.169.254"])
    by = HttpClient(WebAccess(private=["127.0.0.1"]), names)
    with pytest.raises(ToolError, match="not on the public internet"):
        asyncio.run(
            by.send(WebRequest("GET", parse_address(f"http://turns.example:{web.server_port}/moved")), follow=True)
        )
    assert len(web.seen) == 1


def test_of_several_addresses_only_the_allowed_ones_are_tried(web: WebServer) -> None:
    by = HttpClient(WebAccess(private=["127.0.0.1"]), Names(["169.254.169.254", "10.9.9.9", "127.0.0.1"]))
    assert (
        asyncio.run(by.send(WebRequest("GET", parse_address(f"http://many.example:{web.server_port}/")))).status == 200
    )


def test_a_redirect_to_another_host_is_reported_and_not_followed(web: WebServer) -> None:
    with pytest.raises(ToolError, match=r"redirects to http://127\.0\.0\.2/elsewhere, which is another host") as caught:
        get(web, "/away", client("127.0.0.0/8"), follow=True)
    assert caught.value.details == {"location": "http://127.0.0.2/elsewhere"}


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://a@127.0.0.1/", "http://127.0.0.1\\x/", "//[::1"])
def test_a_redirect_to_what_is_no_web_address_is_refused(web: WebServer, location: str) -> None:
    web.away = location
    with pytest.raises(ToolError):
        get(web, "/away", follow=True)
    assert len(web.seen) == 1


def test_redirects_end(web: WebServer) -> None:
    with pytest.raises(ToolError, match="more than 5 times"):
        get(web, "/round", follow=True)
    assert get(web, "/moved", follow=True).media_type == "text/html"
    assert get(web, "/moved").status == 302


def test_no_proxy_of_the_environment_is_used(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert get(web, "/x").status == 200


@pytest.mark.parametrize(
    ("url", "said"),
    [("http://no-such-host.invalid/", "No host is named"), ("http://127.0.0.1:9/", "cannot be reached"),
     ("https://{host}/", "cannot be reached")],
)  # fmt: skip
def test_what_cannot_be_reached_is_said(web: WebServer, url: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        asyncio.run(client().send(WebRequest("GET", parse_address(url.format(host=web.host)))))


# How much it takes


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/bomb", "sent more than 1,000,000 bytes"),
        ("/large", "sent more than 1,000,000 bytes"),
        ("/endless", "sent more than 1,000,000 bytes"),
        ("/damaged", "damaged compressed answer"),
        ("/brotli", "sent its answer as `br`"),
        ("/cut-off", "cannot be reached"),
        ("/garbage", "cannot be reached"),
        ("/headers", "cannot be reached"),
    ],
)
def test_a_hostile_answer_is_given_up(web: WebServer, path: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        get(web, path)


@pytest.mark.parametrize("path", ["/slow", "/silent"])
def test_a_slow_answer_is_given_up_in_time(web: WebServer, path: str) -> None:
    began = time.monotonic()
    with pytest.raises(ToolError, match=r"did not answer in full within 0\.5 s") as caught:
        get(web, path, client(timeout=0.5))
    assert caught.value.kind == ErrorKind.TIMEOUT
    assert time.monotonic() - began < 10


def test_compressed_answers_are_read(web: WebServer) -> None:
    assert get(web, "/packed").body == b"packed " * 100
    assert get(web, "/raw-deflate").body == b"deflated"


# What it never tells


CREDENTIALS = {
    "header": {"value": f"Bearer {SECRET}"},
    "own header": {"header": "X-Api-Key", "value": SECRET},
    "query": {"query": "key", "value": SECRET},
    "password": {"user": "ada", "password": SECRET},
}


@pytest.mark.parametrize("form", CREDENTIALS)
def test_a_credential_arrives_and_is_never_told(web: WebServer, form: str) -> None:
    accounts = Accounts(credentials={"it": Credential(hosts=[web.host], **CREDENTIALS[form])})
    request = WebRequest("GET", parse_address(f"{web.url}/echo-secret"))
    with_credential(request, require_credential(accounts, "it", request.address, client()))
    reply = asyncio.run(client().send(request))
    seen = web.seen[0]
    assert seen["headers"].get("Authorization") or seen["headers"].get("X-Api-Key") or "key=" in seen["path"]
    told = f"{reply!r}{reply.body.decode()}{request!r}"
    assert reply.masked
    for piece in ("s3cr3t", "to+ken", "to%2Bken", "czNjcjN0", "733363723374", "&#115;&#51;", "%73%33", "M2NyM3Qv"):
        assert piece not in told, piece


def test_a_credential_goes_to_its_own_hosts_and_ports_alone(web: WebServer) -> None:
    accounts = Accounts(credentials={"it": Credential(hosts=["api.example.org", web.host], value="Bearer x")})

    def why(url: str) -> str:
        try:
            require_credential(accounts, "it", parse_address(url), client())
        except ToolError as error:
            return error.message
        return ""

    assert why("https://api.example.org/x") == ""
    assert why(f"{web.url}/x") == "", "a host that the user opened may be reached without TLS"
    assert why("https://api.example.org:8443/") == "The credential `it` is not for `api.example.org:8443`."
    assert why("https://evil.api.example.org/") == "The credential `it` is not for `evil.api.example.org`."
    assert why("http://api.example.org/") == "The credential `it` is not sent without encryption."
    with pytest.raises(ToolError, match="There is no credential `ti`"):
        require_credential(accounts, "ti", parse_address("https://api.example.org/"), client())


def test_a_secret_that_is_not_there_is_said_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    with pytest.raises(ToolError, match="`value` of this account cannot be filled in: the variable `NO_SUCH_TOKEN`"):
        with_credential(
            WebRequest("GET", parse_address("https://a.org/")),
            Credential(hosts=["a.org"], value="Bearer ${NO_SUCH_TOKEN}"),
        )
    with pytest.raises(ToolError, match="control character") as caught:
        with_credential(
            WebRequest("GET", parse_address("https://a.org/")), Credential(hosts=["a.org"], value="abc\r\nX: y")
        )
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["Host", "content-length", "Transfer-Encoding", "X-HTTP-Method-Override", "X-Original-URL", "Proxy-Authorization",
     "Authorization", "Cookie", "X-Api-Key", "X-Auth-Token", "Bad Name", "X:y", ""],
)  # fmt: skip
def test_headers_that_are_not_the_models_to_set_are_refused(name: str) -> None:
    with pytest.raises(ToolError):
        checked_headers({name: "x"})


def test_other_headers_are_sent_as_they_are() -> None:
    assert checked_headers({"Accept": "text/csv", "Idempotency-Key": "7"}) == [
        ("Accept", "text/csv"),
        ("Idempotency-Key", "7"),
    ]
    with pytest.raises(ToolError, match="on one line"):
        checked_headers({"X": "a\r\nHost: evil"})
