"""What `ferrule chat` is made of: a screen that is only ever added to, input, questions and commands."""
