"""The tools Ferrule brings, one file each."""
