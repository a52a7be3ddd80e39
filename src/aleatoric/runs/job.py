"""Jobs: the options of a command as a frozen dataclass; a new option is one field.

The options of the command line, manifest, resumption and printed command derive from its fields.
"""

from __future__ import annotations

import json
import math
import os
import types
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self, Union, cast, get_args, get_origin, get_type_hints

from aleatoric import registry
from aleatoric.data.selection import Selection, TableOptions, options_of
from aleatoric.errors import ArgumentError, UsageError, quoted
from aleatoric.models.base import LoadOptions, Prompting
from aleatoric.models.decoding import canonical
from aleatoric.runs.formats import DamagedRowError, is_number, is_text


@dataclass(frozen=True)
class Option:
    """Presentation of a job's field to users."""

    help: str
    flag: str = ""
    """The name of the option; by default that of the field."""
    low: float | None = None
    high: float | None = None
    live: bool = False
    """Whether it matters to live models only."""
    saved: bool = True
    """Whether it is part of the manifest: it may change a result."""
    fixed: bool = True
    """Whether it must stay the same when a run is continued."""
    single: bool = False
    """Whether a tuple has exactly one value, which the command line requires."""


def option(default: Any = MISSING, help: str = "", **about: Any) -> Any:
    """Declare a field of a job that is an option of its command."""
    return field(default=default, metadata={"option": Option(help, **about)})


@dataclass(frozen=True)
class Job:
    """The options shared by all commands that query models."""

    command: ClassVar[str]
    hidden: ClassVar[tuple[str, ...]] = ()
    """Fields that are no options of the command."""
    first: ClassVar[tuple[str, ...]] = ("corpus", "models")
    """Fields that come first among the options."""

    corpus: str = option(help="A corpus name or a file.")
    models: tuple[str, ...] = option((), "The model; repeatable.", flag="--model")
    _: KW_ONLY
    device: str | None = option(
        None,
        "Device to run on; defaults to a GPU if one is available. auto: one model on all GPUs.",
        fixed=False,
    )
    quantize: str | None = option(None, "Quantize weights: 4bit or 8bit.", live=True)
    dtype: str = option("float32", "float32, bfloat16 or float16.", live=True)
    bos: str = option(
        "auto",
        "Beginning-of-text token: auto (as the model's tokenizer starts a text), none or add.",
        live=True,
    )
    trust_remote_code: bool = option(
        False, "Run the code of a model's repository.", saved=False, fixed=False
    )
    engine: str = option(
        "local", "Where models run: local, or ray (actors on a cluster).", saved=False
    )
    seed: int = option(0, "The same seed gives the same bytes.")
    encoding: str = option("utf-8", "Encoding of the corpus file.")
    columns: str | None = option(
        None,
        "Columns of your table, such as context=Sentence,response=Answer,group=Story; several "
        "columns of answers as response=P1:P40 or response=P*.",
    )
    missing: str | None = option(
        None, "Codes in your file that stand for no answer, such as NA,-99."
    )
    limit: int | None = option(None, "Use only this many items, the first ones.", low=1)
    sample: int | None = option(
        None, "Use only this many items, drawn at random by --seed; the order is kept.", low=1
    )
    groups: str | None = option(None, "Use only these groups, such as 1-4,45.")

    @property
    def table_options(self) -> TableOptions:
        """Options for reading a file of one's own."""
        return options_of(TableOptions, vars(self))

    @property
    def selection(self) -> Selection:
        """The items to use."""
        return options_of(Selection, vars(self))

    @property
    def loading(self) -> Loading:
        """Options for loading live models."""
        return options_of(Loading, vars(self))

    @property
    def engine_options(self) -> EngineOptions:
        """Options for where models run."""
        names = ("address", "actors", "actor_cpus", "actor_gpus")
        return EngineOptions(self.engine, *(getattr(self, name, None) for name in names))

    @property
    def named_probes(self) -> tuple[str, ...]:
        """Probes that the job names, which may be user code; most jobs have none."""
        return tuple(getattr(self, "probes", ()))

    def saved(self) -> dict[str, Any]:
        """Return the fields that are part of the manifest, except the corpus, as JSON values."""
        values = {name: getattr(self, name) for name in _saved_names(type(self))}
        return {name: [*v] if isinstance(v, tuple) else v for name, v in values.items()}

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any], changes: Mapping[str, Any]) -> Self:
        """Return the job of a saved run, with `changes` to fields that may change."""
        try:
            values = {name: manifest[name] for name in _saved_names(cls)}
            corpus = manifest["corpus"]
            values |= {"corpus": corpus["spec"], "encoding": corpus["encoding"]}
            values = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
            return cls(**{**values, **changes})
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedRowError(str(error)) from None

    def check_values(self, as_flags: bool = False) -> None:
        """Refuse values that are not of the types and ranges of the fields."""
        # A file name that is not UTF-8 is a text here; reading it gives a better message.
        text = json.dumps(self.saved()).encode("ascii").replace(rb"\udc", b"")
        for unfit in self._unfit(json.loads(text)):
            value, meaning = self.saved()[unfit.name], about(unfit).help.rstrip(".")
            fix = expected(get_type_hints(type(self))[unfit.name], about(unfit))
            name = flag(unfit) if as_flags else unfit.name
            problem = f"{name} cannot be {quoted(value)} ({meaning})"
            raise ArgumentError(f"{problem}; give {fix}.")

    @classmethod
    def check_saved(cls, manifest: Mapping[str, Any]) -> None:
        """Refuse a manifest whose values are not of the types and ranges of the fields."""
        for unfit in cls._unfit(manifest):
            name = unfit.name
            raise DamagedRowError(f"the manifest's {name} is {manifest[name]!r:.40}")

    @classmethod
    def _unfit(cls, values: Mapping[str, Any]) -> Iterator[Field[Any]]:
        """Yield the fields whose saved values are not of their types and ranges."""
        kinds = get_type_hints(cls)
        for job_field in fields(cls):
            name = job_field.name
            if name not in ("corpus", "encoding") and name in values:
                value = values[name]
                if not fits_field(value, kinds[name]) or not in_range(value, about(job_field)):
                    yield job_field

    def arguments(self, is_live: bool) -> Iterator[str]:
        """Yield the command-line arguments that differ from their defaults."""
        for job_field in shown_fields(type(self)):
            option_of, value = about(job_field), getattr(self, job_field.name)
            if value == job_field.default or not option_of.fixed or not option_of.saved:
                continue
            if option_of.live and not is_live:
                continue
            yield from _flagged(flag(job_field), value)


