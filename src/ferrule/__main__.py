"""`python -m ferrule`."""

from ferrule.cli.main import main

main()
