"""Pages of the Python reference, written from the source's own docstrings.

The source is parsed, not imported, so the pages need none of the optional packages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

PACKAGE = "aleatoric"
WIDTH = 90
HIDDEN = ("cli", "__main__", "__init__")
"""Rooms without a page: the command line has its own."""
NOT_FOR_READERS = re.compile(r"_jit$")
"""Compiled functions: what calls them is the interface."""


@dataclass(frozen=True)
class Page:
    """A page of the reference: its name, its title, and the rooms whose modules it shows."""

    name: str
    title: str
    rooms: tuple[str, ...]


PAGES = (
    Page("front", "import aleatoric as al", ("api", "functional")),
    Page("runs", "Runs and results", ("types", "result_types", "levels", "runs", "demo")),
    Page("metrics", "Metrics", ("metrics",)),
    Page("inference", "Inference", ("inference",)),
    Page("words", "Next words", ("nextword",)),
    Page("tokens", "Token calibration", ("calibration",)),
    Page("texts", "Probes", ("probes",)),
    Page("models", "Models and decoding", ("models",)),
    Page("corpora", "Corpora", ("data",)),
    Page("studies", "Comparisons, plans and studies", ("studies",)),
    Page("training", "Fine-tuning", ("tuning", "training")),
    Page("reports", "Reports", ("reporting",)),
    Page("rest", "Everything else", ()),
)
"""The last page takes the rooms that no other page names."""


def api_pages(source: Path) -> dict[str, str]:
    """Path -> Markdown of every page of the reference."""
    rooms = _rooms(source)
    named = {room for page in PAGES for room in page.rooms}
    pages = {}
    for page in PAGES:
        own = page.rooms or tuple(room for room in rooms if room not in named)
        modules = [module for room in own for module in rooms.get(room, ())]
        parts = [_module_part(source, module) for module in modules]
        pages[f"api/{page.name}.md"] = "\n".join([f"# {page.title}", "", *filter(None, parts)])
    return {"api/index.md": _index(pages, source), **pages}


def _rooms(source: Path) -> dict[str, list[Path]]:
    """Room -> its modules: a room is a package or a module directly below ours."""
    rooms: dict[str, list[Path]] = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        room = path.relative_to(source / PACKAGE).parts[0].removesuffix(".py")
        if room not in HIDDEN and not NOT_FOR_READERS.search(path.stem):
            rooms.setdefault(room, []).append(path)
    return rooms


def module_name(source: Path, path: Path) -> str:
    """The dotted name of the module in a file."""
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def _index(pages: dict[str, str], source: Path) -> str:
    lines = ["# Python", "", (source / PACKAGE / "__init__.py").read_text().split('"""')[1]]
    lines[-1] = lines[-1].partition("\n")[0]
    lines += [
        "",
        "Written from the source's docstrings when the site is built. Everything without a leading",
        "underscore is here; the runnable examples are tests.",
        "",
        *_public_table(pages, source),
        "",
        "| page | modules |",
        "|---|---|",
    ]
    for (path, text), page in zip(pages.items(), PAGES, strict=True):
        shown = " ".join(
            f"`{name.removeprefix(PACKAGE + '.')}`"
            for name in re.findall(r"^## `(.+?)`", text, re.M)
        )
        lines.append(f"| [{page.title}]({path.removeprefix('api/')}) | {shown} |")
    return "\n".join(lines) + "\n"


