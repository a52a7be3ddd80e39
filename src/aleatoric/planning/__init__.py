"""How many people, samples and contexts the next run needs."""
