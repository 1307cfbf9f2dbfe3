"""Kinds of files as people name them («Python files», «Markdown 文件»), as globs."""

from __future__ import annotations

import re

_KINDS: dict[str, tuple[str, ...]] = {
    "python": ("*.py",),
    "javascript": ("*.js",),
    "typescript": ("*.ts",),
    "markdown": ("*.md",),
    "rust": ("*.rs",),
    "java": ("*.java",),
    "ruby": ("*.rb",),
    "php": ("*.php",),
    "swift": ("*.swift",),
    "kotlin": ("*.kt",),
    "html": ("*.html",),
    "css": ("*.css",),
    "json": ("*.json",),
    "yaml": ("*.yaml", "*.yml"),
    "toml": ("*.toml",),
    "xml": ("*.xml",),
    "csv": ("*.csv",),
    "sql": ("*.sql",),
    "pdf": ("*.pdf",),
    "shell": ("*.sh",),
    "text": ("*.txt",),
    "log": ("*.log",),
    "c++": ("*.cpp",),
    "c#": ("*.cs",),
    "go": ("*.go",),
    "文本": ("*.txt",),
    "日志": ("*.log",),
    "脚本": ("*.sh",),
}
_ENDING = re.compile(r"(?<![A-Za-z0-9_/])\.([a-z][a-z0-9]{0,5})(?![A-Za-z0-9_.])")


def globs_for(request: str) -> tuple[str, ...]:
    """The globs for the kinds of files that a request names, in the order it names them."""
    lowered = request.lower()
    found: list[tuple[int, tuple[str, ...]]] = [
        (match.start(), (f"*.{match[1]}",)) for match in _ENDING.finditer(lowered)
    ]
    for kind, globs in _KINDS.items():
        if match := re.search(rf"(?<![a-z]){re.escape(kind)}(?![a-z])", lowered):
            found.append((match.start(), globs))
    return tuple(dict.fromkeys(glob for _, globs in sorted(found) for glob in globs))
