"""What a tool, a call and a result are. Everything else in Ferrule stands on these types."""
