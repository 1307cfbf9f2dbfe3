"""Calls on other machines, through NATS JetStream: the same stages, results, events and records."""
