"""What files held before every change, and the way back: the store, the journal, undo and redo."""
