"""The ground the file tools stand on: paths that stay inside, text that survives, writes that are whole, undo."""
