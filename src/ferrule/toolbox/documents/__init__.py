"""Reads, writes, edits and converts documents: Word, PDF, spreadsheets, presentations, web pages, books."""
