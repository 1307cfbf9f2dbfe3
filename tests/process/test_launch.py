"""A launch carries what was decided, and nothing else."""

from __future__ import annotations

import subprocess

from ferrule.process.launch import Launch


def test_nothing_of_the_parents_environment_is_in_it():
    launch = Launch(("/usr/bin/env",), {"ONLY": "this"})
    seen = subprocess.run(launch.arguments, env=dict(launch.environment), cwd=launch.folder, capture_output=True)
    assert seen.stdout == b"ONLY=this\n"
