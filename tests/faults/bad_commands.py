"""Cases of invalid recordings, options and paths, each with a valid corpus."""

from __future__ import annotations

import gzip
from pathlib import Path

from bad_inputs import CORPORA, COUNTS, GOOD, TABLES, Case, lines

_REPRODUCE = ("reproduce", "next-word", "--data")
_LONG = "{dir}/" + "n" * 256
"""A name longer than any file can have."""


_NO_GGUF = "gguf:{dir}/c.jsonl"


def recorded(name: str, message: str, data: bytes, line: int | None = 1) -> Case:
    """A case with a valid corpus and an invalid recording."""
    files = {"c.jsonl": lines(GOOD), "m.jsonl": data}
    argv = ("--corpus", "{dir}/c.jsonl", "--model", "recorded:{dir}/m.jsonl")
    return Case(f"recorded {name}", message, files, argv, "m.jsonl", line)


def usage(name: str, message: str, *argv: str) -> Case:
    """A case with valid files and an invalid command."""
    return Case(name, message, {"c.jsonl": lines(GOOD)}, ("--corpus", "{dir}/c.jsonl", *argv))


def hold_a_run(folder: Path) -> None:
    (folder / "run").mkdir()
    (folder / "run" / "run.sqlite").write_bytes(b"this is no database, but it is somebody's")


def hold_a_file(folder: Path) -> None:
    (folder / "run").write_text("a file where the run should go")


def link_to_nothing(folder: Path) -> None:
    (folder / "c.jsonl").symlink_to(folder / "gone")


RECORDINGS = [
    recorded("without an id", "'id' is missing .*; add", lines({"samples": {"a": 1}})),
    recorded(
        "with passage alone",
        "'position' is missing .*; add",
        lines({"passage": 1, "samples": {"a": 1}}),
    ),
    recorded(
        "with a null id", "is not an identifier; use", lines({"id": None, "samples": {"a": 1}})
    ),
    recorded(
        "rows that join nothing",
        "none of its 2 rows .*; check",
        lines(*[{"id": "x", "samples": {"a": 1}}] * 2),
        None,
    ),
    recorded(
        "samples and texts",
        "samples and texts; give",
        lines({"id": "1", "samples": {"a": 1}, "texts": ["b"]}),
    ),
    recorded("nothing in a row", "this one none; give", lines({"id": "1"})),
    recorded(
        "positive logprobs",
        "0.5 is no log-probability; use",
        lines({"id": "1", "logprobs": {"a": 0.5}}),
    ),
    recorded(
        "a logprob that is text",
        "is no log-probability; use",
        lines({"id": "1", "logprobs": {"a": "-1"}}),
    ),
    recorded("no logprobs", "no object with words; write", lines({"id": "1", "logprobs": {}})),
    recorded(
        "logprobs twice",
        "has logprobs and another row; give",
        lines(*[{"id": "1", "logprobs": {"a": -1}}] * 2),
        2,
    ),
    recorded(
        "samples after logprobs",
        "has logprobs and another row; give",
        lines({"id": "1", "logprobs": {"a": -1}}, {"id": "1", "samples": {"a": 1}}),
        2,
    ),
    recorded("NaN logprobs", "not a JSON number; leave", b'{"id": "1", "logprobs": {"a": NaN}}\n'),
    recorded(
        "samples as a number", "not an object of counts; write", lines({"id": "1", "samples": 3})
    ),
    recorded("a negative count", "too small; use", lines({"id": "1", "samples": {"a": -1}})),
    recorded(
        "a fraction of failures",
        "failed 0.5 is not whole; use",
        lines({"id": "1", "samples": {"a": 1}, "failed": 0.5}),
    ),
    recorded(
        "texts that are no texts", "is int, not text; write", lines({"id": "1", "texts": [1]})
    ),
    recorded(
        "the sentinel of failures",
        "NUL character; remove",
        b'{"id": "1", "samples": {"\\u0000failed": 3}}\n',
    ),
    recorded(
        "truncated JSON in line 2",
        "not JSON .*; write",
        lines({"id": "1", "samples": {"a": 1}}) + b'{"id"',
        2,
    ),
    recorded("an empty file", "holds no row; record", b"", None),
    recorded("a CSV file", "not JSON .*; write", b"id,word\n1,a\n"),
    recorded(
        "truncated gzip",
        "gzip data are cut off or damaged; copy",
        gzip.compress(lines({"id": "1", "samples": {"a": 1}}))[:-9],
        None,
    ),
]

