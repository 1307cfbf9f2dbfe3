"""The record of every call: audit log, statistics, telemetry, logs."""
