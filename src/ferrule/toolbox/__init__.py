"""Tools for documents, notes, databases, the web, mail and calendars, and those of any HTTP API."""
