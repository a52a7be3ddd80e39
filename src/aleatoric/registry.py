"""Names to plugins, imported when asked for. A new plugin is one file and one line here.

Packages outside add theirs as entry points in the group `aleatoric.KIND`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from aleatoric.errors import MissingExtraError, UsageError

PLUGINS: dict[str, dict[str, str]] = {
    "corpora": {
        "provo": "aleatoric.corpora.provo:load",
        "cloze": "aleatoric.corpora.cloze:load",
        "simulated": "aleatoric.corpora.simulated:load",
    },
    "token_corpora": {
        "text": "aleatoric.corpora.text:load",
        "parallel": "aleatoric.corpora.parallel:load",
    },
    "text_corpora": {
        "multiref": "aleatoric.corpora.multiref:load",
        "asset": "aleatoric.corpora.asset:load",
        "wmt14-10ref": "aleatoric.corpora.wmt14:load",
        "dailydialog++": "aleatoric.corpora.dailydialog:load",
        "writingprompts": "aleatoric.corpora.writingprompts:load",
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
        "smollm2": "aleatoric.models.texts_hf:load_smollm2",
        "hf": "aleatoric.models.texts_hf:load_hf",
        "gguf": "aleatoric.models.texts_hf:load_gguf",
        "openai": "aleatoric.models.texts_openai:load",
        "recorded": "aleatoric.models.texts_recorded:load",
    },
    "engines": {
        "local": "aleatoric.engine.local:open_local",
        "ray": "aleatoric.engine.ray:open_ray",
    },
    "metrics": {
        "tvd": "aleatoric.metrics.tvd:tvd",
        "tvd_debiased": "aleatoric.metrics.debiased:tvd_debiased",
        "sq_distance": "aleatoric.metrics.agreement:sq_distance",
        "js": "aleatoric.metrics.divergence:js",
        "entropy_human": "aleatoric.metrics.entropy:entropy_human",
        "entropy_model": "aleatoric.metrics.entropy:entropy_model",
        "mass_on_human": "aleatoric.metrics.overlap:mass_on_human",
        "rank_of_human_mode": "aleatoric.metrics.overlap:rank_of_human_mode",
    },
    "word_rules": {
        "corrected": "aleatoric.words.rules:first_word",
        "paper": "aleatoric.words.rules:first_word_paper",
        "characters": "aleatoric.words.rules:first_character",
    },
    "divergences": {
        "w1": "aleatoric.metrics.wasserstein:w1",
        "ks": "aleatoric.metrics.ks:ks",
    },
    "taggers": {
        "textblob": "aleatoric.nlp.taggers:textblob",
        "nltk": "aleatoric.nlp.taggers:nltk",
        "spacy": "aleatoric.nlp.taggers:spacy",
    },
    "tokenisers": {
        "spacy": "aleatoric.nlp.tokenisers:spacy",
        "spacy-words": "aleatoric.nlp.tokenisers:spacy_words",
        "whitespace": "aleatoric.nlp.tokenisers:whitespace",
    },
    "encoders": {
        "minilm": "aleatoric.nlp.encoders:minilm",
        "st": "aleatoric.nlp.encoders:sentence_transformers",
    },
    "probes": {
        "lexical": "aleatoric.probes.lexical:open_lexical",
        "syntactic": "aleatoric.probes.syntactic:open_syntactic",
        "semantic": "aleatoric.probes.semantic:open_semantic",
    },
    "embedders": {
        "minilm": "aleatoric.analyses.embedders:minilm",
        "wordllama": "aleatoric.analyses.embedders:wordllama",
        "vectors": "aleatoric.analyses.embedders:vectors",
    },
    "analyses": {
        "replacement": "aleatoric.analyses.replacement:run",
        "subsampling": "aleatoric.analyses.subsampling:run",
        "ard": "aleatoric.analyses.ard:run",
        "biased": "aleatoric.analyses.biased:run",
        "distinguish": "aleatoric.analyses.distinguish:run",
        "learning-curve": "aleatoric.analyses.learning_curve:run",
    },
    "token_analyses": {
        "intrinsic": "aleatoric.analyses.intrinsic:run",
        "stability": "aleatoric.analyses.stability:run",
        "frequency": "aleatoric.analyses.frequency:run",
    },
    "text_analyses": {
        "fit": "aleatoric.analyses.fit:run",
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
