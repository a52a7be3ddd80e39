"""Exact and sampled distances of a real model differ only by the expected sampling noise."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from prompts import prompt

from aleatoric.models import gguf
from aleatoric.models.base import LoadOptions
from aleatoric.models.hf import load_smollm2
from aleatoric.nextword.answers import human_counts
from aleatoric.nextword.bounds import WordProbabilities
from aleatoric.nextword.exact import Question, Search, exact
from aleatoric.nextword.sampled import mc
from aleatoric.types import Categorical

pytestmark = pytest.mark.skipif(
    not gguf.smollm2_is_cached(), reason="SmolLM2 is not in the cache; run `aleatoric demo` once"
)
CONTEXTS, SAMPLES, TIMES = 120, 30, 300


def people_of(provo: Path) -> list[tuple[str, dict[str, float]]]:
    """The first contexts of Provo with human shares."""
    found = []
    with gzip.open(provo / "provo_cloze.jsonl.gz", "rt", encoding="utf-8") as file:
        for line, _ in zip(file, range(CONTEXTS), strict=False):
            row = json.loads(line)
            answers = [word for word, count in row["human"].items() for _ in range(count)]
            own = Categorical.from_counts(human_counts(answers))
            found.append((row["context"], dict(own.as_dict())))
    return found


def distance(people: dict[str, float], shares: dict[str, float]) -> float:
    return 1.0 - sum(min(p, shares.get(word, 0.0)) for word, p in people.items())


def sampled_distances(
    people: dict[str, float], found: WordProbabilities, rng: np.random.Generator
) -> np.ndarray:
    """Distances of samples drawn from the exact probabilities."""
    p = np.array([people[word] for word in found.words])
    q = np.append(found.value, max(0.0, 1.0 - sum(found.value)))
    counts = rng.multinomial(SAMPLES, q / q.sum(), size=TIMES)[:, :-1]
    overlap: np.ndarray = np.minimum(p, counts / SAMPLES).sum(1)
    return 1.0 - overlap


@pytest.mark.long
def test_sampled_distance_exceeds_exact_by_predicted_noise(provo):
    lm = load_smollm2("", LoadOptions(device="cpu"))
    people = people_of(provo)
    questions = [Question(c, tuple(own), tuple(own.values())) for c, own in people]
    found = exact(lm, questions, search=Search(tolerance=0.02))
    bounds = [one.tvd(own) for one, (_, own) in zip(found, people, strict=True)]
    prompts = [prompt(str(i), context) for i, (context, _) in enumerate(people)]
    draws = mc(lm, prompts, samples=SAMPLES)
    sampled = [
        distance(own, {w: n / sum(d.counts.values()) for w, n in d.counts.items()})
        for (_, own), d in zip(people, draws, strict=True)
    ]
    rng = np.random.default_rng(0)
    simulated = np.mean(
        [sampled_distances(own, one, rng) for (_, own), one in zip(people, found, strict=True)], 0
    )
    value = np.mean([b.value for b in bounds])
    noise, spread = simulated.mean() - value, simulated.std()
    slack = np.mean([b.high - b.low for b in bounds]) / 2  # what the exact values leave open
    print(
        f"\n{CONTEXTS} contexts: exact TVD {value:.4f}, with {SAMPLES} samples "
        f"{np.mean(sampled):.4f}: {np.mean(sampled) - value:+.4f}, predicted {noise:+.4f} "
        f"± {1.96 * spread:.4f} (exact values leave ± {slack:.4f} open)"
    )
    assert noise > 4 * spread
    assert abs(np.mean(sampled) - simulated.mean()) < 3 * spread + slack
