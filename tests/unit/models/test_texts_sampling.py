# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
"""The sampling loop: unbiased, no library defaults, independent of batching."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from marks import sampled

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from enumerable_lm import EnumerableLM
from forced_lms import tiny
from transformers import GenerationConfig, LogitsProcessorList
from transformers.generation.logits_process import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)
from writers import ToyNetwork, alike, ask, first_tokens, fits, items, written

from aleatoric.calibration.statistics import Scheme
from aleatoric.errors import ModelError, UsageError
from aleatoric.models import sampling
from aleatoric.models.decoding import Decoder, TextDecoder
from aleatoric.models.generate_hf import text_model
from aleatoric.models.openai_spec import parse_decoder
from aleatoric.models.sampling import (
    Batching,
    TextPrompt,
    TextSampler,
    key_of,
    packs_of,
    write_all,
)

KINDS = ["gpt2", "t5", "marian", "bart"]
DECODERS = {
    "ancestral": [],
    "temperature=0.5": [TemperatureLogitsWarper(0.5)],
    "top_k=30": [TopKLogitsWarper(30)],
    "top_p=0.85": [TopPLogitsWarper(0.85)],
    "typical=0.2": [TypicalLogitsWarper(0.2)],
    "typical=0.95": [TypicalLogitsWarper(0.95)],
    "min_p=0.05": [MinPLogitsWarper(0.05)],
    "epsilon=0.01": [EpsilonLogitsWarper(0.01)],
    "eta=0.01": [EtaLogitsWarper(0.01)],
    "temperature=0.7,top_k=20,top_p=0.9": [
        TemperatureLogitsWarper(0.7), TopKLogitsWarper(20), TopPLogitsWarper(0.9)
    ],
}  # fmt: skip
INPUTS = ("The ferry left", "Bread", "A dog runs. Ein", "When the lights went", "x", "and time")


def network(kind: str, dtype: Any = torch.float64) -> Any:
    model, words = tiny(kind)
    return text_model(model.to(dtype), words, label=kind).network


def encoded(net: Any, *texts: str) -> list[tuple[int, ...]]:
    return [net.encode((text,), ask()) for text in texts]


def generated(net: Any, prompt: tuple[int, ...], samples: int, room: int) -> Counter:
    """Samples of transformers' `generate` with all truncation disabled."""
    torch.manual_seed(1)
    plain = {"do_sample": True, "top_k": 0, "top_p": 1.0, "temperature": 1.0, "num_beams": 1}
    ids = torch.tensor([prompt])
    out = net.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=room, eos_token_id=list(net.ends),
        num_return_sequences=samples, pad_token_id=net.tokenizer.pad_token_id, **plain,
    )  # fmt: skip
    rows = out[:, len(prompt) :].tolist()
    ends = set(net.ends)
    lengths = [next((i for i, t in enumerate(row) if t in ends), len(row)) for row in rows]
    return Counter(tuple(row[:n]) for row, n in zip(rows, lengths, strict=True))


def test_toy_texts_have_expected_frequencies() -> None:
    toy = EnumerableLM((b" a", b"b", b"."), depth=3, seed=1, sharpness=1.0)
    found = written(ToyNetwork(toy), [(0,)], 20000, 9)
    texts = Counter(b"".join(toy.tokens[i] for i in sample.ids) for sample in found.values())
    probabilities: dict[bytes, float] = Counter()
    for text, p in toy.texts((0,)):
        probabilities[text] += p
    assert fits(texts, probabilities)


def test_matches_generate_without_default_settings() -> None:
    net = network("gpt2", torch.float32)
    (prompt,) = encoded(net, "The ferry")
    ours = Counter(sample.ids for sample in written(net, [prompt], 6000, 3).values())
    theirs = generated(net, prompt, 6000, 3)
    for size in (1, 2, 3):
        cut = [Counter(), Counter()]
        for counts, of in zip(cut, (ours, theirs), strict=True):
            for ids, number in of.items():
                counts[ids[:size]] += number
        assert alike(*cut)


@pytest.mark.parametrize("kind", ["t5", "marian"])
def test_encoder_decoder_matches_generate_except_padding(kind: str) -> None:
    net = network(kind, torch.float32)
    (prompt,) = encoded(net, "The ferry")
    ours = Counter(sample.ids for sample in written(net, [prompt], 5000, 2).values())
    torch.manual_seed(1)
    out = net.model.generate(
        torch.tensor([prompt]), do_sample=True, top_k=0, top_p=1.0, temperature=1.0, num_beams=1,
        max_new_tokens=2, num_return_sequences=5000, bad_words_ids=[[1]], forced_eos_token_id=None,
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
    )  # fmt: skip
    theirs = Counter(tuple(t for t in row[1:] if t not in (1, *net.ends)) for row in out.tolist())
    assert all(1 not in ids for ids in ours)
    for size in (1, 2):
        cut = [Counter(), Counter()]
        for counts, of in zip(cut, (ours, theirs), strict=True):
            for ids, number in of.items():
                counts[ids[:size]] += number
        assert alike(*cut)


