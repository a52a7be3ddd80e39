"""Agreement and speed of the two runtimes of a GGUF file, over the first contexts of Provo.

    python -m benchmarks.runtimes provo_cloze.jsonl.gz 30 smollm2 gguf:gemma-3-270m-q4_k_m.gguf

Word probabilities of people's answers and the TVD between model and people, per context.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

import aleatoric as al
from aleatoric.data.opening import open_corpus
from aleatoric.nextword.answers import human_counts
from aleatoric.nextword.bounds import WordProbabilities
from aleatoric.nextword.exact import Question, Search, exact
from aleatoric.nextword.vocabulary import vocabulary_of
from aleatoric.types import Categorical


def questions_of(corpus: str, count: int) -> list[Question]:
    """Return the first contexts of a corpus with people's words and their shares."""
    questions = []
    for item in islice(open_corpus(corpus).items, count):
        people = Categorical.from_counts(human_counts(item.responses))
        questions.append(Question(item.context, people.support, people.probs))
    return questions


def answers(spec: str, runtime: str, questions: Sequence[Question]) -> tuple[Any, float]:
    """Return word probabilities per question, and the seconds they took."""
    live = al.load(spec, runtime=runtime, device="cpu")
    vocabulary_of(live.lm.pieces)
    start = time.perf_counter()
    found = exact(live.lm, questions, search=Search(0.005))
    return found, time.perf_counter() - start


def tvds(found: Sequence[WordProbabilities], questions: Sequence[Question]) -> np.ndarray:
    """Return the distance between model and people per question."""
    people = [dict(zip(q.words, q.weights or (), strict=True)) for q in questions]
    pairs = zip(found, people, strict=True)
    ends = [words.tvd(human) for words, human in pairs]
    return np.array([(end.low + end.high) / 2 for end in ends])


def main() -> None:
    """Print the largest and mean differences, and the seconds, per model."""
    corpus, count, *specs = sys.argv[1:]
    questions = questions_of(corpus, int(count))
    for spec in specs:
        a, slow = answers(spec, "transformers", questions)
        b, quick = answers(spec, "llama.cpp", questions)
        words = np.concatenate([np.subtract(x.value, y.value) for x, y in zip(a, b, strict=True)])
        gaps = tvds(a, questions) - tvds(b, questions)
        for name, differences in (("word probability", words), ("TVD", gaps)):
            mean, most = np.abs(differences).mean(), np.abs(differences).max()
            print(f"{spec}: {name} differs by {mean:.4f} on average, by {most:.4f} at most")
        means = [tvds(found, questions).mean() for found in (a, b)]
        print(f"{spec}: mean TVD {means[0]:.4f} (transformers), {means[1]:.4f} (llama.cpp)")
        print(f"{spec}: {slow:.0f} s (transformers), {quick:.0f} s (llama.cpp)", flush=True)


if __name__ == "__main__":
    main()
