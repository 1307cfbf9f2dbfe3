"""Help for small models: a tool is chosen, arguments come under a grammar, the answer keeps to the result."""