@pytest.mark.parametrize("kind", KINDS)
def test_generation_config_is_ignored(kind: str) -> None:
    model, words = tiny(kind)
    model.generation_config = GenerationConfig(
        do_sample=False, top_k=1, num_beams=4, repetition_penalty=5.0, forced_bos_token_id=7,
        eos_token_id=2, no_repeat_ngram_size=1, decoder_start_token_id=5, max_new_tokens=1,
    )  # fmt: skip
    writer = text_model(model, words, label=kind)
    (prompt,) = encoded(writer.network, "The ferry")
    assert fits(first_tokens(writer.network, prompt, 8000), expected(writer.network, prompt))
    (note,) = writer.notes()
    assert all(part in note for part in ("top_k=1", "num_beams=4", "repetition_penalty=5.0"))


def expected(net: Any, prompt: tuple[int, ...], processors: Any = ()) -> dict[int, float]:
    """First-token probabilities by transformers' logits processors; all ends are -1."""
    logits = net.alone(prompt, ())
    probs = LogitsProcessorList(processors)(torch.tensor([prompt]), logits).softmax(-1)[0]
    found: dict[int, float] = Counter()
    for token, p in enumerate(probs.tolist()):
        found[-1 if token in net.ends else token] += p
    return found


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_match_transformers_logits_processors(name: str) -> None:
    net = network("gpt2", torch.float32)
    (prompt,) = encoded(net, "The ferry")
    probabilities = expected(net, prompt, DECODERS[name])
    assert fits(first_tokens(net, prompt, 5000, name), probabilities)
    logits = net.alone(prompt, ())
    low, high = Decoder.parse(name).weights_between(logits, 1e-9)
    theirs = LogitsProcessorList(DECODERS[name])(torch.tensor([prompt]), logits).softmax(-1)
    for weights in (low, high):
        torch.testing.assert_close(weights / weights.sum(), theirs, atol=1e-6, rtol=0)


def test_greedy_matches_generate_and_uses_one_row() -> None:
    net = network("gpt2")
    prompts = encoded(net, "The ferry", "Bread")
    widths = []
    forward = net.forward
    object.__setattr__(net, "forward", lambda *a: widths.append(len(a[0])) or forward(*a))
    found = written(net, prompts, 50, 6, "greedy")
    assert max(widths) == 2
    for i, prompt in enumerate(prompts):
        ids = torch.tensor([prompt])
        wanted = net.model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=6,
            eos_token_id=list(net.ends), pad_token_id=1,
        )  # fmt: skip
        texts = {found[str(i), number].ids for number in range(50)}
        assert texts == {tuple(t for t in wanted[0, len(prompt) :].tolist() if t not in net.ends)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 2e-5), (torch.float64, 1e-12)])
def test_shared_prefix_rows_match_separate_rows(kind: str, dtype: Any, close: float) -> None:
    net = network(kind, dtype)
    prompts = encoded(net, *INPUTS)
    batch, logits = net.begin(prompts)
    paths = [((), i) for i in range(len(prompts))]
    for parents in ([0, 1, 1, 2, 3, 4, 5, 5], [7, 2, 2, 0], [0, 1, 2, 3], [3]):
        alone = torch.cat([net.alone(prompts[i], path) for path, i in paths])
        torch.testing.assert_close(logits, alone, atol=close, rtol=0)
        tokens = [10 + 3 * n for n in range(len(parents))]
        joined = zip(parents, tokens, strict=True)
        paths = [((*paths[p][0], token), paths[p][1]) for p, token in joined]
        logits = batch.advance(torch.tensor(parents), torch.tensor(tokens))


