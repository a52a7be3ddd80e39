"""Does a language model's uncertainty match human variability?

>>> import aleatoric as al
>>> al.overlap({"many": 20, "some": 3}, {"many": 310, "no": 120})
0.9222255739205508

Runs          word, token, text, open, compare, plan, report
Metrics       overlap, sq_distance, agreement, tvd, tvd_debiased, ece, e_ece,
              w1, energy
Models        load, word_probabilities, surprisal
Streams       CalibrationStream: calibration of logits in constant memory
Results       Run, Results, Result, Estimate, Interval, Table, Categorical
Errors        AleatoricError: UsageError, ArgumentError, DataError, ModelError

    run = al.word("people.jsonl", "smollm2", out="runs/first")
    run.results                   # prints as a table; .to_pandas(), .to_dict()
    run.items()                   # a DataFrame, one row per item and system
    run.report("report.html")

help(al.word) describes a function; the command line is `aleatoric --help`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aleatoric.api import Run as Run
    from aleatoric.api import compare as compare
    from aleatoric.api import load as load
    from aleatoric.api import open as open
    from aleatoric.api import plan as plan
    from aleatoric.api import report as report
    from aleatoric.api import surprisal as surprisal
    from aleatoric.api import text as text
    from aleatoric.api import token as token
    from aleatoric.api import word as word
    from aleatoric.api import word_probabilities as word_probabilities
    from aleatoric.calibration.stream import CalibrationStream as CalibrationStream
    from aleatoric.errors import AleatoricError as AleatoricError
    from aleatoric.errors import ArgumentError as ArgumentError
    from aleatoric.errors import DataError as DataError
    from aleatoric.errors import ModelError as ModelError
    from aleatoric.errors import UsageError as UsageError
    from aleatoric.functional import agreement as agreement
    from aleatoric.functional import e_ece as e_ece
    from aleatoric.functional import ece as ece
    from aleatoric.functional import energy as energy
    from aleatoric.functional import overlap as overlap
    from aleatoric.functional import sq_distance as sq_distance
    from aleatoric.functional import tvd as tvd
    from aleatoric.functional import tvd_debiased as tvd_debiased
    from aleatoric.functional import w1 as w1
    from aleatoric.result_types import Result as Result
    from aleatoric.result_types import Results as Results
    from aleatoric.result_types import Table as Table
    from aleatoric.types import Categorical as Categorical
    from aleatoric.types import Estimate as Estimate
    from aleatoric.types import Interval as Interval

    __version__: str

_HOMES = {
    "aleatoric.api": "Run word token text open compare plan report load surprisal"
    " word_probabilities",
    "aleatoric.calibration.stream": "CalibrationStream",
    "aleatoric.errors": "AleatoricError ArgumentError DataError ModelError UsageError",
    "aleatoric.functional": "agreement overlap sq_distance tvd tvd_debiased ece e_ece w1 energy",
    "aleatoric.result_types": "Result Results Table",
    "aleatoric.types": "Categorical Estimate Interval",
}
"""Where the public names live; they are imported when they are first used."""
_PUBLIC = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("aleatoric.registry").package_version()
    if name not in _PUBLIC:
        raise AttributeError(f"module 'aleatoric' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
