"""Scripted servers that speak each provider's wire form, for real, on loopback."""
