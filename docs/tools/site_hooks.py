"""What mkdocs adds while it builds the site: the Python reference and the tutorial's page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from api_pages import api_pages
from mkdocs.structure.files import File
from notebook_page import executed, page_of

ROOT = Path(__file__).resolve().parent.parent.parent
TUTORIAL = ROOT / "docs" / "tutorial.ipynb"


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made from the source and from the notebook."""
    for path, text in made_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def made_pages() -> dict[str, str]:
    """Path -> Markdown of the pages that are not kept in docs/."""
    tutorial = page_of(executed(TUTORIAL), TUTORIAL.name)
    return {"tutorial.md": tutorial, **api_pages(ROOT / "src")}
