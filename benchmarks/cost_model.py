"""Measure the constants that `aleatoric plan --cost` uses: one core, one model after another.

    OMP_NUM_THREADS=1 python -m benchmarks.cost_model --corpus provo_cloze.jsonl.gz

Times are CPU seconds, so other processes on the machine do not count. The constants are fitted to
some model sizes, numbers of contexts and samples, and checked on others. The command prints both
errors, and the constants in the form of `aleatoric.studies.cost`. Models other than SmolLM2 have
random weights: their flat distributions make trees large, but tokens no more expensive.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from aleatoric.levels.base import run_job
from aleatoric.models.base import LoadOptions
from aleatoric.models.decoding import Decoder
from aleatoric.models.gguf import smollm2_directory
from aleatoric.models.hf import HFModel, load_smollm2, wrap
from aleatoric.nextword.exact import Search, exact
from aleatoric.nextword.sampled import mc
from aleatoric.nextword.vocabulary import vocabulary_of
from aleatoric.runs.run import Store
from aleatoric.types import Draws, Item
from benchmarks.exact_vs_generate import Cloze, questions, read, spread
from benchmarks.measure import cost_of

SHAPES = {"7M": (128, 4), "25M": (320, 8), "13M": (192, 6), "60M": (512, 10), "180M": (768, 20)}
"""Random-weight models: width and layers."""
FITTED = ("7M", "25M", "smollm2")
CHECKED = ("13M", "60M", "180M")


@dataclass(frozen=True)
class Run:
    """One measured call: what it was, and what it took."""

    model: str
    parameters: int
    estimator: str
    contexts: int
    samples: int
    tokens: int
    seconds: float

    @property
    def features(self) -> list[float]:
        """What the fit multiplies: tokens of each estimator, and tokens times parameters.

        Contexts and draws as further features fit random models better and the real one worse.
        """
        tokens = float(self.tokens)
        own = [0.0, tokens] if self.estimator == "mc" else [tokens, 0.0]
        return [*own, tokens * self.parameters]


def random_model(shape: tuple[int, int], tokenizer: Any) -> HFModel:
    """A Llama of some shape with random weights and SmolLM2's vocabulary."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    width, layers = shape
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
    )
    model: Any = LlamaForCausalLM(config)  # type: ignore[no-untyped-call]
    return wrap(model, tokenizer, name=f"random-{width}x{layers}")


@contextmanager
def counted(lm: HFModel) -> Iterator[list[int]]:
    """How many tokens each forward pass reads."""
    seen: list[int] = []

    def note(_: Any, arguments: Any, named: dict[str, Any]) -> None:
        ids = named["input_ids"] if "input_ids" in named else arguments[0]
        seen.append(int(ids.numel()))

    handle = lm.model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield seen
    finally:
        handle.remove()


def measured(
    lm: HFModel, name: str, estimator: str, items: Sequence[Cloze], samples: int, decoder: str = ""
) -> Run:
    """One call of an estimator on some contexts."""
    vocabulary_of(lm.pieces)  # made at the first use: a run of any size does not feel it
    work: Callable[[], Any]
    if estimator == "exact":
        # Flat distributions would be searched to the end: a tree of this size is enough to time.
        search = Search(tolerance=0.02)
        work = lambda: exact(lm, questions(items), search=search)  # noqa: E731
    else:
        prompts = [Item(item.id, "", item.context, ()) for item in items]
        how = Decoder.parse(decoder or "ancestral")
        work = lambda: list(  # noqa: E731
            mc(lm, prompts, samples=samples, decoder=how)
        )
    with counted(lm) as seen:
        start = time.process_time()
        work()
        seconds = time.process_time() - start
    parameters = sum(own.numel() for own in lm.model.parameters())
    run = Run(name, parameters, estimator, len(items), samples, sum(seen), seconds)
    print(f"  {name:8} {parameters / 1e6:6.1f}M {estimator:5} {decoder:12} contexts {len(items):3} "
          f"samples {samples:5} tokens {run.tokens:7} {seconds:7.2f} s", flush=True)  # fmt: skip
    return run