def _ray_option(help: str, low: float | None = None, high: float | None = None) -> Any:
    return option(None, f"With --engine ray: {help}", low=low, high=high, saved=False)


@dataclass(frozen=True)
class ClusterJob(Job):
    """A job whose items may be spread over the actors of a cluster."""

    _: KW_ONLY
    address: str | None = _ray_option(
        "address of a running cluster, auto or HOST:PORT; by default a local one is started."
    )
    actors: int | None = _ray_option("copies of the model; by default as many as fit.", 1, 10**5)
    actor_cpus: float | None = _ray_option("CPUs per actor; by default 1 to 4.", 0, 10**4)
    actor_gpus: float | None = _ray_option(
        "GPUs per actor, such as 1 or 0.5; by default 1 if there are any.", 0, 10**3
    )

    def __post_init__(self) -> None:
        """Name each decoder in one way, so that one that is written in two ways is one system."""
        decoders = getattr(self, "decoders", None)
        if isinstance(decoders, tuple) and all(isinstance(name, str) for name in decoders):
            object.__setattr__(self, "decoders", canonical(decoders))


def about(job_field: Field[Any]) -> Option:
    """Return the declared option of a field."""
    return cast(Option, job_field.metadata["option"])


def flag(job_field: Field[Any]) -> str:
    """Return the name of a field's option."""
    return about(job_field).flag or f"--{job_field.name.replace('_', '-')}"


def shown_fields(job_type: type[Job]) -> list[Field[Any]]:
    """Return the fields that are options: the first ones, a command's own, then shared ones."""
    shown = [job_field for job_field in fields(job_type) if job_field.name not in job_type.hidden]
    shared = {job_field.name for job_field in fields(ClusterJob)}
    place = {name: i - len(job_type.first) for i, name in enumerate(job_type.first)}
    return sorted(shown, key=lambda option: place.get(option.name, option.name in shared))


def _saved_names(job_type: type[Job]) -> list[str]:
    """Return the fields of the manifest; corpus and encoding are among the facts of the corpus."""
    saved = [job_field.name for job_field in fields(job_type) if about(job_field).saved]
    return [name for name in saved if name not in ("corpus", "encoding")]


def fits_field(value: Any, kind: Any) -> bool:
    """Whether a JSON value can stand for a field of this type."""
    if get_origin(kind) in (Union, types.UnionType):
        return any(fits_field(value, alternative) for alternative in get_args(kind))
    if get_origin(kind) is tuple:
        return type(value) is list and all(fits_field(part, get_args(kind)[0]) for part in value)
    if kind in (float, str):
        return is_number(value) if kind is float else is_text(value)
    return type(value) is kind


