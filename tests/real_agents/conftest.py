"""A suite of its own: the agents take 1.2 GB, so only `scripts/real-agents` installs them, and runs this."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("FERRULE_REAL_AGENTS") else ["test_agents.py"]
