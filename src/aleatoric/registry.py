"""Names to plugins, imported when asked for. A new plugin is one file and one line here.

Packages outside add theirs as entry points in the group `aleatoric.KIND`.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any, TypeVar

import aleatoric
from aleatoric.errors import MissingExtraError, UsageError, quoted

PLUGINS: dict[str, dict[str, str]] = {
    "levels": {
        "word": "aleatoric.levels.word:Word",
        "token": "aleatoric.levels.token:Token",
        "text": "aleatoric.levels.text:Text",
        "finetune": "aleatoric.tuning.session:Finetune",
    },
    "views": {
        "word": "aleatoric.report.words:WordView",
        "token": "aleatoric.report.tokens:TokenView",
        "text": "aleatoric.report.texts:TextView",
        "finetune": "aleatoric.report.words:FinetuneView",
    },
    "corpora": {
        "provo": "aleatoric.data.provo:load",
        "cloze": "aleatoric.data.cloze:load",
        "simulated": "aleatoric.data.simulated:load",
    },
    "token_corpora": {
        "text": "aleatoric.data.documents:load",
        "parallel": "aleatoric.data.parallel:load",
    },
    "text_corpora": {
        "multiref": "aleatoric.data.multiref:load",
        "asset": "aleatoric.data.asset:load",
        "wmt14-10ref": "aleatoric.data.wmt14:load",
        "dailydialog++": "aleatoric.data.dailydialog:load",
        "writingprompts": "aleatoric.data.writingprompts:load",
    },
    "models": {
        "openai": "aleatoric.models.openai:load",
        "recorded": "aleatoric.models.recorded:load",
        "toy": "aleatoric.models.toy:load",
    },
    "language_models": {
        "smollm2": "aleatoric.models.smollm2:load_smollm2",
        "hf": "aleatoric.models.hf:load",
        "gguf": "aleatoric.models.gguf:load_gguf",
    },
    "forced_models": {
        "smollm2": "aleatoric.models.forced:load_smollm2",
        "hf": "aleatoric.models.forced:load_hf",
        "gguf": "aleatoric.models.forced:load_gguf",
        "translation": "aleatoric.training.checkpoint:load_forced",
    },
    "text_models": {
        "smollm2": "aleatoric.models.generate_hf:load_smollm2",
        "hf": "aleatoric.models.generate_hf:load_hf",
        "gguf": "aleatoric.models.generate_hf:load_gguf",
        "openai": "aleatoric.models.openai_texts:load",
        "recorded": "aleatoric.models.recorded:load_texts",
    },
    "engines": {
        "local": "aleatoric.runs.engine:open_local",
        "ray": "aleatoric.runs.ray:open_ray",
    },
    "metrics": {
        "tvd": "aleatoric.metrics.distances:tvd",
        "tvd_debiased": "aleatoric.metrics.debiased:tvd_debiased",
        "sq_distance": "aleatoric.metrics.agreement:sq_distance",
        "js": "aleatoric.metrics.distances:js",
        "entropy_human": "aleatoric.metrics.entropy:entropy_human",
        "entropy_model": "aleatoric.metrics.entropy:entropy_model",
        "mass_on_human": "aleatoric.metrics.agreement:mass_on_human",
        "rank_of_human_mode": "aleatoric.metrics.agreement:rank_of_human_mode",
    },
    "word_rules": {
        "corrected": "aleatoric.nextword.rules:first_word",
        "paper": "aleatoric.nextword.rules:first_word_paper",
        "characters": "aleatoric.nextword.rules:first_character",
    },
    "divergences": {
        "w1": "aleatoric.metrics.distances:w1",
        "ks": "aleatoric.metrics.distances:ks",
    },
    "taggers": {
        "textblob": "aleatoric.probes.taggers:textblob",
        "nltk": "aleatoric.probes.taggers:nltk",
        "spacy": "aleatoric.probes.taggers:spacy",
    },
    "tokenisers": {
        "spacy": "aleatoric.probes.taggers:spacy_tokens",
        "spacy-words": "aleatoric.probes.taggers:spacy_words",
        "whitespace": "aleatoric.probes.taggers:whitespace",
    },
    "encoders": {
        "minilm": "aleatoric.probes.encoders:minilm",
        "st": "aleatoric.probes.encoders:sentence_transformers",
    },
    "probes": {
        "lexical": "aleatoric.probes.opening:open_lexical",
        "syntactic": "aleatoric.probes.opening:open_syntactic",
        "semantic": "aleatoric.probes.opening:open_semantic",
    },
    "embedders": {
        "minilm": "aleatoric.levels.word_classes:minilm",
        "wordllama": "aleatoric.levels.word_classes:wordllama",
        "vectors": "aleatoric.levels.word_classes:vectors",
    },
    "analyses": {
        "replacement": "aleatoric.studies.replacement:run",
        "subsampling": "aleatoric.studies.subsampling:run",
        "ard": "aleatoric.studies.ard:run",
        "biased": "aleatoric.studies.biased:run",
        "distinguish": "aleatoric.studies.distinguish:run",
        "learning-curve": "aleatoric.studies.learning_curve:run",
    },
    "token_analyses": {
        "intrinsic": "aleatoric.studies.intrinsic:run_intrinsic",
        "stability": "aleatoric.studies.stability:run",
        "frequency": "aleatoric.studies.intrinsic:run_frequency",
    },
    "text_analyses": {
        "fit": "aleatoric.levels.text_fit:run",
    },
}
"""What ships with the package: kind -> name -> "module:attribute"."""

EXTRAS = {"matplotlib": "report", "jinja2": "report", "spacy": "nlp", "nltk": "nlp"}
EXTRAS |= {"textblob": "nlp", "sentence_transformers": "nlp", "wordllama": "nlp", "torch": "hf"}
EXTRAS |= {"ray": "ray"}


def names(kind: str) -> list[str]:
    """The registered names of a kind, ours and those of entry points.

    >>> "provo" in names("corpora")
    True
    """
    return sorted({*PLUGINS[kind], *(point.name for point in _outside(kind))})


def find(kind: str, name: str) -> Any:
    """The plugin `name` of a kind, imported now.

    >>> find("metrics", "tvd").__name__
    'tvd'
    """
    target = PLUGINS[kind].get(name)
    if target is None:
        return _find_outside(kind, name)
    module, attribute = target.split(":")
    return getattr(_import(module), attribute)


def _import(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        root = (error.name or "").partition(".")[0]
        if root in EXTRAS:
            raise MissingExtraError(root, EXTRAS[root]) from None
        raise


def _find_outside(kind: str, name: str) -> Any:
    for point in _outside(kind):
        if point.name == name:
            return point.load()
    known = ", ".join(names(kind))
    raise UsageError(f"there is no {kind} plugin named {name!r}; known: {known}.")


def _outside(kind: str) -> list[EntryPoint]:
    return list(entry_points(group=f"aleatoric.{kind}"))


def function_at(place: str, what: str) -> Any:
    """What stands at `module:function`; `what` names its role in messages.

    >>> function_at("difflib:no_such_function", "probe")
    Traceback (most recent call last):
    aleatoric.errors.UsageError: there is no function no_such_function in difflib; ...
    """
    module, _, attribute = place.partition(":")
    if not module or not attribute:
        raise UsageError(f"the {what} {place} names no function; write module:function.")
    found = _imported(module, place, what)
    if not hasattr(found, attribute):
        raise UsageError(f"there is no function {attribute} in {module}; write module:function.")
    return getattr(found, attribute)


def called(function: Callable[[str], object], place: str, what: str, text: str) -> object:
    """What a user's function gives for a text; it may raise anything.

    >>> called(str.upper, "mine:upper", "word rule", "a")
    'A'
    """
    if not callable(function):
        raise UsageError(f"the {what} {place} is no function; name one that takes a text.")
    try:
        return function(text)
    except Exception as error:
        raise UsageError(
            f"the {what} {place} failed on {quoted(text)} ({error_line(error)}); correct it."
        ) from error


def error_line(error: BaseException) -> str:
    """What an error says, in one short line.

    >>> error_line(ValueError("a"))
    'ValueError: a'
    """
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _imported(module: str, place: str, what: str) -> Any:
    """A user's module, which may be in the current folder, and may raise anything."""
    try:
        with _current_folder_first():
            return import_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"the {what} {place} cannot be imported ({error_line(error)}); write module:function, "
            "with a module that is installed or in the current folder."
        ) from error


