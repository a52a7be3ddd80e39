"""Mutation testing: introduce small defects in the source and count how many the tests detect.

    python -m benchmarks.mutants --seed 0 --number 400

Each mutant changes one expression: a comparison, an operator, a constant, a condition, an argument,
a returned value. Strings, annotations, decorators, assertions, error messages, batch sizes,
tolerances below 1e-6, warnings and the keywords `strict`, `stable`, `kind`, `casting` and `dtype`
are not mutated: beyond rounding, no result depends on them. Mutated modules are written to a copy
of the source in a temporary folder; the working tree is never changed.

First, every test runs once on the unchanged copy to record which lines it executes and how long it
takes. Each mutant then runs the doctests of its module and the tests that execute its lines,
fastest first, until one fails. A mutant that times out counts as detected.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import doctest
import hashlib
import importlib
import importlib.util
import json
import os
import py_compile
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
TARGETS = (
    *("metrics/*.py", "inference/*.py", "probes/*.py"),
    *("models/decoding.py", "nextword/rules.py", "nextword/answers.py"),
)
TESTS = (
    *("properties", "unit/metrics", "unit/inference", "unit/probes", "unit/studies", "unit/levels"),
    *("unit/calibration", "unit/nextword", "unit/models/test_decoding.py"),
    "unit/models/test_draws.py",
)
SLOW = ("test_live.py", "test_live_smollm2.py", "test_architectures.py")
OWN_SECONDS, OTHER_SECONDS, TIMEOUT = 60.0, 5.0, 120.0
GIB = 2**30


Span = tuple[int, int]
EVERYWHERE = (1, 10**6)


@dataclass(frozen=True)
class Mutant:
    """One change: the lines whose tests may see it, the function, and the expression both ways."""

    path: str
    span: Span
    where: str
    before: str
    after: str
    line: str
    source: str

    @property
    def title(self) -> str:
        """Where it is and what it changes; no line numbers, so that it can be listed."""
        return f"{self.path} {self.where}: {self.before} -> {self.after} in: {self.line}"


# Changes of one node of the syntax tree, by the names of its operators.
_COMPARED = {
    "Lt": ("LtE", "GtE"), "LtE": ("Lt", "Gt"), "Gt": ("GtE", "LtE"), "GtE": ("Gt", "Lt"),
    "Eq": ("NotEq",), "NotEq": ("Eq",), "Is": ("IsNot",), "IsNot": ("Is",),
    "In": ("NotIn",), "NotIn": ("In",),
}  # fmt: skip
_OPERATORS = {
    "Add": "Sub", "Sub": "Add", "Mult": "Div", "Div": "Mult", "FloorDiv": "Mult", "Pow": "Mult",
    "Mod": "FloorDiv", "BitAnd": "BitOr", "BitOr": "BitAnd", "BitXor": "BitOr",
    "LShift": "RShift", "RShift": "LShift",
    "MatMult": "Mult", "And": "Or", "Or": "And",
}  # fmt: skip
_PAIRS = (
    *(("min", "max"), ("minimum", "maximum"), ("amin", "amax"), ("any", "all")),
    *(("floor", "ceil"), ("append", "extend"), ("argmin", "argmax"), ("zeros", "ones")),
)
_NAMES = {**dict(_PAIRS), **{b: a for a, b in _PAIRS}}
_SYMMETRIC = ("min", "max", "minimum", "maximum", "array_equal", "union1d", "add", "smaller")


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """What a node may be replaced by."""
    match node:
        case ast.Compare(ops=operators):
            for i, operator in enumerate(operators):
                others = _COMPARED[type(operator).__name__]
                for other in others if len(operators) == 1 else others[:1]:
                    new = [*operators[:i], getattr(ast, other)(), *operators[i + 1 :]]
                    yield _with(node, ops=new)
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp():
            yield _with(node, op=getattr(ast, _OPERATORS[type(node.op).__name__])())
        case ast.UnaryOp(ast.Not() | ast.USub() | ast.Invert(), operand):
            yield operand
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.If() | ast.While() | ast.IfExp():
            yield _with(node, test=_negated(node.test))
        case ast.comprehension(ifs=[_, *_]):
            yield _with(node, ifs=[_negated(node.ifs[0]), *node.ifs[1:]])
        case ast.Call():
            yield from _calls(node)
        case ast.Return(value=ast.expr()):
            yield ast.Return(ast.Constant(None))


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    """Another function, a keyword left out, or the first two arguments swapped."""
    match node.func:
        case ast.Name(name) if name in _NAMES:
            yield _with(node, func=ast.Name(_NAMES[name]))
        case ast.Attribute(value, name) if name in _NAMES:
            yield _with(node, func=ast.Attribute(value, _NAMES[name]))
    for i, keyword in enumerate(node.keywords):
        if keyword.arg not in _KEYWORDS:
            yield _with(node, keywords=node.keywords[:i] + node.keywords[i + 1 :])
    is_symmetric = ast.unparse(node.func).split(".")[-1] in _SYMMETRIC
    is_spread = any(isinstance(arg, ast.Starred) for arg in node.args[:2])
    if len(node.args) > 1 and not is_symmetric and not is_spread:
        first, second, *others = node.args
        if ast.dump(first) != ast.dump(second):
            yield _with(node, args=[second, first, *others])


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _with(node: ast.AST, **fields: Any) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


_ALONE = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr)
_UNTOUCHED = ("annotation", "returns", "decorator_list")
_KEYWORDS = (None, "strict", "stable", "kind", "casting", "dtype")
_BATCH_SIZES = ("AT_ONCE", "IN_CACHE", "BATCH", "CHUNK", "PLACES", "EXACT_CELLS")


def _is_left_alone(node: ast.AST) -> bool:
    """Whether no result depends on a node: types, messages, sizes of batches, tolerances."""
    match node:
        case ast.If(test=ast.Name("TYPE_CHECKING")) | ast.Call(func=ast.Attribute(attr="errstate")):
            return True
        case ast.keyword(arg=name):
            return name in _KEYWORDS
        case ast.Assign(targets=[target]):
            return any(size in ast.unparse(target).upper() for size in _BATCH_SIZES)
        case ast.BinOp(left, _, right):
            return _is_tolerance(left) or _is_tolerance(right)
    return isinstance(node, _ALONE) or _is_tolerance(node)


def _is_tolerance(node: ast.AST) -> bool:
    match node:
        case ast.Constant(float(value)):
            return 0 < value < 1e-6
        case ast.Name(name):
            return name.endswith("TOLERANCE")
    return False


def mutants_of(path: Path, root: Path) -> list[Mutant]:
    """All mutants of one module."""
    text, name = path.read_text(encoding="utf-8"), str(path.relative_to(root))
    tree, lines = ast.parse(text), text.splitlines()
    found: dict[str, Mutant] = {}

    def visit(node: ast.AST, put: Callable[[ast.AST], None], where: str, span: Span) -> None:
        if _is_left_alone(node):
            return
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            where = f"{where}.{node.name}".lstrip(".")
        for changed in changes(node):
            put(ast.fix_missing_locations(ast.copy_location(changed, node)))
            source = ast.unparse(tree)
            put(node)
            both = (node, changed)
            if isinstance(node, ast.If | ast.While):
                both = (node.test, changed.test)  # type: ignore[attr-defined]
            line = lines[getattr(both[0], "lineno", span[0]) - 1].strip()
            before, after = map(ast.unparse, both)
            found[source] = Mutant(name, span, where, before, after, line, source)
        for field, value in ast.iter_fields(node):
            for i, child in enumerate(value if isinstance(value, list) else [value]):
                if field in _UNTOUCHED or not isinstance(child, ast.AST):
                    continue
                is_list = isinstance(value, list)
                change = partial(value.__setitem__, i) if is_list else partial(setattr, node, field)
                visit(child, change, where, _span(node, field, child, span))

    visit(tree, lambda new: None, "", EVERYWHERE)
    found.pop(ast.unparse(tree), None)
    return list(found.values())


def _span(node: ast.AST, field: str, child: ast.AST, span: Span) -> Span:
    """The lines of the statement within a function, or all lines for what runs on import."""
    if isinstance(child, ast.stmt) and (
        span != EVERYWHERE or (isinstance(node, ast.FunctionDef) and field == "body")
    ):
        body = getattr(child, "body", None)
        return child.lineno, body[0].lineno - 1 if body else child.end_lineno or child.lineno
    return span


def controls(source: Path) -> list[Mutant]:
    """Every module unchanged: its tests must pass, or else a failure says nothing of a mutant."""
    found = []
    for path in _targets(source):
        text, name = ast.unparse(ast.parse(path.read_text())), str(path.relative_to(source))
        found.append(Mutant(name, EVERYWHERE, "control", "unchanged", "unchanged", "", text))
    return found


def _targets(source: Path) -> list[Path]:
    return sorted(path for pattern in TARGETS for path in source.glob(f"aleatoric/{pattern}"))


def sampled(number: int, seed: int, source: Path) -> list[Mutant]:
    """A sample of mutants, spread over the modules by their numbers of mutants, at least 3 each."""
    by_module = [own for path in _targets(source) if (own := mutants_of(path, source))]
    total = sum(map(len, by_module))
    chosen = []
    for own in by_module:
        share = max(3, round(number * len(own) / total))
        rng = random.Random(f"{seed} {own[0].path}")
        chosen += rng.sample(own, min(share, len(own)))
    print(f"{len(chosen)} of {total} mutants in {len(by_module)} modules, seed {seed}", flush=True)
    return chosen


# Running tests in a child process that was forked from one with the large libraries imported.


def _preload() -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # No lines can be recorded in compiled functions, and their caches could hide a mutant.
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    for name in ("numpy", "scipy.special", "scipy.optimize", "scipy.fft", "scipy.stats"):
        importlib.import_module(name)
    for name in ("torch", "hypothesis", "sqlite3", "spacy", "numba", "coverage", "transformers"):
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def _enter(overlay: Path) -> None:
    """Make this process read the package from the overlay, with repeatable random tests."""
    os.chdir(ROOT)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(overlay))
    os.environ["PYTHONPATH"] = str(overlay)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    resource.setrlimit(resource.RLIMIT_DATA, (6 * GIB, 6 * GIB))
    from hypothesis import Phase, settings

    settings.register_profile(
        "mutants",
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],  # a failing example need not be shrunk
    )
    settings.load_profile("mutants")


def in_child(work: Callable[[], int], seconds: float) -> int:
    """The exit status of `work` in a child process of its own; -1 where it takes too long."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        status = 70
        try:
            os.setsid()
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            status = work()
        finally:
            os._exit(status)
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        return -1
    finally:
        try:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def _pytest(tests: list[str], *plugins: object) -> int:
    without = ("cacheprovider", "xdist", "cov")
    own = ["-q", "--tb=no", *(f"-pno:{name}" for name in without), *([] if plugins else ["-x"])]
    return int(pytest.main([*own, *tests], list(plugins)))


