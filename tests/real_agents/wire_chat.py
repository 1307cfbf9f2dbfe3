"""OpenAI's Chat Completions, as opencode speaks it to any compatible provider."""

from __future__ import annotations

import json
from typing import Any

from tests.real_agents.endpoint import Asked, Given, Offered


class OpenAIChat:
    def wants_model(self, path: str) -> bool:
        return path.partition("?")[0].endswith("/chat/completions")

    def streams(self, path: str, body: Any) -> bool:
        return bool(body.get("stream"))

    def read(self, body: Any) -> Asked:
        functions = [one["function"] for one in body.get("tools", [])]
        tools = [Offered(one["name"], one.get("description", ""), one["parameters"]) for one in functions]
        results: list[Given] = []
        for message in body["messages"]:
            content: Any = message.get("content") or ""
            parts: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else content
            pictures = [one["image_url"]["url"].partition("base64,")[2] for one in parts if one["type"] == "image_url"]
            if message["role"] == "tool":
                results.append(Given("\n".join(one["text"] for one in parts if one["type"] == "text"), pictures))
            elif pictures and results:  # a tool's pictures come in a message of the person's, after the results
                results[-1].pictures += pictures
        return Asked(tools, results, json.dumps(body["messages"]))

    def call(self, tool: Offered, arguments: dict[str, Any], call_id: str) -> list[tuple[str, Any]]:
        function = {"name": tool.name, "arguments": json.dumps(arguments)}
        call = {"index": 0, "id": call_id, "type": "function", "function": function}
        return _chunks({"role": "assistant", "tool_calls": [call]}, "tool_calls")

    def say(self, text: str) -> list[tuple[str, Any]]:
        return _chunks({"role": "assistant", "content": text}, "stop")

    def whole(self, events: list[tuple[str, Any]]) -> Any:
        first, last = events[0][1], events[1][1]
        choice = {"index": 0, "message": first["choices"][0]["delta"], "finish_reason": "stop"}
        return {**last, "object": "chat.completion", "choices": [choice]}


def _chunks(delta: dict[str, Any], stop: str) -> list[tuple[str, Any]]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    return [
        ("", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
        ("", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage}),
        ("", "[DONE]"),
    ]