USAGE = [
    Case("no such file", "no such file; check", file="c.jsonl"),
    Case("no such folder", "no such file; check", argv=("--corpus", "{dir}/no/c.jsonl")),
    Case(
        "a name longer than any file",
        "cannot be read|no corpus",
        argv=("--corpus", "{dir}/" + "c" * 300 + ".jsonl"),
    ),
    Case("a folder for a corpus", "this is a folder; name", argv=("--corpus", "{dir}")),
    Case("a device for a corpus", "no regular file; save", argv=("--corpus", "/dev/null")),
    Case("a link to nothing", "no such file; check", file="c.jsonl", prepare=link_to_nothing),
    Case("an unknown corpus", "no corpus or file 'brown'; known", argv=("--corpus", "brown")),
    Case("a corpus that is not fetched", "run aleatoric fetch provo", argv=("--corpus", "provo")),
    Case(
        "a kind of corpus without a file",
        "no corpus or file 'cloze'|cloze",
        argv=("--corpus", "cloze:"),
    ),
    Case(
        "simulated of an unknown option",
        "not understood; use",
        argv=("--corpus", "simulated:size=3"),
    ),
    Case(
        "simulated with text", "not understood; use", argv=("--corpus", "simulated:contexts=many")
    ),
    Case(
        "simulated without people",
        "people is 1 to 1000000",
        argv=("--corpus", "simulated:people=0"),
    ),
    Case(
        "simulated with a negative",
        "not understood; use",
        argv=("--corpus", "simulated:contexts=-5"),
    ),
    Case(
        "simulated too large",
        "people is 1 to 1000000",
        argv=("--corpus", "simulated:people=99999999999"),
    ),
    usage("an unknown kind of model", "no model 'magic:wand'; known", "--model", "magic:wand"),
    usage("a recording without a file", "needs a file; write", "--model", "recorded:"),
    usage("a recording that is not there", "no such file; check", "--model", "recorded:{dir}/no"),
    usage(
        "a second model that is not there",
        "no such file; check",
        "--model",
        "toy",
        "--model",
        "gguf:{dir}/no.gguf",
    ),
    usage("a second model of no kind", "there is no model", "--model", "toy", "--model", "nil:x"),
    usage("a recording of too long a name", "no such file; check", "--model", f"recorded:{_LONG}"),
    usage(
        "a recording whose name is not UTF-8",
        r"m\\udcff.jsonl': its name is not UTF-8; rename",
        *("--model", "recorded:{dir}/m\udcff.jsonl"),
    ),
    usage("a folder of a model that is not there", "no such file; check", "--model", "hf:none/"),
    usage("a GGUF file that is none", "c.jsonl: is no GGUF file; name", "--model", _NO_GGUF),
    usage("a recording that is a folder", "this is a folder; name", "--model", "recorded:{dir}"),
    usage("a toy of an unknown option", "not a toy model; use", "--model", "toy:size=3"),
    usage("a toy at temperature 0", "not a toy model; use", "--model", "toy:temperature=0"),
    usage("a toy at temperature nan", "not a toy model; use", "--model", "toy:temperature=nan"),
    usage("an unknown protocol", "no protocol 'new'; use", "--protocol", "new"),
    usage("an unknown choice", "no choice 'colour'; the choices are", "--choose", "colour=red"),
    usage("a choice without a value", "is not known; use", "--choose", "bins"),
    usage("an unknown value of a choice", "is not known; use", "--choose", "bins=open"),
    usage("a choice of the protocol", "no choice 'protocol'", "--choose", "protocol=paper"),
    usage("an unknown metric", "no metric 'bleu'; use", "--metric", "bleu"),
    usage("an unknown format", "no format 'html'; use", "--format", "html"),
    usage("an unknown encoding", "no encoding 'klingon'; try", "--encoding", "klingon"),
    usage("an encoding without line ends", "line by line; save", "--encoding", "utf-16"),
    Case("a run that is damaged", "choose|restore", {"c.jsonl": lines(GOOD)}, prepare=hold_a_run),
    Case(
        "a run of too long a name",
        "cannot be written .*too long.*; choose another --out",
        {"c.jsonl": lines(GOOD)},
        command=("word", "--out", _LONG),
    ),
    Case(
        "a file where the run should go",
        "choose another --out",
        {"c.jsonl": lines(GOOD)},
        prepare=hold_a_file,
    ),
]


def other(name: str, message: str, *command: str) -> Case:
    """A case with a command other than `word`."""
    return Case(name, message, argv=(), command=command, prepare=hold_a_run)


OTHERS = [
    other("score of nothing", "no run directory; it has", "score", "{dir}/none"),
    other("score of a damaged run", "is damaged or no run; restore", "score", "{dir}/run"),
    other(
        "score in an unknown format", "no format 'x'; use", "score", "{dir}/run", "--format", "x"
    ),
    other("score in two forms", "no room for", "score", "{dir}/run", "--json", "--format", "csv"),
    other("demo in two forms", "no room for --format latex", "demo", "--format", "latex", "--json"),
    *(
        other(f"{command[0]} of too long a name", "cannot be read .*; check", *command)
        for command in (
            ("score", _LONG),
            ("resume", _LONG),
            ("view", _LONG),
            ("compare", _LONG, "{dir}/run"),
            ("report", _LONG, "--html", "{dir}/page.html"),
            ("plan", _LONG, "--se", "0.01"),
        )
    ),
    other("salvage of too long a name", "cannot be read", "resume", _LONG, "--salvage", "{dir}/s"),
    other(
        "salvage to too long a name",
        "cannot be written .*; choose",
        *("resume", "{dir}/run", "--salvage", _LONG),
    ),
    other("fetch to too long a name", "cannot be written", "fetch", "provo", "--to", _LONG),
    other("reproduce from too long a name", "is not a folder; name", *_REPRODUCE, _LONG),
    other("list of nothing", "no kind 'x'; the kinds are", "list", "x"),
    other("fetch of nothing", "nothing to fetch for 'x'; use", "fetch", "x"),
    other("fetch from no address", "not a web address; use", "fetch", "provo", "--url", "x"),
    other("reproduce without data", "is not a folder; name", *_REPRODUCE, "{dir}/none"),
    other("reproduce from an empty folder", "holds 0 files .*; put", *_REPRODUCE, "{dir}/run"),
]

