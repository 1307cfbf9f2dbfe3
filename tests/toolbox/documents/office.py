"""A session with the tools for documents, and documents made by the libraries that others use."""

from __future__ import annotations

import asyncio
import io
import zipfile
from pathlib import Path
from typing import Any

from tests.says_yes import SaysYes

from ferrule import Runtime, Session, ToolResult
from ferrule.toolbox.accounts import Accounts
from ferrule.toolbox.documents.tools import tools
from ferrule.workspace.files import Files, files_of


class Office:
    def __init__(self, workspace: Path) -> None:
        workspace.mkdir(exist_ok=True)
        self.workspace = workspace
        self.session = Session(workspace=workspace)
        self.runtime = Runtime(tools(Accounts()), policy=SaysYes(), session=self.session)

    @property
    def files(self) -> Files:
        return files_of(self.session)

    def call(self, tool: str, file_path: str, **arguments: Any) -> ToolResult:
        return asyncio.run(self.runtime.run(tool, {"file_path": file_path, **arguments}))

    def told(self, tool: str, file_path: str, **arguments: Any) -> str:
        return self.call(tool, file_path, **arguments).llm_content

    def read(self, file_path: str, **arguments: Any) -> str:
        """What a model reads; the call must succeed."""
        result = self.call("ReadDocument", file_path, **arguments)
        assert result.success, result.llm_content
        return result.llm_content

    def refused(self, tool: str, file_path: str, **arguments: Any) -> str:
        result = self.call(tool, file_path, **arguments)
        assert not result.success, result.llm_content
        return result.llm_content

    def edit(self, file_path: str, *edits: dict[str, Any]) -> ToolResult:
        """Of a file that was read."""
        self.read(file_path)
        return self.call("EditDocument", file_path, edits=list(edits))

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.workspace / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


def package(members: dict[str, str | bytes], like: bytes | None = None) -> bytes:
    """A zip; with `like`, that one with some members replaced or added."""
    out = io.BytesIO()
    old: dict[str, bytes] = {}
    if like is not None:
        with zipfile.ZipFile(io.BytesIO(like)) as source:
            old = {name: source.read(name) for name in source.namelist()}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in {**old, **members}.items():
            made.writestr(name, data)
    return out.getvalue()


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        return {name: source.read(name) for name in source.namelist()}


def saved(document: Any) -> bytes:
    """The bytes of a document of python-docx, python-pptx or openpyxl."""
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def docx_of(*paragraphs: str) -> bytes:
    """A Word file whose body is the XML given, each in a paragraph of its own."""
    body = "".join(f"<w:p>{one}</w:p>" if not one.startswith("<w:tbl") else one for one in paragraphs)
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    types = "http://schemas.openxmlformats.org/package/2006/content-types"
    relations = "http://schemas.openxmlformats.org/package/2006/relationships"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    return package(
        {
            "[Content_Types].xml": f'<Types xmlns="{types}"><Default Extension="rels" ContentType='
            '"application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" '
            'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{relations}"><Relationship Id="r1" Type="{office}/officeDocument" '
            'Target="word/document.xml"/></Relationships>',
            "word/document.xml": f'<w:document xmlns:w="{space}" xmlns:mc="http://schemas.openxmlformats.org/'
            f'markup-compatibility/2006"><w:body>{body}</w:body></w:document>',
        }
    )
