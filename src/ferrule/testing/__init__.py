"""What a user's own tests need: a scripted caller, cassettes, snapshots of definitions."""
