"""A chat over HTTP: the answer streams as server-sent events, and the customer approves refunds in another request."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import uvicorn
from pydantic_ai import (
    Agent,
    AgentRunError,
    AgentRunResultEvent,
    DeferredToolRequests,
    DeferredToolRequestsEvent,
    DeferredToolResults,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    PartDeltaEvent,
    PartStartEvent,
    RunContext,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.models import Model, infer_model
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Carrier = Callable[[str], Awaitable[str]]


def sse(**event: str) -> str:
    return f"data: {json.dumps(event)}\n\n"


@dataclass
class Chat:
    model: Model
    carrier: Carrier
    messages: list[ModelMessage] = field(default_factory=list[ModelMessage])
    questions: dict[str, asyncio.Future[bool]] = field(default_factory=dict[str, "asyncio.Future[bool]"])
    working: bool = False

    async def stream(self, text: str) -> AsyncIterator[str]:
        self.working = True
        try:
            run = agent.run_stream_events(text, model=self.model, deps=self, message_history=self.messages)
            async with run as events:
                async for event in events:
                    match event:
                        case PartStartEvent(part=TextPart(content=content)):
                            yield sse(type="text", text=content)
                        case PartDeltaEvent(delta=TextPartDelta(content_delta=content)):
                            yield sse(type="text", text=content)
                        case FunctionToolCallEvent():
                            yield sse(type="call", text=event.part.tool_name)
                        case DeferredToolRequestsEvent():
                            for call in event.requests.approvals:
                                summary = f"Refund order {call.args_as_dict().get('order')}"
                                yield sse(type="question", key=call.tool_call_id, text=summary)
                        case FunctionToolResultEvent():
                            yield sse(type="result", text=str(event.part.content))
                        case AgentRunResultEvent():
                            self.messages = event.result.all_messages()
                            yield sse(type="end", text="")
                        case _:
                            pass
        except AgentRunError as error:
            yield sse(type="end", text=str(error))
        finally:
            self.working = False


async def ask(ctx: RunContext[Chat], requests: DeferredToolRequests) -> DeferredToolResults:
    questions = {call.tool_call_id: asyncio.get_running_loop().create_future() for call in requests.approvals}
    ctx.deps.questions.update(questions)
    return DeferredToolResults(approvals={key: await answer for key, answer in questions.items()})


agent = Agent(deps_type=Chat, instructions="You help customers.", capabilities=[HandleDeferredToolCalls(handler=ask)])


@agent.tool
async def track_parcel(ctx: RunContext[Chat], order: str) -> str:
    """Ask the carrier where a parcel is."""
    return await ctx.deps.carrier(order)


@agent.tool_plain(requires_approval=True)
def refund_order(order: str) -> str:
    """Refund an order."""
    return f"{order} was refunded"


def create_app(model: Model, carrier: Carrier) -> Starlette:
    chats: dict[str, Chat] = {}

    async def say(request: Request) -> Response:
        chat = chats.setdefault(request.path_params["chat"], Chat(model, carrier))
        if chat.working:
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
    uvicorn.run(create_app(infer_model("anthropic:claude-sonnet-4-5"), ask_carrier))
