"""Programs Ferrule starts: confined while they run, and gone when they should be."""