_ASSUME = ("--assume", "sd=0.2")


def planned(message: str, *argv: str) -> Case:
    """A case of a plan with invalid assumptions."""
    name = "plan " + " ".join(part[:12] for part in argv)
    return Case(name, message, argv=(), command=("plan", *_ASSUME, *argv))


def priced(message: str, *argv: str) -> Case:
    """A case of a cost that cannot be computed."""
    name = "cost " + " ".join(part[:12] for part in argv)
    return Case(name, message, argv=(), command=("plan", "--cost", *argv))


PLANS = [
    planned("--se 1e-300 is not a distance; give", "--se", "1e-300"),
    planned("--width 1e-300 is not a distance; give", "--width", "1e-300"),
    planned("--width .* is not a distance; give", "--width", "5e-324"),
    planned("--difference 1e-300 is not a distance", "--power", "0.8", "--difference", "1e-300"),
    planned("--se inf is not a distance; give", "--se", "9" * 400),
    planned("--se 1e-08 needs more than .*; give a larger", "--se", "1e-8"),
    planned("--width 1e-09 needs more than .*; give", "--width", "1e-9"),
    planned("--difference 1e-08 needs .*; give", "--power", "0.8", "--difference", "1e-8"),
    planned("--level 1 is not a level; give", "--width", "0.1", "--level", "0.9999999999999999"),
    planned("--power must lie", "--power", "nan", "--difference", "0.1"),
    *(
        planned(
            "--contexts-per-group .* not a size of a group; give", "--contexts-per-group", value
        )
        for value in ("1e308", "inf", "nan", "0", "-1", "9" * 400)
    ),
    planned("gives sd twice; give", "--assume", "sd=0.1"),
    planned("support=1e[+]300 cannot be", "--assume", "support=1e300,entropy=1e300"),
    planned("support=0 cannot be", "--assume", "support=0"),
    planned("support=2.5 cannot be", "--assume", "support=2.5"),
    planned("support='9{39}…' is not a number", "--assume", "support=" + "9" * 900),
    planned("no assumption '9{39}…'; use", "--assume", "9" * 900 + "=1"),
    planned("group=1e[+]300 cannot be", "--assume", "group=1e300"),
    planned("give a run .* not both", "{dir}/run"),
    planned("--contexts is an option of --cost; add", "--contexts", "100"),
    planned("--dtype is an option of --cost; add", "--dtype", "float32"),
    planned("--new-tokens is an option of --cost", "--new-tokens", "10", "--se", "0.01"),
    planned("--system names a system of a run; leave", "--system", "gpt2"),
    planned("--against names a system of a run; leave", "--against", "gpt2"),
    planned("--correlation is of two systems; add", "--correlation", "0.3"),
    planned("no figure format 'bmp'; use", "--figure", "{dir}/plan.bmp"),
    planned("no figure format ''; use", "--figure", "{dir}/plan"),
    planned("no room for --format csv; give one", "--json", "--format", "csv"),
    planned("no room for --format csv; give one", "--format", "csv", "--json"),
    priced("--cost does not use RUN; leave", "{dir}/none", "--figure", "{dir}/x.png"),
    priced("--cost does not use --assume; leave", "--assume", "garbage", "--power", "7"),
    priced("--cost does not use --se; leave", "--se", "0.01"),
    priced("--cost does not use --people; leave", "--people", "40"),
    priced("--cost does not use --figure; leave", "--figure", "{dir}/x.png"),
    priced("--cost does not use --level; leave", "--level", "0.95"),
    priced("--cost does not use --seed; leave", "--seed", "0"),
    priced("in place of exact", "--new-tokens", "100", "--samples", "exact"),
    priced("in place of exact", "--new-tokens", "9", "--samples", "9", "--samples", "exact"),
]

ENGINES = [
    usage(f"an engine with {option} {value}", message, "--engine", "ray", option, value)
    for message, option, value in [
        ("--actor-cpus 1e-05 cannot be assigned; give", "--actor-cpus", "0.00001"),
        ("--actor-cpus 0.00015 cannot be assigned; give", "--actor-cpus", "0.00015"),
        ("--actor-gpus 1e-05 cannot be assigned; give", "--actor-gpus", "0.00001"),
        ("--actor-gpus 1.5 is not a number of GPUs; give", "--actor-gpus", "1.5"),
    ]
]

CASES = [*OTHERS, *PLANS, *ENGINES, *CORPORA, *COUNTS, *TABLES, *RECORDINGS, *USAGE]
