# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
"""Log-probabilities of sampled texts, against enumeration and against one step at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from enumerable_lm import EnumerableLM
from forced_lms import tiny
from writers import ToyNetwork, ask, items, written

from aleatoric.models.decoding import Decoder, TextDecoder
from aleatoric.models.generate_hf import text_model
from aleatoric.models.sampling import Batching, Ids, log_probs
from aleatoric.studies.text_entropy import entropy_of


class ForcedToy(ToyNetwork):
    """The enumerable toy, teacher-forced."""

    def forced(self, pairs: Sequence[tuple[Ids, Ids]]) -> list[torch.Tensor]:
        return [
            torch.cat([self.alone(prompt, target[:i]) for i in range(len(target))])
            for prompt, target in pairs
        ]


TOY = EnumerableLM((b"a", b"b", b" "), depth=4, seed=3, sharpness=1.0)


def outcomes(toy: EnumerableLM, path: Ids, room: int, decoder: Decoder) -> Iterator[float]:
    """Probabilities of all texts after a path, of at most `room` tokens."""
    logits = torch.as_tensor(toy.next_log_probs(path))
    for token, p in enumerate(decoder.probs(logits).tolist()):
        if p > 0 and (token == len(toy.tokens) or room == 1):
            yield p
        elif p > 0:
            yield from (p * rest for rest in outcomes(toy, (*path, token), room - 1, decoder))


@pytest.mark.parametrize("decoder", ["ancestral", "temperature=0.7"])
@pytest.mark.parametrize("room", [2, 9])
def test_mean_of_log_probabilities_estimates_exact_entropy(decoder: str, room: int) -> None:
    how, samples, prompt = Decoder.parse(decoder), 4000, (0,)
    p = np.array([*outcomes(TOY, prompt, room, how)])
    exact = float(-(p * np.log(p)).sum())
    network = ForcedToy(TOY)
    drawn = written(network, [prompt], samples, room, decoder).values()
    texts = [(w.ids, not w.is_cut) for w in drawn]
    found = entropy_of(log_probs(network, prompt, texts, how))
    assert p.sum() == pytest.approx(1)
    assert found.error is not None
    assert abs(found.value - exact) < 3.5 * found.error
    # The standard error is that of surprisals, whose variance can be enumerated too.
    variance = float((p * np.log(p) ** 2).sum()) - exact**2
    assert found.error == pytest.approx(math.sqrt(variance / samples), rel=0.1)


def naive(made: Any, prompt: Ids, ids: Ids, is_ended: bool, decoder: Decoder) -> float:
    """One step at a time, each row by itself."""
    total, ends = 0.0, list(made.network.ends)
    for i, token in enumerate((*ids, *([None] if is_ended else []))):
        logits = made.network.alone(prompt, ids[:i])[0].double()
        p = decoder.probs(logits)
        total += math.log(float(p[ends].sum() if token is None else p[token]))
    return total


@pytest.mark.parametrize("kind", ["gpt2", "t5", "bart"])
@pytest.mark.parametrize("decoder", ["ancestral", "temperature=0.5"])
def test_texts_of_a_model_have_their_log_probabilities(kind: str, decoder: str) -> None:
    model, tokenizer = tiny(kind)
    asked = ask(decoder=decoder, samples=6, max_new_tokens=6, logprobs=True)
    inputs = items("A dog runs.", "Bread is made of flour", "The old man")
    made = text_model(model, tokenizer, label=kind)
    found = {texts.item_id: texts for texts in made.write(inputs, asked)}
    how, n_cut = TextDecoder.parse(decoder), 0
    for item in inputs:
        prompt = made._prompt(item, asked, how)
        sampled = sampled_tokens(made, prompt, asked, how)
        wanted = [naive(made, prompt.ids, w.ids, not w.is_cut, how.tokens) for w in sampled]
        assert found[item.id].logprobs == pytest.approx(wanted, abs=1e-3)
        assert found[item.id].n_cut == sum(w.is_cut for w in sampled)
        n_cut += found[item.id].n_cut
    assert n_cut == made.tally.cut


def sampled_tokens(made: Any, prompt: Any, asked: Any, how: TextDecoder) -> list[Any]:
    from aleatoric.models.sampling import TextSampler, collected, packs_of, write_all

    packs = packs_of([prompt], asked.samples, 100)
    found = write_all(TextSampler(made.network, how.tokens, asked.stop), packs)
    return dict(collected(found, asked.samples))[prompt.item_id]


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_log_probabilities_do_not_depend_on_the_batch(kind: str) -> None:
    inputs = items("A dog runs.", "Bread is made of flour", "The old man", "When", "Ein Hund")
    asked = ask(samples=5, max_new_tokens=6, logprobs=True)
    found = []
    for rows, some in ((1, inputs), (3, inputs), (64, inputs[::-1])):
        made = text_model(*tiny(kind), label=kind, batching=Batching(rows))
        found.append({texts.item_id: texts for texts in made.write(some, asked)})
    assert found[0] == found[1] == found[2]


def test_text_ended_by_a_stop_string_has_no_end_of_its_own() -> None:
    made = text_model(*tiny("gpt2"), label="gpt2")
    inputs = items("A dog runs.")
    asked = ask(samples=30, max_new_tokens=8, stop=("e",), logprobs=True)
    how = TextDecoder.parse("ancestral")
    prompt = made._prompt(inputs[0], asked, how)
    (found,) = made.write(inputs, asked)
    sampled = sampled_tokens(made, prompt, asked, how)
    stopped = ["e" in made.network.decode(w.ids) for w in sampled]
    wanted = [
        naive(made, prompt.ids, w.ids, not (w.is_cut or is_stopped), how.tokens)
        for w, is_stopped in zip(sampled, stopped, strict=True)
    ]
    assert any(stopped)
    assert found.logprobs == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize("decoder", ["top_p=0.9", "top_k=5", "greedy", "mbr=3", "beam=3"])
def test_decoders_that_exclude_tokens_or_choose_texts_give_none(decoder: str) -> None:
    made = text_model(*tiny("gpt2"), label="gpt2")
    asked = ask(decoder=decoder, samples=2, max_new_tokens=3, logprobs=True)
    (found,) = made.write(items("A dog"), asked)
    assert found.texts
    assert found.logprobs == ()


def test_texts_do_not_change_with_log_probabilities() -> None:
    made = text_model(*tiny("gpt2"), label="gpt2")
    plain, more = (
        next(iter(made.write(items("A dog"), ask(samples=5, logprobs=on)))) for on in (False, True)
    )
    assert plain.texts == more.texts
    assert (plain.logprobs, len(more.logprobs)) == ((), 5)
