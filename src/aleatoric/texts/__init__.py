"""From texts to how much they vary: people, a generator, and one against the other."""
