"""What a search says that it held back is what a look at every file finds (S3)."""

from __future__ import annotations

import os
import random
from itertools import compress
from pathlib import Path

import pytest

from ferrule.policy.decide import RulePolicy
from ferrule.policy.restrictions import RuleRestrictions
from ferrule.workspace.paths import Paths, Place
from ferrule.workspace.searching.ripgrep import find_ripgrep, ripgrep
from ferrule.workspace.searching.search import count_held_back

FILES = [".env", ".ENV", "a.pem", "A.PEM", "credentials", "config.json", "id_rsa", "secrets", "b.txt", "note[1].txt"]
FOLDERS = [".env", "x.pem", "src", ".ssh", ".SSH", ".aws", ".docker", "secrets", "Secrets", "build", "a b"]
RULES = ["Read(secrets)", "Read(*.txt)", "Read(.aws/credentials)", "Read(**/build/*.pem)", "Read([ab]*)",
         "Read(note[[]1].txt)"]  # fmt: skip
IGNORED = [".env", "*.pem", ".ssh/", "build/", "secrets", "!a.pem"]


def plant(folder: Path, chance: random.Random) -> None:
    for _ in range(chance.randint(4, 14)):
        file = folder.joinpath(*chance.choices(FOLDERS, k=chance.randint(0, 3)), chance.choice(FILES))
        if not any(one.is_file() for one in file.parents) and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("x")
    if chance.random() < 0.4:
        (folder / ".gitignore").write_text("\n".join(chance.sample(IGNORED, 2)) + "\n")


async def counted_one_by_one(program: str, paths: Paths, start: Place) -> int:
    listed = b""
    async with ripgrep(program, start, ("--files",), None) as running:
        async for piece in running.output():
            listed += piece
        await running.ended()
    found = [f"{start.root.path}/{os.fsdecode(one.removeprefix(b'./'))}" for one in listed.split(b"\0") if one]
    return len(list(compress(found, paths.kept.all_held_back(found, start.path))))


@pytest.mark.parametrize("seed", range(40))
async def test_the_count_is_what_a_look_at_every_file_gives(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    plant(tmp_path, chance)
    policy = RulePolicy(
        deny=chance.sample(RULES, chance.randint(0, 2)),
        ask=chance.sample(RULES, chance.randint(0, 1)),
        allow=["Read(src/**)"] if chance.random() < 0.3 else [],
    )
    paths = Paths([tmp_path], restrictions=RuleRestrictions(policy))
    below = [one for one in tmp_path.rglob("*") if one.is_dir()]
    start, program = paths.find(str(chance.choice([tmp_path, *below]))), find_ripgrep(paths)
    assert await count_held_back(program, paths, start) == await counted_one_by_one(program, paths, start)