@contextmanager
def _current_folder_first() -> Iterator[None]:
    """Imports look into the current folder too: the script of a command does not by itself."""
    here = ""
    sys.path.insert(0, here)
    try:
        yield
    finally:
        # What the module itself did to the path stays.
        if here in sys.path:
            sys.path.remove(here)


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Ours, Python's and those of the packages that are installed.

    >>> sorted(versions(["numpy", "no-such-package"]))
    ['aleatoric', 'numpy', 'python']
    """
    found = {"aleatoric": aleatoric.__version__, "python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


T = TypeVar("T")
Track = Callable[[Iterable[T], int, str], Iterable[T]]
"""Shows progress over an iterable of known length, under a description."""

Advance = Callable[[int, int], None]
"""So many more items are done, with so many tokens."""
Meter = Callable[[str, int], AbstractContextManager[Advance]]
"""Opens a display of items done and tokens a second, under a description, for so many items."""


def quietly(work: Iterable[T], total: int, description: str) -> Iterable[T]:
    """No progress shown.

    >>> list(quietly([1, 2], 2, "work"))
    [1, 2]
    """
    return work


@contextmanager
def unmetered(description: str, total: int) -> Iterator[Advance]:
    """No speed shown.

    >>> with unmetered("tokens", 3) as advance:
    ...     advance(1, 20)
    """
    yield lambda items, tokens: None