@pytest.mark.parametrize("kind", sampled(KINDS, ["gpt2", "t5"]))
@pytest.mark.parametrize("dtype", sampled([torch.float32, torch.float64], [torch.float32]))
@pytest.mark.parametrize(
    "decoder", sampled(["ancestral", "top_p=0.9", "typical=0.2", "top_k=30"], ["top_p=0.9"])
)
def test_texts_do_not_depend_on_batch_size(kind: str, dtype: Any, decoder: str) -> None:
    model, words = tiny(kind)
    asked = ask(samples=5, max_new_tokens=12, decoder=decoder, seed=3)
    found = []
    for at_once in (1, 3, 8, 0.4):  # inputs at once; below one, an input's samples are parted
        batching = Batching(rows=int(5 * at_once))
        writer = text_model(model.to(dtype), words, label=kind, batching=batching)
        order = items(*INPUTS)[:: -1 if at_once == 3 else 1]
        found.append({texts.item_id: texts.texts for texts in writer.write(order, asked)})
    assert all(other == found[0] for other in found)
    assert len({text for texts in found[0].values() for text in texts}) > 20


def test_texts_do_not_depend_on_other_inputs_or_sample_count() -> None:
    model, words = tiny("gpt2")
    writer = text_model(model, words, label="x")
    every = {texts.item_id: texts.texts for texts in writer.write(items(*INPUTS), ask(samples=6))}
    (one,) = writer.write(items(*INPUTS)[2:3], ask(samples=3))
    assert one.texts == every["2"][:3]
    (other,) = writer.write(items(*INPUTS)[2:3], ask(samples=3, seed=1))
    assert other.texts != one.texts