class _Lines:
    """A pytest plugin that records which lines of the package each test executes."""

    def __init__(self, overlay: Path, out: Path) -> None:
        import coverage

        self._overlay, self._out = overlay, out
        self._coverage = coverage.Coverage(data_file=None, include=[f"{overlay}/aleatoric/*"])
        self._coverage.start()
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        start = time.perf_counter()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = time.perf_counter() - start
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        lines: dict[str, dict[str, list[int]]] = {}
        for file in data.measured_files():
            for line, tests in data.contexts_by_lineno(file).items():
                for test in tests:
                    if test and test not in self._failed:
                        own = lines.setdefault(test, {})
                        own.setdefault(str(Path(file).relative_to(self._overlay)), []).append(line)
        found = {
            test: {"seconds": self._seconds[test], "lines": own} for test, own in lines.items()
        }
        self._out.write_text(json.dumps(found))


def map_tests(overlay: Path, jobs: int, kept: Path | None) -> dict[str, Any]:
    """Seconds and executed lines of each test that passes on the unchanged source.

    Test files that have not changed since they were `kept` are not run again.
    """
    folders = [ROOT / "tests" / name for name in TESTS]
    paths = [
        path for own in folders for path in ([own] if own.is_file() else own.rglob("test_*.py"))
    ]
    hashes = {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(paths)
        if path.name not in SLOW
    }
    known = json.loads(kept.read_text()) if kept and kept.exists() else {}
    found = {file: own for file, own in known.items() if own["hash"] == hashes.get(file)}
    new = [file for file in hashes if file not in found]
    with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
        for file, tests in zip(new, pool.map(_map_file, [overlay] * len(new), new), strict=True):
            found[file] = {"hash": hashes[file], "tests": tests}
    if kept:
        kept.write_text(json.dumps(found))
    return {test: own for part in found.values() for test, own in part["tests"].items()}