def runs_of(name: str, lm: HFModel, items: Sequence[Cloze]) -> list[Run]:
    """The runs of one model: small and large, exact and sampled."""
    few, more = spread(items, 3), spread(items, 8)
    measured(lm, name, "exact", items[:1], 0)  # tables and kernels
    measured(lm, name, "mc", items[:1], 5)
    # Samples of a real model share far more beginnings than those of a flat one.
    shared = [measured(lm, name, "mc", few, 600)] if name == "smollm2" else []
    return [
        *shared,
        measured(lm, name, "exact", few, 0),
        measured(lm, name, "exact", more, 0),
        measured(lm, name, "mc", few, 20),
        measured(lm, name, "mc", few, 200),
        measured(lm, name, "mc", more, 50),
    ]


def fit(runs: Sequence[Run]) -> Any:
    """Constants, none negative, that make relative errors small."""
    features = np.array([run.features for run in runs])
    seconds = np.array([run.seconds for run in runs])
    found, _ = nnls(features / seconds[:, None], np.ones(len(runs)))
    return found


def errors(runs: Sequence[Run], constants: Any) -> Any:
    """Predicted over measured seconds, less one."""
    features = np.array([run.features for run in runs])
    return features @ constants / np.array([run.seconds for run in runs]) - 1


def show_errors(title: str, runs: Sequence[Run], constants: Any) -> None:
    found = errors(runs, constants)
    print(f"{title}: {len(runs)} runs, median |error| {np.median(np.abs(found)):.0%}, "
          f"worst {np.abs(found).max():.0%}")  # fmt: skip
    for run, error in zip(runs, found, strict=True):
        print(f"  {run.model:8} {run.estimator:5} samples {run.samples:5} contexts "
              f"{run.contexts:3}: {run.seconds:7.2f} s, predicted {error:+.0%}")  # fmt: skip


def trees(lm: HFModel, items: Sequence[Cloze]) -> list[Run]:
    """Tokens a context on a real model: of exact, of mc by samples, and by decoder."""
    measured(lm, "smollm2", "exact", items[:1], 0)
    whole, other = spread(items, 30), spread(items, 29)
    own = [measured(lm, "smollm2", "exact", part, 0) for part in (whole, other)]
    per = [_tree(run, lm, part) for run, part in zip(own, (whole, other), strict=True)]
    print(f"exact: {per[0]:.1f} tokens a context; others {per[1]:.1f} ({per[0] / per[1] - 1:+.0%})")
    few = spread(items, 5)
    sizes = {s: measured(lm, "smollm2", "mc", few, s) for s in (25, 100, 400, 50, 200, 1000)}
    logs = np.log([[s, _tree(sizes[s], lm, few)] for s in (25, 100, 400)])
    power, level = np.polyfit(logs[:, 0], logs[:, 1], 1)
    print(f"mc: {np.exp(level):.2f} * samples^{power:.3f} tokens a context")
    for s in (50, 200, 1000):
        found, predicted = _tree(sizes[s], lm, few), np.exp(level) * s**power
        print(f"  {s} samples: {found:.0f}, predicted {predicted / found - 1:+.0%}")
    for decoder in ("top_p=0.9", "temperature=0.5", "top_k=40"):
        run = measured(lm, "smollm2", "mc", few, 400, decoder)
        share = _tree(run, lm, few) / _tree(sizes[400], lm, few)
        print(f"  {decoder}: {share:.2f} of ancestral's tokens")
    return [*own, *sizes.values()]


def _tree(run: Run, lm: HFModel, items: Sequence[Cloze]) -> float:
    """Tokens a context beside those of the context itself."""
    return (run.tokens - sum(len(lm.encode(item.context)) for item in items)) / len(items)


