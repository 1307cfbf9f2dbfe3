"""Understanding a shell command: every program it would start, and what each of them reads, writes and reaches."""
