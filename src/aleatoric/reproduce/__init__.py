"""The papers' tables, side by side with ours."""
