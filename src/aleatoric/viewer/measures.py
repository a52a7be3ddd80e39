"""What can be shown, sorted and filtered of each item, by level."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """A number per item: a saved statistic, or one minus another."""

    key: str
    heading: str
    about: str
    stat: str
    less: str | None = None
    digits: int = 3

    @property
    def stats(self) -> tuple[str, ...]:
        """The saved statistics that it stands on."""
        return (self.stat,) if self.less is None else (self.stat, self.less)


WORD = (
    Measure(
        "sq_distance",
        "D²",
        "squared distance H + M − 2C: 0 on average for a perfect model",
        "sq_distance",
    ),
    Measure("H", "H", "how often two people agree", "agreement_H"),
    Measure("M", "M", "how often two draws of the model agree", "agreement_M"),
    Measure("C", "C", "how often a draw of the model agrees with a person", "agreement_C"),
    Measure("log_loss", "log loss", "people's mean negative log-probability", "log_loss"),
    Measure("tvd", "TVD", "share of probability that would have to move to match people", "tvd"),
    Measure("entropy_human", "H people", "how undecided people are, in nats", "entropy_human"),
    Measure("entropy_model", "H model", "how undecided the model is, in nats", "entropy_model"),
    Measure("tvd_syn", "TVD syn", "TVD of parts of speech", "tvd_syn"),
    Measure("tvd_sem", "TVD sem", "TVD of clusters of meaning", "tvd_sem"),
    Measure(
        "mass", "on people's", "model's probability of words that people said", "mass_on_human"
    ),
    Measure(
        "rank",
        "rank",
        "place of people's first word in the model's list; none where it was never drawn",
        "rank_of_human_mode",
        None,
        0,
    ),
    Measure("n_human", "people", "answers of people", "n_human", None, 0),
    Measure("n_model", "draws", "draws of the model; none where it is exact", "n_model", None, 0),
)
"""Of contexts; those that a run has not saved are left out."""

_OF_PROBE = (
    ("energy", "energy", "2 mean C − mean M − mean H: 0 in expectation for a perfect generator"),
    ("dmu_M", "μM − μH", "above 0: the model's texts vary more than people's; below 0: less"),
    ("mean_H", "mean H", "mean distance between two people's texts"),
    ("mean_M", "mean M", "mean distance between two of the model's texts"),
    ("mean_C", "mean C", "mean distance between one of each"),
    ("w1_C", "W1(C, H)", "how far model-to-people distances are from people's own"),
    ("w1_M", "W1(M, H)", "how far the model's own distances are from people's"),
    (
        "dmu_C",
        "μC − μH",
        "above 0: the model's texts are further from people's than people's are from one another; "
        "says nothing of variability",
    ),
)


def word_measures(saved: Collection[str]) -> tuple[Measure, ...]:
    """The measures of contexts that the saved statistics allow.

    >>> [one.key for one in word_measures(["tvd", "agreement_H"])]
    ['H', 'tvd']
    """
    return tuple(one for one in WORD if all(stat in saved for stat in one.stats))


def text_measures(saved: Collection[str], probes: Sequence[str]) -> tuple[Measure, ...]:
    """The measures of inputs, probe by probe.

    >>> [one.key for one in text_measures(["w1_C/lexical-1", "mean_H/lexical-1"], ["lexical-1"])]
    ['mean_H/lexical-1', 'w1_C/lexical-1']
    """
    found = (measure for probe in probes for measure in _probe_measures(probe))
    return tuple(one for one in found if all(stat in saved for stat in one.stats))


def _probe_measures(probe: str) -> Iterator[Measure]:
    for key, heading, about in _OF_PROBE:
        stat = f"{key}/{probe}"
        yield Measure(stat, heading, about, stat)


def probe_of(measure: Measure) -> str:
    """The probe that a measure belongs to; empty at the word level.

    >>> probe_of(WORD[0]), probe_of(Measure("w1_C/semantic", "", "", ""))
    ('', 'semantic')
    """
    return measure.key.partition("/")[2]
