# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
"""Languages of translation models: what encoder and decoder are given, by family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from forced_lms import TEXT, words
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    MBartTokenizer,
    NllbTokenizer,
    T5Config,
    T5ForConditionalGeneration,
    T5Tokenizer,
)
from writers import ask, items

from aleatoric.errors import UsageError
from aleatoric.models.base import Forcing, LoadOptions
from aleatoric.models.forced import chunks, seq2seq_forced
from aleatoric.models.generate_hf import text_model
from aleatoric.types import SentencePair

PAIRS = [
    SentencePair("1", "A dog runs.", "Ein Hund läuft."),
    SentencePair("2", "Bread is made of flour, water, salt and time.", "A Hund waved at seven."),
]
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
SHAPE: dict[str, Any] = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "init_std": 0.4}
SHAPE |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
SHAPE |= {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 64}
SHAPE |= {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
FAMILIES = {
    "nllb": {"source_language": "eng_Latn", "target_language": "deu_Latn"},
    "mbart": {"source_language": "en_XX", "target_language": "de_DE"},
    "mbart50": {"source_language": "en_XX", "target_language": "de_DE"},
    "marian": {"target_language": "deu"},
    "t5": {},
}
STARTS = {
    "nllb": [2, "deu_Latn"],
    "mbart": ["de_DE"],
    "mbart50": [2, "de_DE"],
    "marian": [1],
    "t5": [1],
}
SOURCES = {
    "nllb": ["eng_Latn", None, "</s>"],
    "mbart": [None, "</s>", "en_XX"],
    "mbart50": ["en_XX", None, "</s>"],
    "marian": [">>deu<<", None, "</s>"],
    "t5": [None, "</s>"],
}
"""The tokens around the text (None) of a source, as in the documentation of each family."""
T5_TEMPLATE = "translate English to German: {source}"


def pieces() -> list[tuple[str, float]]:
    """The pieces of a Unigram model trained on a few sentences, with their scores."""
    inner = Tokenizer(models.Unigram())
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    options: dict[str, Any] = {"special_tokens": SPECIALS, "unk_token": "<unk>"}
    trainer = trainers.UnigramTrainer(vocab_size=120, show_progress=False, **options)
    inner.train_from_iterator([TEXT, T5_TEMPLATE], trainer)
    scored = dict(
        zip(sorted(inner.get_vocab(), key=inner.get_vocab().get), [0.0] * 999, strict=False)
    )
    return [(piece, score - 0.01 * place) for place, (piece, score) in enumerate(scored.items())]


def merged() -> dict[str, Any]:
    """The vocabulary and merges of a BPE model trained on a few sentences."""
    inner = Tokenizer(models.BPE(unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=150, special_tokens=SPECIALS, show_progress=False)
    inner.train_from_iterator([TEXT], trainer)

    model = json.loads(inner.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(merge) for merge in model["merges"]]}


def tokenizer_of(family: str) -> Any:
    if family == "nllb":
        return NllbTokenizer(**merged())
    if family == "marian":
        made = words("$A </s>")
        made.add_tokens([">>deu<<", ">>fra<<", ">>ita<<"], special_tokens=True)
        return made
    made_by = {"mbart": MBartTokenizer, "mbart50": MBart50Tokenizer, "t5": T5Tokenizer}[family]
    return made_by(vocab=pieces())


def translator(family: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    tokenizer = tokenizer_of(family)
    size = {"vocab_size": len(tokenizer) + 2}
    if family == "t5":
        shape = {"d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 4}
        ids = {"decoder_start_token_id": 1, "pad_token_id": 1, "eos_token_id": 2}
        ids = {**ids, "eos_token_id": tokenizer.eos_token_id}
        return T5ForConditionalGeneration(T5Config(**shape, **ids, **size)).eval(), tokenizer
    if family == "marian":
        config: Any = MarianConfig(decoder_start_token_id=1, **SHAPE, **size)
        return MarianMTModel(config).eval(), tokenizer
    if family == "nllb":
        config = M2M100Config(decoder_start_token_id=2, **SHAPE, **size)
        return M2M100ForConditionalGeneration(config).eval(), tokenizer
    start = {"decoder_start_token_id": 2} if family == "mbart50" else {}
    config = MBartConfig(**start, **SHAPE, **size)
    return MBartForConditionalGeneration(config).eval(), tokenizer


def ids_of(tokenizer: Any, tokens: list[Any]) -> list[int]:
    return [t if isinstance(t, int) else tokenizer.convert_tokens_to_ids(t) for t in tokens]


def source_ids(family: str, tokenizer: Any, text: str) -> list[int]:
    text = T5_TEMPLATE.replace("{source}", text) if family == "t5" else text
    # Marian tokenizers read what follows the code as they read any text.
    text = f" {text}" if family == "marian" else text
    inner = tokenizer(text, add_special_tokens=False)["input_ids"]
    around = SOURCES[family]
    place = around.index(None)
    return [*ids_of(tokenizer, around[:place]), *inner, *ids_of(tokenizer, around[place + 1 :])]


def forcing_of(family: str) -> Forcing:
    template = {"template": T5_TEMPLATE} if family == "t5" else {}
    return Forcing(**FAMILIES[family], **template)


@pytest.mark.parametrize("family", FAMILIES)
def test_scored_tokens_match_one_pass_per_position(family: str) -> None:
    model, tokenizer = translator(family)
    start = ids_of(tokenizer, STARTS[family])
    reader = seq2seq_forced(model, tokenizer, label=family, version="v", forcing=forcing_of(family))
    strips = [strip for of_pair in reader.strips(PAIRS) for strip in of_pair]
    found: dict[str, list[tuple[int, Any]]] = {}
    for chunk in chunks(reader, strips, 1000):
        for group, target, row in zip(chunk.groups, chunk.targets, chunk.logits, strict=True):
            found.setdefault(group, []).append((int(target), row))
    for pair in PAIRS:
        source = torch.tensor([source_ids(family, tokenizer, pair.source)])
        text = tokenizer(text_target=pair.target, add_special_tokens=False)["input_ids"]
        wanted = [*text, tokenizer.eos_token_id]
        assert [target for target, _ in found[pair.id]] == wanted
        for place, (_, row) in enumerate(found[pair.id]):
            given = torch.tensor([[*start, *wanted[:place]]])
            with torch.inference_mode():
                plain = model(input_ids=source, decoder_input_ids=given, use_cache=False).logits
            torch.testing.assert_close(row, plain[0, -1], atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", [*FAMILIES])
def test_texts_start_with_the_target_language(family: str) -> None:
    """Greedy texts against `generate` with the forced language token."""
    model, tokenizer = translator(family)
    options = LoadOptions(**FAMILIES[family])
    writer = text_model(model, tokenizer, label=family, options=options)
    template = T5_TEMPLATE.replace("{source}", "{input}") if family == "t5" else "{input}"
    asked = ask(decoder="greedy", samples=1, max_new_tokens=6, template=template)
    found = [texts.texts[0] for texts in writer.write(items("A dog runs."), asked)]
    start = ids_of(tokenizer, STARTS[family])
    settings: dict[str, Any] = {"decoder_start_token_id": start[0], "forced_eos_token_id": None}
    if len(start) > 1:
        settings["forced_bos_token_id"] = start[1]
    source = torch.tensor([source_ids(family, tokenizer, "A dog runs.")])
    out = model.generate(
        source, attention_mask=torch.ones_like(source), do_sample=False, num_beams=1,
        max_new_tokens=5 + len(start), bad_words_ids=[[tokenizer.pad_token_id]], **settings,
    )  # fmt: skip
    assert out[0, : len(start)].tolist() == start
    assert found == [tokenizer.decode(out[0], skip_special_tokens=True).strip()]
    assert ("target" in writer.conventions) == ("target_language" in FAMILIES[family])


@pytest.mark.parametrize(
    ("family", "options", "match"),
    [
        ("nllb", {"source_language": "eng_Latn"}, r"add --target-language \(ace_Arab"),
        ("nllb", {"target_language": "deu_Latn"}, "add --source-language"),
        (
            "nllb",
            {"source_language": "eng_Latn", "target_language": "deu_Lat"},
            r"--target-language 'deu_Lat' is not known \(did you mean deu_Latn",
        ),
        ("mbart", {"source_language": "en", "target_language": "de_DE"}, "--source-language 'en'"),
        ("marian", {"target_language": "de"}, "use one of its 3 codes"),
        ("marian", {}, r"add --target-language \(deu, fra, ita, ...\)"),
        ("marian", {"source_language": "eng"}, "leave --source-language out"),
        ("t5", {"target_language": "German"}, "leave --target-language out"),
    ],
)
def test_missing_and_unknown_languages_are_refused(
    family: str, options: dict[str, Any], match: str
) -> None:
    model, tokenizer = translator(family)
    with pytest.raises(UsageError, match=match) as caught:
        seq2seq_forced(model, tokenizer, label=family, version="v", forcing=Forcing(**options))
    assert str(caught.value).count(". ") == 0
    with pytest.raises(UsageError, match=match):
        text_model(model, tokenizer, label=family, options=LoadOptions(**options))


def test_template_without_source_is_refused() -> None:
    model, tokenizer = translator("t5")
    with pytest.raises(UsageError, match=r"'translate' has no \{source\}; add it"):
        seq2seq_forced(
            model, tokenizer, label="t5", version="v", forcing=Forcing(template="translate")
        )


def test_languages_are_part_of_conventions() -> None:
    for family, languages in FAMILIES.items():
        model, tokenizer = translator(family)
        forcing = forcing_of(family)
        reader = seq2seq_forced(model, tokenizer, label=family, version="v", forcing=forcing)
        found = {
            f"{n}_language": v for n, v in reader.conventions.items() if n in ("source", "target")
        }
        assert found == languages
        assert ("template" in reader.conventions) == (family == "t5")


@pytest.mark.parametrize("family", ["m2m100", "marian"])
def test_sentencepiece_tokenizers(family: str, tmp_path: Path) -> None:
    """Tokenizers that need the package sentencepiece, with a model trained here."""
    spm = pytest.importorskip("sentencepiece")
    (tmp_path / "text.txt").write_text(TEXT.replace(". ", ".\n"))
    spm.SentencePieceTrainer.train(
        input=str(tmp_path / "text.txt"), model_prefix=str(tmp_path / "m"), vocab_size=50,
        minloglevel=2,
    )  # fmt: skip
    processor = spm.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    listed = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    extra = [">>deu<<", ">>fra<<"] if family == "marian" else []
    vocabulary = {piece: i for i, piece in enumerate([*SPECIALS, *listed, *extra])}

    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    torch.manual_seed(0)
    if family == "marian":
        paths = [str(tmp_path / name) for name in ("m.model", "m.model", "vocab.json")]
        tokenizer: Any = transformers.MarianTokenizer(*paths)
        model: Any = MarianMTModel(
            MarianConfig(decoder_start_token_id=1, vocab_size=len(vocabulary), **SHAPE)
        )
        around, start = ([vocabulary[">>deu<<"]], [2]), [1]
        forcing = Forcing(target_language="deu")
    else:
        paths = [str(tmp_path / name) for name in ("vocab.json", "m.model")]
        tokenizer = transformers.M2M100Tokenizer(*paths)
        size = len(vocabulary) + 120
        model = M2M100ForConditionalGeneration(
            M2M100Config(decoder_start_token_id=2, vocab_size=size, **SHAPE)
        )
        around, start = ([tokenizer.get_lang_id("en")], [2]), [2, tokenizer.get_lang_id("de")]
        forcing = Forcing(source_language="en", target_language="de")
    reader = seq2seq_forced(model.eval(), tokenizer, label="m", version="v", forcing=forcing)
    ((strip,),) = reader.strips(PAIRS[:1])
    inner = [[vocabulary.get(piece, 3) for piece in processor.encode(text, out_type=str)]
             for text in (PAIRS[0].source, PAIRS[0].target)]  # fmt: skip
    assert list(strip.source) == [*around[0], *inner[0], *around[1]]
    assert list(strip.given) == [*start, *inner[1]]
    assert list(strip.wanted) == [*start[1:], *inner[1], 2]
    assert strip.scored == tuple(range(len(start) - 1, len(strip.wanted)))
