"""The registry of plugins: kind and name -> module, imported on demand.

Other packages add theirs as entry points in the group `aleatoric.KIND`. Calls of user functions,
versions and progress callbacks are here too.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any, TypeVar

from aleatoric.errors import MissingExtraError, UsageError, did_you_mean, quoted


def _from(module: str, names: str) -> dict[str, str]:
    """Return name -> "module:attribute" of names in a module, or of NAME=ATTRIBUTE."""
    pairs = (name.partition("=") for name in names.split())
    return {name: f"aleatoric.{module}:{attribute or name}" for name, _, attribute in pairs}


_LIVE = "smollm2=load_smollm2 hf=load_hf gguf=load_gguf"
PLUGINS: dict[str, dict[str, str]] = {
    "levels": {
        "word": "aleatoric.levels.word:Word",
        "token": "aleatoric.levels.token:Token",
        "text": "aleatoric.levels.text:Text",
        "finetune": "aleatoric.tuning.finetuning:Finetune",
        "finetune-text": "aleatoric.tuning.text_tuning:FinetuneText",
    },
    "views": {
        **_from("reporting.words", "word=WordView finetune=FinetuneView"),
        "token": "aleatoric.reporting.tokens:TokenView",
        "text": "aleatoric.reporting.texts:TextView",
        "finetune-text": "aleatoric.reporting.texts:FinetuneTextView",
    },
    "notebook": {
        **_from("reporting.notebook", "plot tables_of to_html to_text"),
        "view_of_run": "aleatoric.reporting.views:view_of_run",
        "results_data": "aleatoric.reporting.tables:results_data",
    },
    "corpora": {
        "provo": "aleatoric.data.provo:load",
        "cloze": "aleatoric.data.cloze:load",
        "simulated": "aleatoric.data.simulated:load",
    },
    "token_corpora": _from("data.documents", "text=load parallel=load_parallel"),
    "text_corpora": {
        **_from("data.references", "multiref=load wmt14-10ref=load_wmt14"),
        **_from("data.references", "dailydialog++=load_dailydialog"),
        **_from("data.references", "writingprompts=load_writingprompts"),
        **_from("data.published_texts", "asset=load_asset turk=load_turk jfleg=load_jfleg"),
        **_from("data.published_texts", "e2e=load_e2e squality=load_squality"),
        **_from("data.published_texts", "dialogsum=load_dialogsum multi30k=load_multi30k"),
    },
    "models": {
        "openai": "aleatoric.models.openai:load",
        "recorded": "aleatoric.models.recorded:load",
        "toy": "aleatoric.models.toy:load",
    },
    "language_models": {
        **_from("models.hf", _LIVE),
        "vllm": "aleatoric.models.vllm:load",
    },
    "llamacpp_models": _from("models.llamacpp", "smollm2=load_smollm2 gguf=load_gguf"),
    "estimators": _from("nextword.live", "exact=LiveModel mc=LiveModel biased=LiveModel"),
    "forced_models": {
        **_from("models.forced", _LIVE),
        "recorded": "aleatoric.models.recorded_tokens:load",
    },
    "text_models": {
        **_from("models.generate_hf", _LIVE),
        "openai": "aleatoric.models.openai:load_texts",
        "recorded": "aleatoric.models.recorded:load_texts",
        "vllm": "aleatoric.models.vllm:load_texts",
    },
    "engines": {"local": "aleatoric.runs.engine:open_local", "ray": "aleatoric.runs.ray:open_ray"},
    "metrics": {
        **_from("metrics.distances", "tvd tvd_debiased js"),
        **_from("metrics.agreement", "sq_distance mass_on_human rank_of_human_mode"),
        **_from("metrics.agreement", "entropy_human entropy_model"),
    },
    "word_rules": _from(
        "nextword.rules", "corrected=first_word paper=first_word_paper characters=first_character"
    ),
    "divergences": _from("metrics.distances", "w1 ks"),
    "taggers": _from("probes.taggers", "textblob nltk spacy"),
    "tokenisers": _from("probes.taggers", "spacy=spacy_tokens spacy-words=spacy_words whitespace"),
    "encoders": _from("probes.encoders", "minilm multilingual st=sentence_transformers"),
    "probes": {
        **_from("probes.overlaps", "lexical=open_lexical syntactic=open_syntactic"),
        **_from("probes.overlaps", "dependency=open_dependency compression=open_compression"),
        **_from("probes.semantic", "semantic=open_semantic euclidean=open_euclidean"),
        **_from("probes.nli", "nli=open_nli nli_clusters=open_clusters entailment=open_entailment"),
        **_from(
            "probes.one_text",
            "length=open_length perplexity=open_perplexity log_probability=open_log_probability "
            "score=open_score",
        ),
    },
    "embedders": _from("levels.word_classes", "minilm wordllama vectors"),
    "analyses": {
        "replacement": "aleatoric.studies.replacement:run",
        "subsampling": "aleatoric.studies.sample_size:subsampling",
        "ard": "aleatoric.studies.ard:run",
        "biased": "aleatoric.studies.people:run",
        "distinguish": "aleatoric.studies.distinguish:run",
        "learning-curve": "aleatoric.studies.sample_size:learning_curve",
    },
    "token_analyses": _from("studies.token_studies", "intrinsic frequency stability"),
    "text_analyses": {
        "fit": "aleatoric.levels.text_inputs:run",
        "entropy": "aleatoric.studies.text_entropy:run",
        "lengths": "aleatoric.levels.text_lengths:run",
        "phrases": "aleatoric.studies.phrases:run",
        "acts": "aleatoric.studies.acts:run",
    },
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
        near = did_you_mean(name, names(kind))
        raise UsageError(f"there is no {kind} plugin named {name!r}{near}; known: {known}.")
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
    except (Exception, SystemExit) as error:
        problem = f"the {what} {place} failed on {quoted(text)} ({error_line(error)})"
        raise UsageError(f"{problem}; correct it.") from error


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


def package_version() -> str:
    """Return the version of aleatoric; a source tree that is not installed says so."""
    try:
        return version("aleatoric")
    except PackageNotFoundError:
        return "0.1.0+source"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of aleatoric, Python and those packages that are installed."""
    found = {"aleatoric": package_version(), "python": platform.python_version()}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def code_id(packages: Iterable[str]) -> str:
    """Identify packages by version, and aleatoric by its source: its version may stay the same."""
    digest = hashlib.sha256(repr(versions(packages)).encode())
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


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
