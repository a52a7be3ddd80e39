"""Reading our own pages: code blocks, commands, headings and links."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code on a page; `title` is the file that it shows, where it shows one."""

    language: str
    title: str | None
    text: str

    def commands(self) -> Iterator[list[str]]:
        """The `aleatoric` commands of a shell block, as a shell would cut them."""
        for line in self.text.replace("\\\n", " ").splitlines():
            typed = line.removeprefix("$ ")
            if typed.startswith("aleatoric "):
                yield shlex.split(typed, comments=True)[1:]


def our_pages() -> list[Path]:
    """Every page that a reader may open: the site's and those at the top of the repository."""
    return [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The code blocks of a page, in their order."""
    found = _FENCE.finditer(page.read_text(encoding="utf-8"))
    return [Block(m[1], t[1] if (t := _TITLE.search(m[2])) else None, m[3]) for m in found]


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def inline_code(page: Path) -> list[str]:
    """What stands between single backticks, on one line each."""
    return [" ".join(m[1].split()) for m in re.finditer(r"(?<!`)`([^`]+)`(?!`)", prose(page))]


def links(page: Path) -> list[str]:
    """Where the links of a page lead, code left out."""
    return _LINK.findall(re.sub(r"`[^`\n]*`", "`", prose(page)))


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as the site and code hosts make them."""
    return {_slug(heading) for heading in _HEADING.findall(prose(page))}


def _slug(heading: str) -> str:
    text = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())
