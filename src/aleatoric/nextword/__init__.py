"""From text to words: the word rules, and human and model next-word distributions."""
