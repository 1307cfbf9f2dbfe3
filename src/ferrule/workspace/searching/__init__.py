"""Finding files and lines: ripgrep where it is, a slower walk of our own where it is not."""
