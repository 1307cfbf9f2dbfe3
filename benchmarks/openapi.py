"""How OpenAPI documents of a folder fare: which load, how many operations become tools whose schemas compile.

    python benchmarks/openapi.py FOLDER [--most 200]

Documents are taken evenly from the sorted folder. Prints one line for each that has problems, and totals.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from time import process_time

from ferrule.core.errors import DefinitionError, ToolError
from ferrule.core.schema_params import SchemaParams
from ferrule.toolbox.openapi import OpenApi, read_document


def judge(file: Path, counts: Counter[str]) -> list[str]:
    """What is wrong with one document; counts what is right."""
    try:
        document = OpenApi(read_document(file), "https://api.example.com")
    except ToolError as error:
        counts["documents refused"] += 1
        return [error.message]
    counts["documents"] += 1
    problems = list(document.problems)
    for operation in document.operations:
        try:
            schema = operation.details.schema
            if '"$ref"' in json.dumps(schema):
                raise DefinitionError("a reference is left")
            SchemaParams(operation.id, schema).compile()
        except (ToolError, DefinitionError) as error:
            counts["operations that cannot be called"] += 1
            problems.append(str(error))
        else:
            counts["operations"] += 1
            counts["characters of schemas"] += len(json.dumps(schema))
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=200, help="documents to judge")
    given = parser.parse_args()
    files = sorted(one for one in given.folder.rglob("*") if one.suffix in (".json", ".yaml", ".yml"))
    counts: Counter[str] = Counter()
    began = process_time()
    for file in files[:: max(1, len(files) // given.most)][: given.most]:
        if problems := judge(file, counts):
            print(f"{file.name}: {problems[0]}" + (f" (and {len(problems) - 1} more)" if problems[1:] else ""))
    for what, many in sorted(counts.items()):
        print(f"{many:>12,} {what}")
    print(f"{process_time() - began:>12.1f} s of CPU time")


if __name__ == "__main__":
    main()
