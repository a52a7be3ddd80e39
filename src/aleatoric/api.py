"""Runs and word probabilities in Python: make, open, show, compare, plan and report."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import MISSING, fields, replace
from difflib import get_close_matches
from functools import cached_property, partial
from html import escape
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

from aleatoric import registry
from aleatoric.data.selection import options_of
from aleatoric.errors import ArgumentError, needs, quoted
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.levels import base
from aleatoric.result_types import Results, Study, Table
from aleatoric.runs.job import Job, about, expected, fits_field, flag, in_range, shown_fields
from aleatoric.runs.run import Store

if TYPE_CHECKING:
    import pandas

    from aleatoric.nextword.bounds import WordProbabilities
    from aleatoric.nextword.head import Head
    from aleatoric.nextword.live import LiveModel
    from aleatoric.studies.compare import Compared
    from aleatoric.studies.plan import RunPlan
    from aleatoric.studies.tasks import ComparedTasks

PathLike = str | Path
_WAVE = 10
"""Tokens per round of a search for a few words: few, to follow long spellings first."""


class Run:
    """A run directory: its results, its items, and what can be made of them.

    Notebooks show a run as its table of results. The run stays open to read until `close`; another
    process may write it meanwhile.
    """

    def __init__(self, path: PathLike) -> None:
        if not isinstance(path, str | Path):
            raise ArgumentError(f"path is {quoted(path)}; give the directory of a run.")
        self.path = Path(path)
        self._temporary: TemporaryDirectory[str] | None = None
        self._store = Store.open(self.path)

    def __repr__(self) -> str:
        systems = ", ".join(self.systems)
        return f"<aleatoric run {str(self.path)!r}: {self.level} level; systems: {systems}>"

    def __str__(self) -> str:
        notes = "".join(f"\nnote: {note}" for note in self.notes)
        return f"{self!r}\n\n{self.results}\n{notes}"

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>note: {escape(note)}</p>" for note in self.notes)
        return f"{self.results._repr_html_()}{notes}"

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *problem: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the run; a run without a directory of its own is deleted."""
        self._store.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    @property
    def level(self) -> str:
        """The level: word, token, text, ..."""
        return base.level_of(self._store).name

    @property
    def systems(self) -> list[str]:
        """The labels of the models, without controls."""
        return list(base.level_of(self._store).model_systems(self._store))

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The options, corpus and versions that make the run reproducible."""
        return self._store.manifest

    @cached_property
    def results(self) -> Results:
        """All metrics of all systems, with 95% intervals; prints as a table."""
        return self.score()

    @property
    def notes(self) -> list[str]:
        """Caveats about the numbers."""
        return base.notes(self._store)

    def score(self, interval: str = DEFAULT_METHOD) -> Results:
        """Return the results with another method of intervals: auto, t, studentised, percentile."""
        base.score(self._store, again=False)
        return base.results(self._store, interval)

    def items(self) -> pandas.DataFrame:
        """Return the statistics as a DataFrame, one row per item (or token) and system."""
        base.score(self._store, again=False)
        return self._exported("item_rows")

    def texts(self) -> pandas.DataFrame:
        """Return the texts of a text-level run as a DataFrame, one row per text."""
        return self._exported("text_rows")

    def pairs(self, probes: Sequence[str] = ()) -> pandas.DataFrame:
        """Return the distances of a text-level run as a DataFrame, one row per pair and probe.

        User-defined probes of the run are called only if they are named in `probes`.
        """
        return self._exported("pair_rows", probes)

    def _exported(self, rows: str, *options: Any) -> pandas.DataFrame:
        from aleatoric.studies import export

        with needs("pandas", "pandas"):  # pyarrow does not say how to install it
            import_module("pandas")
        return export.to_table(getattr(export, rows)(self._store, *options)).to_pandas()

    def items_where(self, expression: str, system: str | None = None) -> list[str]:
        """Return the ids of the items of a system for which an expression holds.

        An expression compares statistics with numbers and labels, for example
        `mean_M/lexical-1 < 0.4 and mean_M/semantic > 0.6`. Needs no pandas.
        """
        from aleatoric.studies.filters import matching_items

        base.score(self._store, again=False)
        return matching_items(self._store, expression, base.one_system(self._store, system))

    def study(self, name: str, system: str | None = None) -> Study:
        """Run an analysis of a paper by name: see `aleatoric list analyses`."""
        base.score(self._store, again=False)
        return base.run_study(self._store, name, system)

    def report(self, html: PathLike | None = None, figures: PathLike | None = None) -> list[Path]:
        """Write one self-contained HTML page, a folder of figures and tables, or both."""
        return report(self, html=html, figures=figures)


def word(
    corpus: PathLike,
    model: str | Sequence[str] = (),
    out: PathLike | None = None,
    *,
    progress: bool = True,
    **options: Any,
) -> Run:
    """Compare a model's next words with people's.

    `corpus` is a file of people's answers or a registered name, `model` such as `smollm2`,
    `hf:NAME` or `recorded:FILE`. `options` are those of `aleatoric word`, such as
    `decoder="temperature=0.5"` or `estimator="mc"`. Without `out`, the run is deleted when it is
    closed. A run that was interrupted is resumed by the same call with the same `out`.

    >>> run = word("simulated", "toy")
    >>> run.systems
    ['toy']
    """
    return _run("word", corpus, model, out, progress, options)


def token(
    corpus: PathLike,
    model: str | Sequence[str] = (),
    out: PathLike | None = None,
    *,
    progress: bool = True,
    **options: Any,
) -> Run:
    """Test whether a model's teacher-forced distribution is calibrated on documents.

    `options` are those of `aleatoric token`.
    """
    return _run("token", corpus, model, out, progress, options)


def text(
    corpus: PathLike,
    model: str | Sequence[str] = (),
    out: PathLike | None = None,
    *,
    progress: bool = True,
    **options: Any,
) -> Run:
    """Compare the variability of a model's texts with that of people's.

    `options` are those of `aleatoric text`, such as `probes=["lexical-1"]` or `samples=10`.
    """
    return _run("text", corpus, model, out, progress, options)


def open(path: PathLike) -> Run:
    """Open a saved run."""
    return Run(path)


def compare(
    *runs: Run | PathLike,
    systems: str | Sequence[str] = (),
    metrics: str | Sequence[str] = (),
    alpha: float = 0.05,
    matched: bool = False,
    seed: int = 0,
) -> Compared | ComparedTasks:
    """Test whether systems differ: paired differences on common items.

    Text runs of several corpora are compared as tasks: people, and each system, between every two
    tasks, unpaired. The result prints as tables; `.to_pandas()` gives one row per pair and metric.
    """
    from aleatoric.studies.tasks import compare_runs

    if not runs:
        raise ArgumentError("there is nothing to compare: give at least one run.")
    if not 0 < alpha < 1:
        raise ArgumentError(f"alpha is {alpha}; use a number between 0 and 1, such as 0.05.")
    with _stores(runs) as stores:
        for store in stores:
            base.score(store, again=False)
        chosen = _several(systems), _several(metrics)
        return compare_runs(stores, *chosen, alpha, seed, matched=matched)


def plan(
    run: Run | PathLike,
    *,
    se: float | None = None,
    width: float | None = None,
    power: float | None = None,
    difference: float | None = None,
    system: str | None = None,
    against: str | None = None,
    metric: str | None = None,
    seed: int = 0,
) -> RunPlan:
    """Plan how many people, samples and contexts a target needs, from a run of words or texts.

    Give one target: a standard error, the width of an interval, or the power to detect a
    difference. The metric is TVD for words; for texts one such as `energy/lexical-1`,
    `dmu_M/semantic` or `mean_M/lexical-2`, by default the energy distance by the first probe.
    """
    from aleatoric.studies.plan import Grid, Target, make_plan
    from aleatoric.studies.plan_from_run import pilot_source

    target = Target(se, width, power, difference, 0.95)
    target.check()
    differs = difference is not None or against is not None
    with _stores([run]) as (store,):
        source = pilot_source(store, system, against, None, differs, seed, metric)
        return make_plan(source, target, Grid((), (), (), None))


def report(
    *runs: Run | PathLike, html: PathLike | None = None, figures: PathLike | None = None
) -> list[Path]:
    """Write an HTML page of runs, a folder of figures and tables, or both; return the paths."""
    from aleatoric.reporting.page import make_report

    if html is None and figures is None:
        raise ArgumentError("nothing to write: give html='report.html', figures='figures' or both.")
    with _stores(runs) as stores:
        targets = [None if place is None else Path(place) for place in (html, figures)]
        return list(make_report(stores, targets[0], targets[1], registry.quietly, ()))


def load(model: str, **options: Any) -> LiveModel:
    """Load a language model for `word_probabilities` and `surprisal`.

    `options` are device, dtype, quantize, runtime, bos, trust_remote_code, template, chat and
    system, as on the command line.
    """
    from aleatoric.models.base import Prompting
    from aleatoric.nextword.live import LiveModel
    from aleatoric.runs.engine import open_model
    from aleatoric.runs.job import Loading

    known = [f.name for f in fields(Loading) if f.name not in ("estimator", "prompting")]
    prompts = [f.name for f in fields(Prompting)]
    _check_names(options, [*known, *prompts], "load")
    prompting = options_of(Prompting, options)
    if not isinstance(model, str):
        raise ArgumentError(f"model is {quoted(model)}; give a name such as smollm2 or hf:NAME.")
    if model.partition(":")[0] in registry.names("models"):
        raise ArgumentError(f"{model} has no weights to load; use smollm2, hf:NAME or gguf:FILE.")
    live = open_model(model, options_of(Loading, options | {"prompting": prompting}))
    assert isinstance(live, LiveModel)
    return live


def word_probabilities(
    model: str | LiveModel,
    context: str,
    words: Sequence[str],
    *,
    decoder: str = "ancestral",
    tolerance: float = 0.001,
    nodes: int = 200,
) -> Table:
    """Return the probability of each word as the next word after a context, with bounds.

    Words are compared as people's answers are: without case and punctuation. The search stops when
    at most `tolerance` of the probability is undecided, or after `nodes` tokens.
    """
    from aleatoric.models.decoding import Decoder
    from aleatoric.nextword.exact import Question, Search, exact
    from aleatoric.nextword.live import unknown_notes

    listed = _checked_words(words)
    forms = {word: _form(word) for word in listed}
    question = Question(_checked_text(context, "context"), tuple(dict.fromkeys(forms.values())))
    if not isinstance(decoder, str):
        raise ArgumentError(f"decoder is {quoted(decoder)}; give a text such as temperature=0.5.")
    decoding = Decoder.parse(decoder)
    _check_search(tolerance, nodes)
    live = _loaded(model)
    goal = Search(tolerance, nodes=nodes, every_word=True, wave=_WAVE)
    search = partial(exact, live.lm, [question], decoder=decoding)
    (answer,) = search(search=goal)
    if answer.failed > 0.1:  # probabilities are conditional on there being a word
        goal = replace(goal, tolerance=tolerance * max(1 - answer.failed, 1e-6))
        (answer,) = search(search=goal)
    bounds = zip(answer.value, answer.low, answer.high, strict=True)
    by_form = dict(zip(answer.words, bounds, strict=True))
    rows = tuple((word, *_probability(*by_form[forms[word]])) for word in listed)
    columns = ("word", "probability", "probability_low", "probability_high")
    title = f"P(word | {quoted(context, 40)}), {live.label}"
    gaps = [high - low for _, _, low, high in rows]
    notes = _bound_notes("probability", gaps, tolerance, nodes)
    unknown = unknown_notes(live.lm, context)
    return Table(title, columns, rows, (*_form_notes(forms), *notes, *unknown))


def _loaded(model: Any) -> LiveModel:
    from aleatoric.nextword.live import LiveModel

    return model if isinstance(model, LiveModel) else load(model)


def _probability(value: float, low: float, high: float) -> tuple[float | None, float, float]:
    """A probability with its bounds; `None` if the word was not found, though it may be likely."""
    return (None if value == 0 < high else float(value)), float(low), float(high)


def _bound_notes(what: str, gaps: Sequence[float], tolerance: float, nodes: int) -> tuple[str, ...]:
    """A note on how many words have bounds further apart than the tolerance."""
    if not (wide := sum(gap > tolerance for gap in gaps)):
        return ()
    return (
        f"The bounds of the {what} are more than {tolerance:g} apart for {wide} of {len(gaps)} "
        f"words; nodes={10 * nodes} searches longer.",
    )


def _checked_words(words: Any) -> list[str]:
    if isinstance(words, str) or not isinstance(words, Iterable):
        raise ArgumentError(f"words is {quoted(words)}; give a list of words.")
    if not (listed := list(words)):
        raise ArgumentError("words is empty; give a list of words.")
    for word in listed:
        if not isinstance(word, str) or len(word.split()) > 1:
            raise ArgumentError(f"words has {quoted(word)}; give single words.")
    return listed


def _form(word: str) -> str:
    """The normal form of a word."""
    form = _word_of(word)
    if form is None:
        raise ArgumentError(f"{quoted(word)} is no word; leave it out.")
    return form


def _form_notes(forms: Mapping[str, str | None]) -> tuple[str, ...]:
    """A note on words of which the word rule reads only a part, such as U.S."""

    def letters(text: str) -> str:
        return "".join(filter(str.isalnum, text.casefold()))

    cut = [(word, form) for word, form in forms.items() if form and letters(word) != letters(form)]
    parts = [f"{quoted(word)} as {quoted(form)}" for word, form in cut]
    return (f"Words that the word rule cuts: {', '.join(parts)}.",) if parts else ()


def _check_search(tolerance: Any, nodes: Any) -> None:
    if not isinstance(tolerance, int | float) or not 0 <= tolerance <= 1:
        raise ArgumentError(f"tolerance is {quoted(tolerance)}; use a number from 0 to 1.")
    if not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 1:
        raise ArgumentError(f"nodes is {quoted(nodes)}; use a whole number from 1 up.")


def _checked_text(text: Any, name: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ArgumentError(f"{name} is {quoted(text)}; give a text.")
    return text


def surprisal(
    model: str | LiveModel, text: str, *, tolerance: float = 0.05, nodes: int = 100
) -> Table:
    """Return one row per word of a text: surprisal in bits, probability with bounds, entropy.

    Words are separated by white space. The first word has no context and a mark without a letter
    is no word: their cells are `None`. The entropy (in bits) of the next-word distribution is a
    lower bound: the probability of words that the search did not reach (the column `rest`) counts
    as one word. The search for it stops when the rest is at most `tolerance`, or after `nodes`
    tokens per word.
    """
    from aleatoric.nextword.exact import Question, Search
    from aleatoric.nextword.head import HeadSearch
    from aleatoric.nextword.live import survey, unknown_notes

    places = _words_of(text)
    if not any(form for _, _, form in places):
        raise ArgumentError(f"text is {quoted(text)}; give a text with at least two words.")
    _check_search(tolerance, nodes)
    live = _loaded(model)
    questions = [Question(context, (form,)) for _, context, form in places if form]
    words = survey(
        live.lm,
        questions,
        search=Search(1e-6, nodes=nodes, every_word=True, wave=_WAVE),
        head_search=HeadSearch(tolerance, "mass", nodes=nodes),
    )
    answers = iter(words)
    rows = [(word, *(_bits(*next(answers)) if form else (None,) * 8)) for word, _, form in places]
    title = f"Surprisal in bits of {quoted(text, 40)}, {live.label}"
    notes = _form_notes({word: form for word, _, form in places})
    ratios = [word.high[0] / max(word.low[0], 1e-300) for word, _ in words]
    notes += _bound_notes("surprisal", [math.log2(max(ratio, 1)) for ratio in ratios], 0.1, nodes)
    notes += unknown_notes(live.lm, questions[-1].context)
    return Table(title, _SURPRISAL_COLUMNS, tuple(rows), (*notes, _UNITS))


_UNITS = "Surprisal and entropy are in bits (log loss and entropy of runs are in nats)."
_SURPRISAL_COLUMNS = (
    *("word", "surprisal", "surprisal_low", "surprisal_high"),
    *("probability", "probability_low", "probability_high", "entropy", "rest"),
)


def _bits(word: WordProbabilities, head: Head) -> tuple[float | None, ...]:
    """The cells of a word: surprisal and probability with bounds, entropy, unassigned rest."""
    probabilities = _probability(word.value[0], word.low[0], word.high[0])
    surprisals = [-math.log2(p) if p else None for p in probabilities]
    shares = [q for q in (*head.words.probs, head.words.rest) if q > 0]
    entropy = -math.fsum(q * math.log2(q) for q in shares)
    # The larger the probability, the smaller the surprisal.
    return (surprisals[0], surprisals[2], surprisals[1], *probabilities, entropy, head.words.rest)


def _word_of(text: str) -> str | None:
    """The first word of a text in its normal form, if there is one."""
    from aleatoric.nextword.rules import normalise, rule_named

    word = rule_named("corrected")(f" {text.strip()}")
    return None if word is None else normalise(word)


def _words_of(text: str) -> list[tuple[str, str, str | None]]:
    """Each word as written, its context, and its normal form if it has one and a context."""
    _checked_text(text, "text")
    contexts = [(m.group(), text[: m.start()].rstrip()) for m in re.finditer(r"\S+", text)]
    return [(word, context, _word_of(word) if context else None) for word, context in contexts]


def _run(
    command: str,
    corpus: PathLike,
    model: str | Sequence[str],
    out: PathLike | None,
    progress: bool,
    options: dict[str, Any],
) -> Run:
    from aleatoric.cli.printing import meter, track

    if not isinstance(corpus, str | Path):
        what = type(corpus).__name__
        raise ArgumentError(f"corpus is a {what}; give a file or a name, such as people.jsonl.")
    if out is not None and (not isinstance(out, str | Path) or not str(out)):
        raise ArgumentError(f"out is {quoted(out)}; give a directory, such as runs/first.")
    level = base.find_level(command)
    job = _job(level.job_type, {**options, "corpus": str(corpus), "model": model})
    temporary = TemporaryDirectory(prefix="aleatoric-") if out is None else None
    path = Path(temporary.name) / "run" if temporary else Path(out or "")
    monitor = base.Monitor(track, meter) if progress else base.Monitor()
    base.run_job(job, path, monitor).close()
    run = Run(path)
    run._temporary = temporary
    for note in (note for note in run.notes if note.startswith("warning: ")):
        warnings.warn(note.removeprefix("warning: "), UserWarning, stacklevel=3)
    return run


def _job(job_type: type[Job], options: Mapping[str, Any]) -> Job:
    """Make a job of options by the names of the command line, or of the job's fields."""
    known = {job_field.name: job_field for job_field in shown_fields(job_type)}
    names = {flag(f).lstrip("-").replace("-", "_"): name for name, f in known.items()}
    _check_names(options, [*names, *known], f"aleatoric {job_type.command}")
    kinds: dict[str, Any] = get_type_hints(job_type)
    values: dict[str, Any] = {}
    for option, value in options.items():
        name = names.get(option, option)
        is_list = get_origin(kinds[name]) is tuple
        if is_list and not _several(value) and known[name].default is not MISSING:
            continue
        values[name] = _several(value) if is_list else value
        saved, declared = list(values[name]) if is_list else value, about(known[name])
        if not fits_field(saved, kinds[name]) or not in_range(value, declared):
            fix = expected(kinds[name], declared)
            raise ArgumentError(f"{option} is {quoted(values[name])}; give {fix}.")
    return job_type(**values)


def _check_names(options: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    for name in options:
        if name not in known:
            hint = f"known: {', '.join(sorted(set(known)))}."
            for close in get_close_matches(name, known, 1):
                hint = f"did you mean {close}?"
            raise ArgumentError(f"{name} is no option of {what}; {hint}")


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple | set) else (value,)


@contextmanager
def _stores(runs: Sequence[Run | PathLike]) -> Iterator[list[Store]]:
    with ExitStack() as opened:
        yield [
            run._store if isinstance(run, Run) else opened.enter_context(Store.open(Path(run)))
            for run in runs
        ]
