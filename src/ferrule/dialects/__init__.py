"""Each provider's form of definitions, calls and results, without any provider's SDK."""