def public_names(source: Path) -> dict[str, str]:
    """Public name of the package -> the module where it is defined."""
    tree = ast.parse((source / PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            homes: dict[str, str] = ast.literal_eval(node.value)
            return {name: home for home, names in homes.items() for name in names.split()}
    return {}


def _public_table(pages: dict[str, str], source: Path) -> list[str]:
    """The names of `import aleatoric as al`, each with its summary and a link."""
    rows = ["| `al.` | |", "|---|---|"]
    for name, home in public_names(source).items():
        heading = f"### `{name}` {{ #{home}.{name} }}"
        for path, text in pages.items():
            if heading in text:
                summary = text.partition(heading)[2].split("```")[2].strip().partition("\n")[0]
                link = f"{path.removeprefix('api/')}#{home}.{name}"
                rows.append(f"| [`{name}`]({link}) | {summary.replace('|', chr(92) + '|')} |")
    return rows


def _module_part(source: Path, path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = module_name(source, path)
    members = list(_public(tree.body))
    if not members:
        return ""
    head = f"## `{name}` {{ #{name} }}\n\n{as_markdown(ast.get_docstring(tree) or '')}\n"
    return "\n".join([head, *(_member_part(name, member) for member in members)])


def _public(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node


def _member_part(module: str, node: ast.FunctionDef | ast.ClassDef) -> str:
    shown = _class_code(node) if isinstance(node, ast.ClassDef) else signature(node)
    heading = f"### `{node.name}` {{ #{module}.{node.name} }}"
    text = as_markdown(ast.get_docstring(node) or "")
    parts = [heading, "", "```python", shown, "```", "", text, ""]
    if isinstance(node, ast.ClassDef):
        parts += [_method_part(method) for method in _public(node.body)]
    return "\n".join(parts)


def _method_part(node: ast.FunctionDef | ast.ClassDef) -> str:
    if isinstance(node, ast.ClassDef):
        return ""
    is_value = any("property" in ast.unparse(mark) for mark in node.decorator_list)
    shown = f"{node.name}{_returns(node).replace(' -> ', ': ')}" if is_value else signature(node)
    text = as_markdown(ast.get_docstring(node) or "")
    return f"```python\n{shown}\n```\n\n{text}\n"


def signature(node: ast.FunctionDef) -> str:
    """A function's head, one argument a line where it is long.

    >>> signature(ast.parse("def f(a: int = 1) -> str: ...").body[0])
    'f(a: int = 1) -> str'
    """
    arguments = [_spaced(argument) for argument in _split(ast.unparse(node.args), ",")]
    line = f"{node.name}({', '.join(arguments)}){_returns(node)}"
    if len(line) <= WIDTH:
        return line
    inside = "".join(f"    {argument},\n" for argument in arguments)
    return f"{node.name}(\n{inside}){_returns(node)}"


def _spaced(argument: str) -> str:
    """An argument with spaces around the = of its default, where it has an annotation."""
    name, mark, rest = argument.partition(": ")
    return f"{name}: {' = '.join(_split(rest, '='))}" if mark else argument


def _returns(node: ast.FunctionDef) -> str:
    return f" -> {ast.unparse(node.returns)}" if node.returns else ""


def _split(text: str, mark: str) -> Iterator[str]:
    """Parts of a text between those marks that stand in no bracket."""
    depth, start = 0, 0
    for place, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == mark and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


def _class_code(node: ast.ClassDef) -> str:
    """The head of a class and its fields."""
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    head = f"class {node.name}({bases})" if bases else f"class {node.name}"
    fields = [line for place in range(len(node.body)) for line in _field_lines(node.body, place)]
    return "\n".join([f"{head}:" if fields else head, *(f"    {line}" for line in fields)])


def _field_lines(body: Sequence[ast.stmt], place: int) -> list[str]:
    """A field, and below it what is said of it, as comments."""
    if not _is_field(body[place]):
        return []
    after = body[place + 1] if place + 1 < len(body) else None
    said = ast.literal_eval(after.value) if _is_text(after) else ""
    return [ast.unparse(body[place]), *(f"# {line.strip()}" for line in said.splitlines())]


def _is_text(node: ast.stmt | None) -> TypeGuard[ast.Expr]:
    """Whether a statement is a string alone."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_field(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and not node.target.id.startswith("_")
    )


def as_markdown(docstring: str) -> str:
    """A docstring as Markdown: examples become code, marks of HTML and emphasis stay as typed.

    >>> as_markdown("Twice <x> of `<y>`.")
    'Twice &lt;x> of `<y>`.'
    """
    return "\n\n".join(_block(block) for block in docstring.strip().split("\n\n") if block.strip())


def _block(block: str) -> str:
    if block.lstrip().startswith(">>>"):
        return f"```python\n{block}\n```"
    # What stands between backticks is code already.
    parts = re.split(r"(`+[^`]*`+)", block)
    return "".join(part if part.startswith("`") else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    return re.sub(r"([*_\[\]])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))
