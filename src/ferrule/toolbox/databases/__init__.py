"""Databases: SQLite, PostgreSQL, MySQL and MariaDB, DuckDB, and the CSV and Parquet files of the workspace."""
