"""The version, alone in its file so that `ferrule --version` imports nothing else."""

__version__ = "0.1.0"