def _map_file(overlay: Path, file: str) -> dict[str, Any]:
    out = Path(tempfile.mkstemp(dir=overlay, suffix=".json")[1])

    def work() -> int:
        _enter(overlay)
        return _pytest([file], _Lines(overlay, out))

    status = in_child(work, 600)
    text = out.read_text()
    print(f"  {file}: exit status {status}", flush=True)
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def tests_of(mutant: Mutant, tests: dict[str, Any]) -> list[list[str]]:
    """The tests that execute a mutant's lines, by file.

    Files of the module's own tests come first; within a file and among files, the quickest.
    """
    first, last = mutant.span
    own = {test: known["lines"].get(mutant.path, ()) for test, known in tests.items()}
    chosen = [test for test, lines in own.items() if any(first <= n <= last for n in lines)]
    room = Path(mutant.path).with_suffix("").parts[1]
    files: dict[str, list[str]] = {}
    total = {True: 0.0, False: 0.0}
    for test in sorted(chosen, key=lambda test: tests[test]["seconds"]):
        file = test.split("::")[0]
        is_own = room in file
        if total[is_own] < (OWN_SECONDS if is_own else OTHER_SECONDS):
            files.setdefault(file, []).append(test)
            total[is_own] += tests[test]["seconds"]

    def cost(names: list[str]) -> tuple[bool, float]:
        return room not in names[0], sum(tests[name]["seconds"] for name in names)

    return sorted(files.values(), key=cost)


