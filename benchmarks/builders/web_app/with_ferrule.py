"""A chat over HTTP: the answer streams as server-sent events, and the customer approves refunds in another request."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ferrule import Done, Question, Runtime, tool, tools_of
from ferrule.agent import Agent, CallAsked, TurnEnded
from ferrule.models import Model, TextDelta, open_model

Carrier = Callable[[str], Awaitable[str]]


class Chat:
    def __init__(self, model: Model, carrier: Carrier) -> None:
        self.agent = Agent(model, runtime=Runtime(tools_of(self), ask=self.ask), system="You help customers.")
        self.carrier = carrier
        self.questions: dict[str, asyncio.Future[bool]] = {}

    @tool(kind="readonly")
    async def track_parcel(self, order: str) -> str:
        """Ask the carrier where a parcel is."""
        return await self.carrier(order)

    @tool(kind="write", summary="Refund order {order}")
    def refund_order(self, order: str) -> str:
        """Refund an order."""
        return f"{order} was refunded"

    async def ask(self, question: Question) -> str:
        answer = self.questions[question.call_id] = asyncio.get_running_loop().create_future()
        return "once" if await answer else "no"

    async def stream(self, text: str) -> AsyncIterator[str]:
        async with aclosing(self.agent.run(text)) as events:
            async for event in events:
                match event:
                    case TextDelta():
                        shown = {"type": "text", "text": event.text}
                    case CallAsked():
                        shown = {"type": "call", "text": event.call.name}
                    case Question():
                        shown = {"type": "question", "key": event.call_id, "text": event.summary}
                    case Done():
                        shown = {"type": "result", "text": event.result.llm_content}
                    case TurnEnded():
                        shown = {"type": "end", "text": event.problem}
                    case _:
                        continue
                yield f"data: {json.dumps(shown)}\n\n"


def create_app(model: Model, carrier: Carrier) -> Starlette:
    chats: dict[str, Chat] = {}

    async def say(request: Request) -> Response:
        chat = chats.setdefault(request.path_params["chat"], Chat(model, carrier))
        if chat.agent.working:
            return JSONResponse({"error": "The last answer isn't complete yet."}, 409)
        return StreamingResponse(chat.stream((await request.json())["text"]), media_type="text/event-stream")

    async def approve(request: Request) -> Response:
        chat = chats.get(request.path_params["chat"])
        answer = chat.questions.get(request.path_params["key"]) if chat else None
        if answer is None or answer.done():
            return JSONResponse({"error": "There is no such question."}, 404)
        answer.set_result((await request.json())["approve"] is True)
        return Response(status_code=204)

    return Starlette(
        routes=[
            Route("/chats/{chat}/turns", say, methods=["POST"]),
            Route("/chats/{chat}/questions/{key}", approve, methods=["POST"]),
        ]
    )


async def ask_carrier(order: str) -> str:
    return f"{order} is on its way"


if __name__ == "__main__":
    uvicorn.run(create_app(open_model("anthropic/claude-sonnet-4-5"), ask_carrier))
