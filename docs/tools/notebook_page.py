"""A notebook, run and written as a page of the site."""

from __future__ import annotations

import html
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

read_notebook: Any = nbformat.read  # has no types
LONGEST = 120
"""Seconds that a cell may take."""
QUIET = ["--IPKernelApp.log_level=ERROR"]
"""The kernel warns that loopback is not encrypted; what is said there is this notebook."""


def executed(notebook: Path) -> Any:
    """The notebook with its outputs, run from the top in a folder of its own."""
    cells = read_notebook(notebook, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(cells, timeout=LONGEST, resources=resources, extra_arguments=QUIET).execute()
    return cells


def page_of(cells: Any, download: str) -> str:
    """Markdown of a notebook that was run: texts, code and what each cell gave."""
    parts = [_cell(cell) for cell in cells.cells]
    title, rest = parts[0].split("\n", 1) if "\n" in parts[0] else (parts[0], "")
    note = f"This page is a notebook, run when the site was built: [download it]({download})."
    return "\n\n".join([title, note, rest, *parts[1:]]) + "\n"


def _cell(cell: Any) -> str:
    if cell.cell_type != "code":
        return str(cell.source)
    shown = [_output(output, cell.source) for output in cell.outputs]
    return "\n\n".join([f"```python\n{cell.source}\n```", *filter(None, shown)])


def _output(output: Any, source: str) -> str:
    """The richest form that needs no script: a picture, a table, or text."""
    if output.output_type == "stream":
        return _text(output.text) if output.name == "stdout" else ""
    data = output.get("data", {})
    if "image/png" in data:
        encoded = data["image/png"].replace("\n", "")
        drawn = html.escape(source.splitlines()[-1].rstrip(";"))
        return f'<img alt="what {drawn} draws" src="data:image/png;base64,{encoded}">'
    if "text/html" in data:
        return _html(data["text/html"])
    return _text(data["text/plain"]) if "text/plain" in data else ""


def _html(given: str) -> str:
    # A blank line would end a block of HTML in Markdown.
    return "<div>\n" + "\n".join(line for line in given.splitlines() if line.strip()) + "\n</div>"


def _text(given: str) -> str:
    return f"```text\n{given.rstrip()}\n```"
