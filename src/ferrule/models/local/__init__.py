"""Models that run on this machine, without a key: where their weights come from, and how they are asked."""
