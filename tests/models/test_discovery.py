"""What can be asked from here is found by asking, at once and not for long."""

from __future__ import annotations

import pytest

from ferrule.models.providers import Availability, FoundProvider, Provider, discover

from .endpoints.server import Reply, Server


def hosted(url: str, name: str = "house") -> Provider:
    return Provider(name, "House", "chat", url, ("HOUSE_API_KEY",))


def local(url: str) -> Provider:
    return Provider("ollama", "Ollama", "chat", url, ("OLLAMA_API_KEY",), needs_key=False)


async def look(provider: Provider, **environment: str) -> FoundProvider:
    return (await discover({provider.name: provider}, environment, 5))[1]


async def test_a_provider_without_a_key_is_not_contacted() -> None:
    async with Server(Reply()) as server:
        server.listed = {"data": [{"id": "a"}]}
        found = await look(hosted(server.url))
        assert found == FoundProvider("house", "House", Availability.NO_KEY, key_variables=("HOUSE_API_KEY",))
        assert server.asked == []


async def test_the_models_of_a_provider_with_a_key_are_listed() -> None:
    async with Server(Reply()) as server:
        server.listed = {"data": [{"id": "b"}, {"id": "a"}, {"id": "text-embedding"}]}
        found = await look(hosted(server.url), HOUSE_API_KEY="secret")
        assert (found.state, found.models, found.key_from) == (Availability.READY, ("a", "b"), "HOUSE_API_KEY")
        assert "secret" not in repr(found)
        assert server.asked[0].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (401, Availability.KEY_REFUSED),
        (403, Availability.KEY_REFUSED),
        (404, Availability.READY),
        (500, Availability.UNREACHABLE),
    ],
)
async def test_what_a_provider_answers_says_how_it_stands(status: int, state: Availability) -> None:
    async with Server(Reply()) as server:
        server.listed, server.listed_status = {}, status
        assert (await look(hosted(server.url), HOUSE_API_KEY="secret")).state is state


async def test_a_server_on_this_machine_is_known_by_its_list() -> None:
    async with Server(Reply()) as server:
        server.listed = {"data": [{"id": "qwen3"}]}
        assert await look(local(server.url)) == FoundProvider(
            "ollama", "Ollama", Availability.READY, ("qwen3",), key_variables=("OLLAMA_API_KEY",)
        )
        server.listed = {"hello": "I am another program"}
        assert (await look(local(server.url))).state is Availability.NOT_RUNNING
        url = server.url
    assert (await look(local(url))).state is Availability.NOT_RUNNING


async def test_a_silent_server_does_not_hold_up_the_others() -> None:
    async with Server(Reply()) as deaf, Server(Reply()) as server:
        deaf.listed_deaf = True
        server.listed = {"data": [{"id": "a"}]}
        both = {"one": hosted(deaf.url, "one"), "two": hosted(server.url, "two")}
        found = await discover(both, {"HOUSE_API_KEY": "secret"}, 0.3)
    assert [one.state for one in found[1:]] == [Availability.UNREACHABLE, Availability.READY]
