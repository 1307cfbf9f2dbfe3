"""Tools found without wiring: installed packages and folders of Python files."""
