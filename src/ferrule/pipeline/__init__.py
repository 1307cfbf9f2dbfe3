"""The seven stages of a call, and the runtime that takes calls through them."""
