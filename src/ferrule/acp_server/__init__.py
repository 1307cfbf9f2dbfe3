"""The assistant for editors: the Agent Client Protocol, with the same permissions, diffs and undo as everywhere."""
