# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
"""Text generation models: prompts, stop conditions, context window, loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from forced_lms import WINDOW, saved, tiny
from writers import ask, items

from aleatoric.errors import AleatoricError, UsageError
from aleatoric.models.base import Forcing, LoadOptions, Writing, chat_text, check_writing
from aleatoric.models.generate_hf import text_model
from aleatoric.models.gguf import model_sha256
from aleatoric.models.sampling import Batching, LiveWriter
from aleatoric.runs.engine import open_text_model
from aleatoric.runs.job import Loading
from aleatoric.types import TextItem

CHAT = (
    "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant:{% endif %}"
)


def writer(kind: str = "gpt2", bos: str = "auto", **options: Any) -> LiveWriter:
    model, words = tiny(kind)
    return text_model(model, words, label=kind, options=LoadOptions(bos=bos), **options)


def decoded(made: LiveWriter, turns: tuple[str, ...], asked: Writing) -> str:
    """The prompt of the model, with special tokens."""
    tokens = made.network.tokenizer.convert_ids_to_tokens(made.network.encode(turns, asked))
    return "".join(tokens).replace("Ġ", " ").replace("Ċ", "\n")


DIALOGUE = ("A dog runs.", "Bread is made.", "The ferry left.")


@pytest.mark.parametrize(
    ("kind", "options", "wanted"),
    [
        ("gpt2", {}, "A dog runs.</s>Bread is made.</s>The ferry left.</s>"),
        ("gpt2", {"turns": "newline"}, "A dog runs.\nBread is made.\nThe ferry left.\n"),
        ("gpt2", {"turns": " | "}, "A dog runs. | Bread is made. | The ferry left. | "),
        (
            "gpt2",
            {"template": "Say: {input}\nB:", "turns": "newline"},
            "Say: A dog runs.\nBread is made.\nThe ferry left.\nB:",
        ),
        ("t5", {"turns": "newline"}, "A dog runs.\nBread is made.\nThe ferry left.</s>"),
    ],
)
def test_dialogue_turns_are_joined(kind: str, options: dict[str, Any], wanted: str) -> None:
    assert decoded(writer(kind), DIALOGUE, Writing(**options)) == wanted


def test_prompt_template_and_bos() -> None:
    simplify = Writing(template="Simplify: {input} {0} {x}")
    assert decoded(writer(), ("A {input} dog",), simplify) == "Simplify: A {input} dog {0} {x}"
    assert decoded(writer(bos="add"), ("A dog",), Writing()) == "<s>A dog"
    assert decoded(writer("bart"), ("A dog",), Writing()) == "<s>A dog</s>"
    with pytest.raises(UsageError, match="leave --bos out"):
        writer("t5", bos="add")
    with pytest.raises(UsageError, match="none or add"):
        writer(bos="maybe")


def test_chat_template_is_applied() -> None:
    made = writer(bos="add")
    with pytest.raises(UsageError, match="no chat template"):
        decoded(made, ("A dog",), Writing(chat=True))
    made.network.tokenizer.chat_template = CHAT
    assert decoded(made, ("A dog",), Writing(chat=True, template="Say {input}")) == (
        "<s>user: Say A dog</s><s>assistant:"
    )
    found = chat_text(made.network.tokenizer, DIALOGUE, Writing(chat=True), "x")
    assert found.startswith("<s>user: A dog runs.</s><s>assistant: Bread")
    assert "".join(t for t in next(iter(made.write(items("A dog"), ask(chat=True)))).texts)


@pytest.mark.parametrize("bad", [{"template": "x"}, {"samples": 0}, {"stop": ("",)}])
def test_invalid_generation_options_are_rejected(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        check_writing(Writing(**bad))
    with pytest.raises(AleatoricError):
        list(writer().write(items("A dog"), ask(**bad)))


def test_unknown_decoder_is_rejected() -> None:
    with pytest.raises(UsageError, match=r"unknown decoder .* beam=4 or mbr=20"):
        list(writer().write(items("A dog"), ask(decoder="beams=4")))


def test_inputs_that_fill_the_window_are_named() -> None:
    made = writer()
    long = TextItem("q-7", "1", ("A dog runs " * 20,), ())
    with pytest.raises(UsageError, match=r"input 'q-7' has \d+ tokens"):
        list(made.write([long], ask()))
    with pytest.raises(UsageError, match="input 'q-7'"):
        list(writer("marian").write([long], ask()))


def test_window_limit_is_noted() -> None:
    made, text, drawn = writer(), "A dog runs. A dog", []
    decode = made.network.decode
    object.__setattr__(made.network, "decode", lambda ids: drawn.append(len(ids)) or decode(ids))
    list(made.write(items(text), ask(samples=30, max_new_tokens=100)))
    assert max(drawn) == WINDOW - len(made.network.encode((text,), ask()))
    assert any("1 input leaves less room" in note for note in made.notes())
    assert any("cut at the longest" in note for note in made.notes())


def test_only_yielded_texts_are_counted() -> None:
    made = writer()
    walk = made.write(items(*["A dog runs. A dog"] * 3), ask(samples=2, max_new_tokens=100))
    next(walk)
    assert (made.tally.texts, made.tally.short_of_room) == (2, 1)
    list(walk)
    assert (made.tally.texts, made.tally.short_of_room) == (6, 3)


def test_empty_input_requires_bos_token() -> None:
    with pytest.raises(UsageError, match=r"input '0' is empty.*--bos add"):
        list(writer().write(items(""), ask()))
    (texts,) = writer(bos="add").write(items(""), ask())
    assert len(texts.texts) == 4
    (texts,) = writer("t5").write(items(""), ask())
    assert len(texts.texts) == 4


def test_texts_are_truncated_before_stop_strings() -> None:
    made, asked = writer(), ask(samples=40, max_new_tokens=12)
    whole = next(iter(made.write(items("A dog"), asked))).texts
    letter = next(c for text in whole for c in text[3:] if c.isalpha())
    cut = next(iter(made.write(items("A dog"), ask(samples=40, max_new_tokens=12, stop=(letter,)))))
    assert all(letter not in text for text in cut.texts)
    # What stands before the stop string is what would have stood there without it.
    assert [text.partition(letter)[0].strip() for text in whole] == list(cut.texts)


def test_inputs_are_yielded_as_soon_as_finished() -> None:
    taken: list[str] = []

    def walk() -> Any:
        for item in items(*["A dog"] * 100):
            taken.append(item.id)
            yield item

    texts = writer(batching=Batching(rows=4)).write(walk(), ask())
    next(iter(texts))
    assert len(taken) < 20


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
@pytest.mark.parametrize("loading", [Loading(device="cpu"), Forcing(device="cpu")])
def test_load_from_folder(kind: str, loading: Any, tmp_path: Path) -> None:
    model = open_text_model(f"hf:{saved(kind, tmp_path)}", loading)
    version = f"{model_sha256(tmp_path / kind)[:12]},float32"
    assert (model.label, model.version) == (kind, version)
    assert model.conventions["space"] == "stripped"
    found = {texts.item_id: texts.texts for texts in model.write(items("A dog", "Bread"), ask())}
    inner = {t.item_id: t.texts for t in writer(kind).write(items("A dog", "Bread"), ask())}
    assert found == inner
    assert [len(texts) for texts in found.values()] == [4, 4]


@pytest.mark.parametrize("spec", ["hf:", "smollm2:x", "bert:x", "gguf:", "recorded:", "openai:"])
def test_invalid_text_model_spec_is_rejected(spec: str) -> None:
    with pytest.raises(UsageError):
        open_text_model(spec, Loading())


def test_model_without_kv_cache_runs_whole_texts() -> None:
    wanted = [texts.texts for texts in writer().write(items("A dog", "Bread"), ask())]
    model, words = tiny("gpt2")
    forward = model.forward
    model.forward = lambda input_ids, **_: forward(input_ids=input_ids, use_cache=False)
    odd = text_model(model, words, label="odd")
    assert [texts.texts for texts in odd.write(items("A dog", "Bread"), ask())] == wanted
    assert "odd: models of type gpt2 cannot be padded; texts are run in plain passes" in odd.notes()
