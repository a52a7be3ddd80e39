"""Compare the paper's sampling with `exact` and `mc`: one process, one model, the same contexts.

    python benchmarks/exact_vs_generate.py --corpus provo_cloze.jsonl.gz

The paper's procedure is `model.generate` with 1000 sequences of 5 new tokens and its own rule for
the first word. `exact` and `mc` process whole passages; their time is divided by the number of
contexts. With `--plain` they use plain forward passes, as for models without a tree pass. With
`--full`, `exact` scores every context of the corpus, and time and peak memory are printed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aleatoric.models.base import LoadOptions
from aleatoric.models.hf import HFModel, load_hf, load_smollm2
from aleatoric.nextword.bounds import WordProbabilities
from aleatoric.nextword.exact import Question, Search, exact
from aleatoric.nextword.rules import first_word_paper, normalise
from aleatoric.nextword.sampled import mc
from aleatoric.types import Item


@dataclass(frozen=True)
class Cloze:
    """One context of the corpus with people's shares."""

    id: str
    passage: int
    context: str
    human: dict[str, float]


def read(path: Path) -> list[Cloze]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [_cloze(json.loads(line)) for line in file]


def _cloze(row: dict[str, Any]) -> Cloze:
    counts: Counter[str] = Counter()
    for word, count in row["human"].items():
        counts[normalise(word)] += count
    human = {word: count / counts.total() for word, count in counts.items()}
    name = f"{row['passage']}:{row['position']}"
    return Cloze(name, row["passage"], row["context"], human)


def paper(lm: HFModel, item: Cloze, samples: int) -> Counter[str]:
    """The published procedure for one context."""
    import torch

    ids = torch.tensor([lm.encode(item.context)], device=lm.device)
    torch.manual_seed(0)
    out = lm.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=True,
        top_k=0,
        top_p=1.0,
        temperature=1.0,
        max_new_tokens=5,
        num_return_sequences=samples,
        pad_token_id=lm.tokenizer.eos_token_id,
    )
    texts = lm.tokenizer.batch_decode(out[:, ids.shape[1] :], skip_special_tokens=True)
    words = (first_word_paper(text) for text in texts)
    return Counter(normalise(word) for word in words if word)


@dataclass(frozen=True)
class Cost:
    """Wall-clock and processor seconds of one context."""

    wall: float
    cpu: float


def timed(work: Callable[[], Any], count: int, sync: Callable[[], None]) -> tuple[Cost, Any]:
    """The cost of `work` a context, for `count` contexts."""
    sync()
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    sync()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Cost(wall / count, cpu / count), result


def questions(items: Sequence[Cloze]) -> list[Question]:
    return [Question(i.context, tuple(i.human), tuple(i.human.values())) for i in items]


def mean_tvd(items: Sequence[Cloze], found: Sequence[WordProbabilities]) -> str:
    bounds = [f.tvd(i.human) for i, f in zip(items, found, strict=True)]
    low, value, high = (
        sum(getattr(b, name) for b in bounds) / len(bounds) for name in ("low", "value", "high")
    )
    return f"mean TVD {value:.4f} in [{low:.4f}, {high:.4f}]"


def compare(lm: HFModel, items: Sequence[Cloze], options: argparse.Namespace) -> None:
    sync = _synchroniser(lm)
    exact(lm, questions(items[:2]))  # make the tables, warm the kernels
    search = Search(tolerance=options.tolerance)
    costs: dict[str, Cost] = {}
    costs["exact"], found = timed(
        lambda: exact(lm, questions(items), search=search), len(items), sync
    )
    nodes = sum(f.nodes for f in found) / len(found)
    print(f"{len(items)} contexts, {nodes:.1f} nodes each for exact, {mean_tvd(items, found)}")
    few = spread(items, options.mc)
    prompts = [Item(item.id, "", item.context, ()) for item in few]
    costs["mc"], _ = timed(lambda: mc(lm, prompts, samples=options.samples), len(few), sync)
    fewer = spread(items, options.generate)
    costs["paper"], _ = timed(
        lambda: [paper(lm, item, options.samples) for item in fewer], len(fewer), sync
    )
    for name, cost in costs.items():
        ratios = costs["paper"].wall / cost.wall, costs["paper"].cpu / cost.cpu
        print(
            f"{name:6} {cost.wall:9.4f} s a context ({ratios[0]:6.0f} x), "
            f"{cost.cpu:9.4f} CPU s ({ratios[1]:6.0f} x)"
        )


def spread(items: Sequence[Cloze], count: int) -> Sequence[Cloze]:
    """`count` items, evenly spread; all for 0."""
    return items[len(items) // (2 * count) :: len(items) // count][:count] if count else items


def full(lm: HFModel, items: Sequence[Cloze], options: argparse.Namespace) -> None:
    sync = _synchroniser(lm)
    search = Search(tolerance=options.tolerance)
    cost, found = timed(lambda: exact(lm, questions(items), search=search), 1, sync)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    nodes = sum(f.nodes for f in found)
    print(f"exact: {len(items)} contexts, {nodes} nodes, peak {peak:.2f} GB")
    print(f"{cost.wall:.1f} s, {cost.cpu:.1f} CPU s, {mean_tvd(items, found)}")


def _synchroniser(lm: HFModel) -> Callable[[], None]:
    import torch

    return torch.cuda.synchronize if str(lm.device).startswith("cuda") else lambda: None


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path, required=True, help="Provo as gzipped JSON lines")
    parser.add_argument("--model", default="smollm2", help="smollm2, or a directory or hub name")
    parser.add_argument("--device", default=None)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--passage", type=int, default=1, help="the passage to compare on")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--generate", type=int, default=1, help="contexts given to generate()")
    parser.add_argument("--mc", type=int, default=0, help="contexts given to mc; 0 for all")
    parser.add_argument("--tolerance", type=float, default=0.02)
    parser.add_argument("--plain", action="store_true", help="without tree passes")
    parser.add_argument("--full", action="store_true", help="exact on the whole corpus only")
    options = parser.parse_args(arguments)
    where = {"device": options.device, "dtype": options.dtype}
    load, name = (load_smollm2, "") if options.model == "smollm2" else (load_hf, options.model)
    lm = load(name, LoadOptions(**where))
    lm = replace(lm, window=0) if options.plain else lm
    items = read(options.corpus)
    if options.full:
        full(lm, items, options)
    else:
        compare(lm, [item for item in items if item.passage == options.passage], options)


if __name__ == "__main__":
    main()
