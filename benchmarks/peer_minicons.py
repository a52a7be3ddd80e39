"""Word probabilities with minicons for `benchmarks.peers`, run in its own environment.

    python -m benchmarks.peer_minicons REQUEST ANSWER

The words of a context are one batch. Probabilities are computed twice: with the default settings
(the probability that the text continues with these letters), and with the correction for the end of
the word.
"""

from __future__ import annotations

import math
from typing import Any

from benchmarks.exchange import Clock, Request, reply, request_given


def main() -> None:
    request = request_given()
    scorer = load(request)
    answers = []
    for name, corrected in (("minicons", False), ("minicons, bow_correction", True)):
        score(scorer, request.contexts[0], request.words[0], corrected=corrected)
        clock = Clock()
        results = [
            score(scorer, context, words, corrected=corrected)
            for context, words in zip(request.contexts, request.words, strict=True)
        ]
        answers.append(clock.answer(name, results))
    reply(answers)


def load(request: Request) -> Any:
    import torch
    from minicons.scorer import IncrementalLMScorer

    torch.set_num_threads(request.threads)
    return IncrementalLMScorer(request.model, "cpu", dtype=torch.float32)


def score(scorer: Any, context: str, words: list[str], *, corrected: bool) -> dict[str, float]:
    found = scorer.conditional_score(
        [context] * len(words),
        words,
        reduction=lambda scores: scores.sum().item(),
        bow_correction=corrected,
    )
    return {word: math.exp(value) for word, value in zip(words, found, strict=True)}


if __name__ == "__main__":
    main()
