"""From the text a model gives to the one place in a file it means: the matching ladder, and what a miss says."""
