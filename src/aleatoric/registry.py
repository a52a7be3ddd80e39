"""The registry of plugins: kind and name -> module, imported on demand.

Other packages add theirs as entry points in the group `aleatoric.KIND`. Calls of user functions,
versions and progress callbacks are here too.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
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
        "finetune": "aleatoric.tuning.finetuning:Finetune",
    },
    "views": {
        "word": "aleatoric.report.words:WordView",
        "token": "aleatoric.report.tokens:TokenView",
        "text": "aleatoric.report.texts:TextView",
        "finetune": "aleatoric.report.words:FinetuneView",
    },
    "notebook": {
        "plot": "aleatoric.report.notebook:plot",
        "to_html": "aleatoric.report.notebook:to_html",
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
        "smollm2": "aleatoric.models.hf:load_smollm2",
        "hf": "aleatoric.models.hf:load",
        "gguf": "aleatoric.models.hf:load_gguf",
    },
    "estimators": {
        "exact": "aleatoric.nextword.live:LiveModel",
        "mc": "aleatoric.nextword.live:LiveModel",
    },
    "forced_models": {
        "smollm2": "aleatoric.models.forced:load_smollm2",
        "hf": "aleatoric.models.forced:load_hf",
        "gguf": "aleatoric.models.forced:load_gguf",
    },
    "text_models": {
        "smollm2": "aleatoric.models.generate_hf:load_smollm2",
        "hf": "aleatoric.models.generate_hf:load_hf",
        "gguf": "aleatoric.models.generate_hf:load_gguf",
        "openai": "aleatoric.models.openai:load_texts",
        "recorded": "aleatoric.models.recorded:load_texts",
    },
    "engines": {"local": "aleatoric.runs.engine:open_local", "ray": "aleatoric.runs.ray:open_ray"},
    "metrics": {
        "tvd": "aleatoric.metrics.distances:tvd",
        "tvd_debiased": "aleatoric.metrics.distances:tvd_debiased",
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
    "divergences": {"w1": "aleatoric.metrics.distances:w1", "ks": "aleatoric.metrics.distances:ks"},
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
    "text_analyses": {"fit": "aleatoric.levels.text_fit:run"},
}
"""What ships with the package: kind -> name -> "module:attribute"."""

EXTRAS = {"matplotlib": "report", "jinja2": "report", "torch": "hf", "ray": "ray"}
EXTRAS |= dict.fromkeys(("spacy", "nltk", "textblob", "sentence_transformers", "wordllama"), "nlp")


def names(kind: str) -> list[str]:
    """Return the registered names of a kind, ours and those of entry points."""
    return sorted({*PLUGINS[kind], *(point.name for point in _entry_points(kind))})


def find(kind: str, name: str) -> Any:
    """Import and return the plugin `name` of a kind."""
    target = PLUGINS[kind].get(name)
    if target is None:
        for point in _entry_points(kind):
            if point.name == name:
                return point.load()
        known = ", ".join(names(kind))
        raise UsageError(f"there is no {kind} plugin named {name!r}; known: {known}.")
    module, attribute = target.split(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        root = (error.name or "").partition(".")[0]
        if root in EXTRAS:
            raise MissingExtraError(root, EXTRAS[root]) from None
        raise


def _entry_points(kind: str) -> list[EntryPoint]:
    return list(entry_points(group=f"aleatoric.{kind}"))


def function_at(place: str, what: str) -> Any:
    """Return the user's function at `module:function`; `what` names its role in messages.

    >>> function_at("difflib:no_such_function", "probe")
    Traceback (most recent call last):
    aleatoric.errors.UsageError: there is no function no_such_function in difflib; ...
    """
    module, _, attribute = place.partition(":")
    if not module or not attribute:
        raise UsageError(f"the {what} {place} names no function; write module:function.")
    try:
        with _current_folder_first():
            found = import_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"the {what} {place} cannot be imported ({error_line(error)}); write module:function, "
            "with a module that is installed or in the current folder."
        ) from error
    if not hasattr(found, attribute):
        raise UsageError(f"there is no function {attribute} in {module}; write module:function.")
    return getattr(found, attribute)


def called(function: Callable[[str], object], place: str, what: str, text: str) -> object:
    """Call a user's function with a text; any error becomes one for the user."""
    if not callable(function):
        raise UsageError(f"the {what} {place} is no function; name one that takes a text.")
    try:
        return function(text)
    except Exception as error:
        raise UsageError(
            f"the {what} {place} failed on {quoted(text)} ({error_line(error)}); correct it."
        ) from error


def error_line(error: BaseException) -> str:
    """Return the class and message of an error as one short line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


@contextmanager
def _current_folder_first() -> Iterator[None]:
    """Import from the current folder too, which the script of a command does not by itself."""
    sys.path.insert(0, "")
    try:
        yield
    finally:
        # Changes that the module itself made to the path stay.
        with suppress(ValueError):
            sys.path.remove("")


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of aleatoric, Python and those packages that are installed."""
    found = {"aleatoric": aleatoric.__version__, "python": platform.python_version()}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


T = TypeVar("T")
Track = Callable[[Iterable[T], int, str], Iterable[T]]
"""Shows progress over an iterable of known length, with a description."""
Advance = Callable[[int, int], None]
"""Takes the numbers of items and tokens done since the last call."""
Meter = Callable[[str, int], AbstractContextManager[Advance]]
"""Opens a display of items done and tokens per second; takes a description and the total."""


def quietly(work: Iterable[T], total: int, description: str) -> Iterable[T]:
    """Show no progress."""
    return work


@contextmanager
def unmetered(description: str, total: int) -> Iterator[Advance]:
    """Show no speed."""
    yield lambda items, tokens: None
