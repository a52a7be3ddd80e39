"""Results as plain data, tables, figures and pages. Never imports torch."""

from importlib import resources


def resource(name: str) -> str:
    """Return the text of a file in `templates`."""
    return (resources.files(__name__) / "templates" / name).read_text(encoding="utf-8")
