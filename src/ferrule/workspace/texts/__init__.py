"""Files as text: encodings, line endings, pages and differences, with every byte accounted for."""
