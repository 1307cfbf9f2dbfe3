"""An MCP proxy on standard input and output: the tools of another server without those that delete, and one more.

Run it with the command of the other server: `python with_ferrule.py uvx mcp-server-notes`.
"""

import asyncio
import sys

from ferrule import RulePolicy, Runtime, tool
from ferrule.mcp import serve


@tool(kind="readonly")
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


async def main(command: str, *args: str) -> None:
    policy = RulePolicy(allow=["mcp__notes__*"], deny=["mcp__notes__delete_*"])
    servers = {"notes": {"command": command, "args": args}}
    async with Runtime([count_words], mcp_servers=servers, policy=policy) as runtime:
        await serve(runtime, name="proxy", instructions="The user's notes. Read one before you answer.")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