def in_range(value: Any, option_of: Option) -> bool:
    """Whether a number is in the range of an option; anything else is."""
    ends = (0, 2**64 - 1) if isinstance(value, int) else (-math.inf, math.inf)
    low = ends[0] if option_of.low is None else option_of.low
    high = ends[1] if option_of.high is None else option_of.high
    return not is_number(value) or bool(low <= value <= high)


def expected(kind: Any, option: Option) -> str:
    """Return what an option takes, in words."""
    names = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}
    kinds = [part for part in (get_args(kind) or (kind,)) if part in names]
    listed = get_origin(kind) is tuple
    what = "a list of texts" if listed else " or ".join(names[part] for part in kinds)
    ends = (option.low is not None, option.high is not None)
    if not listed and any(ends):
        what += f" from {option.low:g}" if ends[0] else ""
        what += f" to {option.high:g}" if ends[1] else " up"
    return what


def _flagged(name: str, value: Any) -> list[str]:
    if value is None or value is True:
        return [name] if value else []
    parts = value if isinstance(value, tuple) else (value,)
    return [word for part in parts for word in (name, str(part))]


@dataclass(frozen=True)
class Loading(LoadOptions):
    """Options for loading and querying live models."""

    estimator: str = "exact"
    runtime: str = "transformers"
    """What runs local models: transformers or llama.cpp."""
    prompting: Prompting = field(default_factory=Prompting)


LOCAL = "local"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Name and size of an engine; `None` lets it choose. No result depends on these."""

    name: str = LOCAL
    address: str | None = None
    """Address of a running cluster: `auto` or host:port."""
    actors: int | None = None
    cpus: float | None = None
    gpus: float | None = None
    """CPUs and GPUs are per actor."""


MAY_DIFFER = ("versions", "language")
"""Facts of a manifest that may differ when a run is continued."""
_OTHER_OPTIONS = {"choices": "--choose", "assignment": "--split", "training_sha256": "--training"}
"""Saved facts that are not fields of a job -> the options they follow from."""


def check_same_options(path: Path, saved: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """Refuse to continue the run in `path` with other options than it was started with."""
    requested = json.loads(json.dumps(dict(manifest)))
    for problem in _differences(saved, requested):
        raise UsageError(f"{path}: holds another run ({problem}); choose another --out.")


def _differences(saved: Mapping[str, Any], requested: Mapping[str, Any]) -> Iterator[str]:
    if saved["command"] != requested["command"]:
        yield f"it is of aleatoric {saved['command']}"
        return
    job_type = registry.find("levels", requested["command"]).job_type
    names = [name for name in _differing(saved, requested) if name not in MAY_DIFFER]
    # Options tell users more than the facts derived from them.
    for name in sorted(names, key=lambda name: (name in _OTHER_OPTIONS, name)):
        if name == "corpus":
            yield from _corpus_differences(saved[name], requested[name])
        elif name == "contents":
            before, now = saved.get(name) or {}, requested.get(name) or {}
            for spec in _differing(before, now):
                if spec in before and spec in now:  # the files of some models are not known
                    yield f"the files of --model {spec} have changed since"
        elif changed := _OTHER_OPTIONS.get(name) or _flag_of(job_type, name):
            yield f"its {changed} differs"


def _differing(saved: Mapping[str, Any], requested: Mapping[str, Any]) -> list[str]:
    names = sorted(saved.keys() | requested.keys())
    return [name for name in names if saved.get(name) != requested.get(name)]


def _flag_of(job_type: type[Job], name: str) -> str | None:
    """Return the option of a saved value; `None` if it may differ when a run is continued."""
    matching = next((job_field for job_field in fields(job_type) if job_field.name == name), None)
    if matching is None:
        return f"--{name.replace('_', '-')}"
    return flag(matching) if about(matching).fixed else None


def _corpus_differences(saved: Mapping[str, Any], requested: Mapping[str, Any]) -> Iterator[str]:
    differing = _differing(saved, requested)
    if differing == ["spec"] and _resolved(saved["spec"]) == _resolved(requested["spec"]):
        return
    if differing == ["encoding"]:
        yield "its --encoding differs"
    elif saved.get("spec") == requested.get("spec") and "sha256" in differing:
        yield "its --corpus has changed since"
    else:
        yield "its --corpus differs"


def _resolved(spec: str) -> list[str]:
    """Return the kind of a corpus, empty if it is not named, and its resolved paths.

    >>> _resolved("w.jsonl") == _resolved("./w.jsonl"), _resolved("cloze:a/../w")[0]
    (True, 'cloze')
    """
    kind, _, argument = spec.partition(":") if ":" in spec else ("", "", spec)
    return [kind, *map(os.path.realpath, argument.split(","))]
