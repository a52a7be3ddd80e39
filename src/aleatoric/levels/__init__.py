"""The levels of comparison: next words, reference tokens, whole texts; base.py has the stages."""
