"""Which tools there are, and which of them someone sees."""
