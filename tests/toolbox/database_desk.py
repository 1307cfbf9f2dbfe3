"""A workspace with databases, and the tools for them driven through the real pipeline."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
from pathlib import Path
from typing import Any

from ferrule import RulePolicy, Runtime, Session, ToolResult
from ferrule.core.events import Question
from ferrule.toolbox.accounts import Accounts, DatabaseAccount
from ferrule.toolbox.databases.tools import check, tools

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customers (id), total REAL DEFAULT 0, note TEXT
);
CREATE INDEX by_customer ON orders (customer);
CREATE VIEW large AS SELECT * FROM orders WHERE total > 50;
INSERT INTO customers VALUES (1, 'Ada'), (2, 'Bob');
INSERT INTO orders VALUES (1, 1, 12.5, NULL), (2, 1, 99, 'gift | wrapped'), (3, 2, 7, 'two
lines');
"""


def make_shop(path: Path, more: str = "") -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(SHOP + more)
    connection.close()
    return path


def digest(*paths: Path) -> str:
    """What a file, or every file below a folder, holds."""
    files = sorted(file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
    return hashlib.sha256(b"".join(os.fsencode(file) + file.read_bytes() for file in files)).hexdigest()


class DatabaseDesk:
    """Without rules of its own somebody says yes to everything that asks; what was asked is kept."""

    def __init__(self, workspace: Path, databases: dict[str, DatabaseAccount], **policy: Any) -> None:
        workspace.mkdir(exist_ok=True)
        self.workspace = workspace
        self.accounts = Accounts(databases=databases, workspace=workspace)
        self.asked: list[Question] = []
        self.session = Session(workspace=workspace)
        self.tools = {one.name: one for one in tools(self.accounts)}
        self.runtime = Runtime(
            list(self.tools.values()), policy=RulePolicy(**policy), session=self.session, ask=self._ask
        )

    def _ask(self, question: Question) -> str:
        self.asked.append(question)
        return "once"

    def run(self, tool: str, **arguments: Any) -> ToolResult:
        return asyncio.run(self.runtime.run(tool, arguments))

    def query(self, sql: str, database: str = "shop", **more: Any) -> ToolResult:
        return self.run("QueryDatabase", database=database, sql=sql, **more)

    def rows(self, sql: str, database: str = "shop", **more: Any) -> list[list[Any]]:
        result = self.query(sql, database, **more)
        assert result.success, result.llm_content
        return result.data["rows"]

    def change(self, sql: str, database: str = "shop", **more: Any) -> ToolResult:
        return self.run("ChangeDatabase", database=database, sql=sql, **more)

    def refused(self, sql: str, database: str = "shop", tool: str = "QueryDatabase", **more: Any) -> str:
        """What is said of a statement that must fail."""
        result = self.run(tool, database=database, sql=sql, **more)
        assert not result.success, f"{sql} ran: {result.llm_content}"
        return result.llm_content

    def checked(self) -> dict[str, str]:
        """What `ferrule toolbox check` says of each database that cannot be used, and "works" of the others."""
        found = asyncio.run(check(self.accounts))
        return {one.what.split("`")[1]: "works" if one.works else one.words for one in found}
