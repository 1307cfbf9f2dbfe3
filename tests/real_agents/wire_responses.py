"""OpenAI's Responses API, as Codex speaks it."""

from __future__ import annotations

import json
from typing import Any

from tests.real_agents.endpoint import Asked, Given, Offered


class OpenAIResponses:
    def wants_model(self, path: str) -> bool:
        return path.partition("?")[0].endswith("/responses")

    def streams(self, path: str, body: Any) -> bool:
        return bool(body.get("stream"))

    def read(self, body: Any) -> Asked:
        tools: list[Offered] = []
        for one in body.get("tools", []):
            if one["type"] == "function":
                tools.append(Offered(one["name"], one.get("description", ""), one["parameters"]))
            elif one["type"] == "namespace":
                tools += [
                    Offered(tool["name"], tool.get("description", ""), tool["parameters"], one["name"])
                    for tool in one["tools"]
                ]
        results = [_given(item["output"]) for item in body["input"] if item["type"] == "function_call_output"]
        return Asked(tools, results, json.dumps([body.get("instructions"), body["input"]]))

    def call(self, tool: Offered, arguments: dict[str, Any], call_id: str) -> list[tuple[str, Any]]:
        item = {
            "type": "function_call",
            "id": f"fc_{call_id}",
            "call_id": call_id,
            "name": tool.name,
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        return _response({**item, "namespace": tool.group} if tool.group else item)

    def say(self, text: str) -> list[tuple[str, Any]]:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return _response({"type": "message", "id": "msg_1", "role": "assistant", "content": content})

    def whole(self, events: list[tuple[str, Any]]) -> Any:
        return events[-1][1]["response"]


def _response(item: dict[str, Any]) -> list[tuple[str, Any]]:
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 20,
    }
    begun = {"id": "resp_1", "object": "response", "status": "in_progress", "model": "scripted", "output": []}
    done = {**begun, "status": "completed", "output": [item], "usage": usage}
    events: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": begun}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": done}),
    ]
    return [(name, {"type": name, **data}) for name, data in events]


def _given(output: Any) -> Given:
    if isinstance(output, str):
        return Given(output)
    texts = [one["text"] for one in output if one["type"] == "input_text"]
    pictures = [one["image_url"].partition("base64,")[2] for one in output if one["type"] == "input_image"]
    return Given("\n".join(texts), pictures)
