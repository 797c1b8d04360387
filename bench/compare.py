"""Whether something became slower: two reports, or two subjects of one, case by case with intervals.

Ratios are of medians over repeats, with a 95% bootstrap interval: repeats of one file belong together and are drawn in
pairs, those of two files apart. What is reported as a loss must be beyond the limit *and* beyond the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import report

Json = dict[str, Any]
_RESAMPLES = 4000


@dataclass(frozen=True)
class Verdict:
    """New over old time, the interval, and what follows: faster, slower, same, noisy, missing, broken."""

    case: str
    metric: str
    ratio: float
    low: float
    high: float
    word: str
    fails: bool
    note: str = ""


def ratio_interval(old: list[float], new: list[float], paired: bool) -> tuple[float, float, float]:
    """Ratio of medians, new over old, and the ends of its interval. Needs at least three repeats of each."""
    a, b = np.asarray(old), np.asarray(new)
    if min(len(a), len(b)) < 3:
        raise ValueError("an interval needs at least three repeats")
    rng = np.random.default_rng(17)
    if paired and len(a) == len(b):
        ratios = b / a
        drawn = np.median(ratios[rng.integers(len(ratios), size=(_RESAMPLES, len(ratios)))], axis=1)
        middle = float(np.median(ratios))
    else:
        medians = [np.median(x[rng.integers(len(x), size=(_RESAMPLES, len(x)))], axis=1) for x in (a, b)]
        drawn = medians[1] / medians[0]
        middle = float(np.median(b) / np.median(a))
    low, high = np.quantile(drawn, (0.025, 0.975))
    return middle, float(low), float(high)


def judge(case: str, metric: str, old: list[float], new: list[float], paired: bool, limit: float) -> Verdict:
    """The verdict on one metric of one case; `limit` is the share by which new may be slower."""
    ratio, low, high = ratio_interval(old, new, paired)
    fails = ratio > 1 + limit and low > 1
    word = "slower" if low > 1 else "faster" if high < 1 else "same"
    if word == "same" and high - low > 2 * limit:
        word = "noisy"
    return Verdict(case, metric, ratio, low, high, word, fails)


def compare(old: Json, new: Json, subjects: tuple[str, str], limit: float) -> list[Verdict]:
    """Verdicts on every case of `old` that its subject ran.

    Models are judged by host time and by device time. Raises ValueError for reports of different machines or scales.
    """
    for what in ("schema", "scale", "simulated"):
        if old[what] != new[what]:
            raise ValueError(f"the reports differ in {what}: {old[what]} and {new[what]}")
    if old["machine"]["gpu"] != new["machine"]["gpu"]:
        raise ValueError(f"the reports are of different GPUs: {old['machine']['gpu']} and {new['machine']['gpu']}")
    verdicts: list[Verdict] = []
    found = {case["name"]: case for case in new["cases"]}
    for case in old["cases"]:
        before = case["results"].get(subjects[0])
        if before is None or "error" in before:
            continue
        after = found.get(case["name"], {"results": {}})["results"].get(subjects[1])
        if after is None or "error" in after:
            word, note = ("missing", "not measured") if after is None else ("broken", after["error"].splitlines()[0])
            verdicts.append(Verdict(case["name"], "", 0, 0, 0, word, True, note))
            continue
        metrics = [report.metric(case)] + (["device_us"] if case["group"] == "model" else [])
        usable = [key for key in metrics if before[key] and after[key]] or ["wall_us"]
        verdicts += [judge(case["name"], key, before[key], after[key], old is new, limit) for key in usable]
    if not verdicts:
        raise ValueError(f"there is no case of {subjects[0]} to compare")
    return verdicts
