"""The `ferrule` command, one file a subcommand, imported when used."""