def memory() -> None:
    """The peak of whole commands by weights, fitted to two sizes and checked on two others.

    A process counts its parent's peak as its own, so models are made in processes that are gone.
    """
    peaks: dict[str, tuple[float, float]] = {}
    for name in ("7M", "60M", "25M", "180M"):
        with tempfile.TemporaryDirectory() as folder:
            maker = get_context("spawn").Process(target=save_random, args=(name, folder))
            maker.start()
            maker.join()
            asked = ["--model", f"hf:{folder}", "--estimator", "mc", "--samples", "20"]
            peak = cost_of(["word", "--corpus", "simulated:contexts=4", *asked]).peak_mb
            weights = (Path(folder) / "model.safetensors").stat().st_size / 1e6
            peaks[name] = weights, peak * 2**20 / 1e6
    (x0, y0), (x1, y1) = peaks["7M"], peaks["60M"]
    factor = (y1 - y0) / (x1 - x0)
    base = y0 - factor * x0
    print(f"memory: {base:.0f} MB and {factor:.2f} times the weights")
    for name in ("25M", "180M"):
        weights, peak = peaks[name]
        print(f"  {name}: {peak:.0f} MB, predicted {(base + factor * weights) / peak - 1:+.0%}")


def save_random(name: str, folder: str) -> None:
    """A random model in a folder, with SmolLM2's tokenizer."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(smollm2_directory()))
    random_model(SHAPES[name], tokenizer).model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def store_costs() -> None:
    """Seconds and bytes a context of writing draws and of scoring them."""
    per: dict[int, tuple[float, float, float]] = {}
    for contexts in (300, 600, 1200):
        with tempfile.TemporaryDirectory() as folder:
            per[contexts] = _stored(contexts, Path(folder) / "run")
    for column, name in enumerate(("write", "score", "bytes")):
        low, middle, high = (per[n][column] for n in (300, 600, 1200))
        slope = (high - low) / 900
        error = (low + slope * 300) / middle - 1
        print(f"{name}: {slope:.3e} a context; at 600 predicted {error:+.0%}")


def _stored(contexts: int, run: Path) -> tuple[float, float, float]:
    from aleatoric.levels import base as levels
    from aleatoric.levels import word

    job = word.WordJob(f"simulated:contexts={contexts},people=40", ("toy",))
    with run_job(job, run) as store:
        start = time.process_time()
        levels.score(store, again=True)
        score = time.process_time() - start
        draws = [Draws(item.id, {f"w{i}": 9 for i in range(100)}) for _, item, _ in store.walk()]
    size = float(sum(own.stat().st_size for own in run.rglob("*") if own.is_file()))
    with Store.create(run.with_name("other"), {"level": "word"}) as other:
        _add(other, run)
        start = time.process_time()
        for one in draws:
            other.add_draws("m", [one])  # a transaction an item, as in a live run
        return time.process_time() - start, score, size


def _add(other: Store, run: Path) -> None:
    with Store.open(run) as store:
        other.add_items(item for _, item, _ in store.walk())
    other.add_system("m", {})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="Provo as gzipped JSON lines")
    parser.add_argument(
        "--only", choices=["time", "trees", "store", "memory"], help="one part alone"
    )
    options = parser.parse_args()
    if options.only in (None, "store"):
        store_costs()
    if options.only in (None, "memory"):
        memory()
    if options.only in ("store", "memory"):
        return
    items = read(options.corpus)
    smollm2 = load_smollm2("", LoadOptions())
    others = trees(smollm2, items) if options.only in (None, "trees") else []
    if options.only in (None, "time"):
        models: dict[str, Callable[[], HFModel]] = {"smollm2": lambda: smollm2}
        for name, shape in SHAPES.items():
            models[name] = lambda shape=shape: random_model(shape, smollm2.tokenizer)  # type: ignore[misc]
        runs = {name: runs_of(name, make(), items) for name, make in models.items()}
        constants = fit([run for name in FITTED for run in runs[name]])
        names = ("exact_token", "mc_token", "token_parameter")
        print(", ".join(f"{n} {v:.3e}" for n, v in zip(names, constants, strict=True)))
        show_errors("fitted", [run for name in FITTED for run in runs[name]], constants)
        show_errors("other sizes", [run for name in CHECKED for run in runs[name]], constants)
        if others:
            show_errors("other contexts and samples", others, constants)


if __name__ == "__main__":
    main()