def test_uncertain_draws_are_recomputed_without_batching(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network("gpt2")
    prompts = encoded(net, *INPUTS[:2])
    wanted = written(net, prompts, 20, 6)
    calls = []
    alone = net.alone
    object.__setattr__(net, "alone", lambda *a: calls.append(a) or alone(*a))
    assert written(net, prompts, 20, 6) == wanted
    assert not calls
    monkeypatch.setattr(sampling, "slack_of", lambda logits: 0.05)
    assert written(net, prompts, 20, 6) == wanted
    assert len(calls) > 10


def test_out_of_memory_halves_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network("gpt2")
    prompts = encoded(net, *INPUTS)
    wanted = written(net, prompts, 7, 6)
    forward = net.forward

    def small(ids: Any, *rest: Any) -> Any:
        if len(ids) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(ids, *rest)

    object.__setattr__(net, "forward", small)
    assert written(net, prompts, 7, 6) == wanted

    def none(*_: Any) -> Any:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    object.__setattr__(net, "forward", none)
    with pytest.raises(ModelError, match="one text at a time"):
        written(net, prompts, 7, 6)


def test_other_errors_are_not_hidden() -> None:
    net = network("gpt2")
    object.__setattr__(net, "forward", lambda *_: (_ for _ in ()).throw(RuntimeError("broken")))
    with pytest.raises(RuntimeError, match="broken"):
        written(net, [(1, 2)], 2, 2)


def test_nan_logits_name_the_input() -> None:
    net = network("gpt2")
    forward = net.forward
    object.__setattr__(net, "forward", lambda *a: forward(*a) * float("nan"))
    with pytest.raises(ModelError, match=r"input '0'.*--dtype"):
        written(net, [(1, 2)], 2, 2)


def test_generation_in_half_precision() -> None:
    net = network("gpt2", torch.bfloat16)
    found = written(net, encoded(net, *INPUTS), 3, 5, "top_p=0.9")
    assert len(found) == 3 * len(INPUTS)


def searched(net: Any, prompt: tuple[int, ...], width: int, room: int) -> list[tuple[int, ...]]:
    """The best texts of transformers' beam search."""
    ids = torch.tensor([prompt])
    start = 1 if net.model.config.is_encoder_decoder else len(prompt)
    banned = {"bad_words_ids": [[1]]} if net.model.config.is_encoder_decoder else {}
    out = net.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=room, eos_token_id=list(net.ends),
        num_beams=width, num_return_sequences=width, do_sample=False, length_penalty=1.0,
        early_stopping=False, pad_token_id=1, forced_eos_token_id=None, **banned,
    )  # fmt: skip
    rows = [row[start:] for row in out.tolist()]
    lengths = [next((i for i, t in enumerate(row) if t in net.ends), len(row)) for row in rows]
    return [tuple(row[:n]) for row, n in zip(rows, lengths, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [2, 5])
def test_beam_search_matches_generate(kind: str, width: int) -> None:
    net = network(kind)
    # One end, since transformers counts several ends of one text as several texts; a likely one.
    prompts, n_ended = encoded(net, *INPUTS), 0
    (text, *_) = TextSampler(net, Decoder()).best(TextPrompt("0", prompts[0], 0, 6), 5)
    vars(net)["ends"] = (text.ids[2],)
    for prompt in prompts:
        asked = TextPrompt("0", prompt, 0, 6)
        found = TextSampler(net, Decoder()).best(asked, width)
        assert [text.ids for text in found] == searched(net, prompt, width, 6)
        n_ended += sum(not text.is_cut for text in found)
    assert n_ended


def test_beam_search_finds_the_most_likely_toy_texts() -> None:
    """With as many beams as texts, the search is exhaustive."""
    toy = EnumerableLM((b" a", b"b", b"."), depth=2, seed=1, sharpness=1.0)
    scored = []
    stack: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    while stack:
        ids, logp = stack.pop()
        for token, more in enumerate(toy.next_log_probs((0, *ids))):
            if more == -np.inf:
                continue
            if token == len(toy.tokens) or len(ids) == 2:
                whole = ids if token == len(toy.tokens) else (*ids, token)
                scored.append(((logp + more) / (len(ids) + 1), whole))
            else:
                stack.append(((*ids, token), logp + more))
    found = TextSampler(ToyNetwork(toy), Decoder()).best(TextPrompt("0", (0,), 0, 3), 100)
    wanted = [ids for _, ids in sorted(scored, key=lambda pair: -pair[0])]
    assert [text.ids for text in found] == wanted


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_beam_gives_a_set_of_texts_whatever_the_batch(kind: str) -> None:
    model, words = tiny(kind)
    found = []
    for rows in (1, 50):
        writer = text_model(model, words, label=kind, batching=Batching(rows=rows))
        asked = ask(samples=3, decoder="beam=4", max_new_tokens=6, seed=rows)
        found.append({texts.item_id: texts.texts for texts in writer.write(items(*INPUTS), asked)})
    assert found[0] == found[1]
    assert all(len(texts) == 4 for texts in found[0].values())
    assert writer.tally.texts == 4 * len(INPUTS)


def similarity(one: str, other: str) -> float:
    """The share of words that the other text has too; 1 for two texts without words."""
    a, b = one.lower().split(), other.lower().split()
    if not a and not b:
        return 1.0
    return (sum(word in b for word in a) + sum(word in a for word in b)) / (len(a) + len(b))


def test_minimum_bayes_risk_matches_a_loop_over_pools() -> None:
    model, words = tiny("gpt2")
    writer = text_model(model, words, label="x")
    size, number = 8, 5
    asked = ask(decoder=f"mbr={size}", samples=number, max_new_tokens=12, seed=3)
    found = {texts.item_id: texts.texts for texts in writer.write(items(*INPUTS), asked)}
    how = TextDecoder.parse(f"mbr={size}")
    for item in items(*INPUTS):
        ids = writer.network.encode(item.input, asked)
        prompt = TextPrompt(
            item.id, ids, key_of(3, item.id, how), min(12, writer.network.room(ids))
        )
        drawn = write_all(TextSampler(writer.network, Decoder()), packs_of([prompt], 40, 7))
        by_number = {sample.number: sample.ids for sample in drawn}
        texts = [writer.network.decode(by_number[i]).strip() for i in range(size * number)]
        wanted = []
        for first in range(0, size * number, size):
            pool = texts[first : first + size]
            gains = [round(sum(similarity(a, b) for b in pool) / size, 9) for a in pool]
            wanted.append(pool[gains.index(max(gains))])
        assert found[item.id] == tuple(wanted)


def test_minimum_bayes_risk_does_not_depend_on_batches() -> None:
    model, words = tiny("t5")
    found = []
    for rows in (3, 200):
        writer = text_model(model, words, label="x", batching=Batching(rows=rows))
        asked = ask(decoder="mbr=5", samples=3, max_new_tokens=6)
        found.append({texts.item_id: texts.texts for texts in writer.write(items(*INPUTS), asked)})
    assert found[0] == found[1]
    assert all(len(texts) == 3 for texts in found[0].values())
    assert writer.tally.texts == 3 * len(INPUTS)


@pytest.mark.parametrize("name", ["beam=1", "beam=x", "mbr", "mbr=1001", "beam=4,top_p=0.9"])
def test_invalid_decoders_of_whole_texts_are_rejected(name: str) -> None:
    with pytest.raises(UsageError, match="stands alone, with a whole number from 2 to 1000"):
        TextDecoder.parse(name)


@pytest.mark.parametrize("name", ["beam=4", "mbr=50", "top_p=0.9,beam=4"])
def test_decoders_of_whole_texts_are_refused_at_other_levels_and_by_servers(name: str) -> None:
    for parse in (Decoder.parse, Scheme.parse, parse_decoder):
        with pytest.raises(
            UsageError, match="chooses among whole texts; use it alone, at the text"
        ):
            parse(name)
