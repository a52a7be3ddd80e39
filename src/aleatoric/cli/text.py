"""The commands of the text level."""

from __future__ import annotations

from typing import Annotated

import typer

from aleatoric.cli.options import (
    ActorCpusOption,
    ActorGpusOption,
    ActorsOption,
    AddressOption,
    BosOption,
    DeviceOption,
    DtypeOption,
    EncodingOption,
    EngineOption,
    FormatOption,
    JsonOption,
    OutOption,
    RemoteCodeOption,
    SeedOption,
)
from aleatoric.cli.printing import say, show_results, shown, track, writing
from aleatoric.runs.disk import command


def text(
    corpus: Annotated[
        str, typer.Option(help="A corpus name, or a file of inputs with people's texts.")
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(help="smollm2, hf:NAME, openai:MODEL@URL, recorded:FILE; repeatable."),
    ] = None,
    decoder: Annotated[
        list[str] | None, typer.Option(help="ancestral, top_p=0.9, typical=0.2, ...; repeatable.")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, max=10**5, help="Texts per input.")] = 10,
    max_new_tokens: Annotated[
        int, typer.Option(min=1, max=10**6, help="The longest text, in tokens.")
    ] = 100,
    template: Annotated[
        str, typer.Option(help="What the model reads, as 'Simplify: {input}'.")
    ] = "{input}",
    chat: Annotated[
        bool, typer.Option("--chat", help="Ask through the model's chat template.")
    ] = False,
    turns: Annotated[
        str, typer.Option(help="What joins the turns of a dialogue: eos, newline or any text.")
    ] = "eos",
    stop: Annotated[
        list[str] | None, typer.Option(help="A text ends before this string; repeatable.")
    ] = None,
    probe: Annotated[
        list[str] | None,
        typer.Option(help="lexical-1, syntactic-2, semantic, module:function; repeatable. All."),
    ] = None,
    tokeniser: Annotated[
        str | None, typer.Option(help="spacy-words:LANGUAGE, whitespace, ...; else by the corpus.")
    ] = None,
    tagger: Annotated[
        str | None, typer.Option(help="Of syntactic probes: textblob, nltk, spacy:NAME.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Of the semantic probe: minilm, st:NAME_OR_DIR.")
    ] = None,
    max_length: Annotated[
        int,
        typer.Option(
            min=0, max=10**6, help="Cut people's and models' texts to so many tokens; 0: no cut."
        ),
    ] = 100,
    protocol: Annotated[str, typer.Option(help="corrected, or paper as published.")] = "corrected",
    splits: Annotated[
        int, typer.Option(min=1, max=10_000, help="Random splits of the people.")
    ] = 20,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first inputs.")] = None,
    device: DeviceOption = None,
    dtype: DtypeOption = "float32",
    bos: BosOption = "auto",
    trust_remote_code: RemoteCodeOption = False,
    engine: EngineOption = "local",
    address: AddressOption = None,
    actors: ActorsOption = None,
    actor_cpus: ActorCpusOption = None,
    actor_gpus: ActorGpusOption = None,
    seed: SeedOption = 0,
    encoding: EncodingOption = "utf-8",
    out: OutOption = None,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Whole texts: does a generator vary as people do?

    Without a model, how people vary among themselves.

    Example: `aleatoric text --corpus asset.jsonl --model smollm2 --decoder top_p=0.9 --chat
    --template 'Simplify: {input}' --out runs/asset`
    """
    from aleatoric.levels import text as text_pipeline
    from aleatoric.models.base import Writing
    from aleatoric.runs.engine import EngineOptions, Loading

    job = text_pipeline.TextJob(
        corpus=corpus,
        models=tuple(model or ()),
        decoders=tuple(decoder or ("ancestral",)),
        writing=Writing(
            samples=samples,
            max_new_tokens=max_new_tokens,
            template=template,
            chat=chat,
            turns=turns,
            stop=tuple(stop or ()),
        ),
        loading=Loading(dtype=dtype, device=device, bos=bos, trust_remote_code=trust_remote_code),
        protocol=protocol,
        probes=tuple(probe or ()),
        tokeniser=tokeniser,
        tagger=tagger,
        encoder=encoder,
        max_length=max_length,
        n_splits=splits,
        seed=seed,
        encoding=encoding,
        limit=limit,
        engine=EngineOptions(engine, address, actors, actor_cpus, actor_gpus),
    )
    with (
        writing(out) as (folder, stopping),
        text_pipeline.run_text(job, folder, track, stopping) as store,
    ):
        results, notes = text_pipeline.results(store), text_pipeline.notes(store)
        with shown():
            show_results(results, notes, as_json, layout, "text")
        if out is not None:
            say(f"saved in {out}; see it again with: {command(out, 'score')}")