def outcome(mutant: Mutant, tests: list[list[str]], source: Path) -> str:
    """`caught`, `timeout` or `survived`."""
    overlay = _overlay(source)
    file = overlay / mutant.path
    original = file.read_text(encoding="utf-8")
    cached = Path(importlib.util.cache_from_source(str(file)))
    cached.unlink(missing_ok=True)
    file.write_text(mutant.source, encoding="utf-8")

    def work() -> int:
        _enter(overlay)
        name = mutant.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        module = importlib.import_module(name)
        if doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed:
            return 1
        return next((status for own in tests if (status := _pytest(own))), 0)

    status = in_child(work, TIMEOUT)
    file.write_text(original, encoding="utf-8")
    return {0: "survived", -1: "timeout"}.get(status, "caught")


@cache
def _overlay(source: Path) -> Path:
    """A copy of the source of this worker alone."""
    folder = Path(tempfile.mkdtemp(prefix="mutants-", dir=source.parent))
    shutil.copytree(source, folder, dirs_exist_ok=True)
    return folder


def main() -> None:
    """Print every mutant that survives, and how many were caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="regular expression for titles of mutants")
    parser.add_argument(
        "--map",
        type=Path,
        help="keep here which test executes which lines; delete it after a change of the source",
    )
    parser.add_argument(
        "--control", action="store_true", help="run the tests of every module unchanged instead"
    )
    asked = parser.parse_args()
    _preload()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("*.pyc", "*.egg-info"))
        # Compiled once, and never checked against the source: mutated modules have no such file.
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(source, quiet=2, invalidation_mode=mode)
        tests = map_tests(source, asked.jobs, asked.map)
        own = controls(source) if asked.control else sampled(asked.number, asked.seed, source)
        chosen = [mutant for mutant in own if re.search(asked.only, mutant.title)]
        _run(chosen, tests, source, asked.jobs)


def _run(chosen: list[Mutant], tests: dict[str, Any], source: Path, jobs: int) -> None:
    counts: Counter[str] = Counter()
    equivalent = _equivalent()
    with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
        running = [(m, pool.submit(outcome, m, tests_of(m, tests), source)) for m in chosen]
        for mutant, future in running:
            found = future.result()
            if found == "survived" and mutant.title in equivalent:
                found = "equivalent"
            counts[found] += 1
            if found in ("survived", "equivalent"):
                print(f"{found}: {mutant.title}", flush=True)
    caught, listed = counts["caught"] + counts["timeout"], counts["equivalent"]
    print(
        f"{caught} of {len(chosen)} caught ({counts['timeout']} by running out of time): "
        f"{caught / len(chosen):.1%}; of the others {listed} are listed as equivalent, and "
        f"{caught / (len(chosen) - listed):.1%} of the rest were caught."
    )


def _equivalent() -> set[str]:
    """Mutants that change nothing, by hand: a title, a tab, and the reason."""
    rows = Path(__file__).with_name("equivalent_mutants.tsv").read_text(encoding="utf-8")
    return {row.split("\t")[0] for row in rows.splitlines()}


if __name__ == "__main__":
    main()
