#!/usr/bin/env python3
"""Runs Kernel Tuner's own strategies on recorded spaces and writes which rows they measured, for `ridge tune replay --runs`.

  python -m venv VENV && VENV/bin/pip install kernel_tuner==1.5.0 scikit-learn
  VENV/bin/python bench/tuning/kernel_tuner_runs.py convolution_A100_T4.json --seeds 20 --out runs.jsonl
  ridge tune replay convolution_A100_T4.json --strategy ours --runs runs.jsonl --seeds 20 --score

Kernel Tuner searches in simulation mode: its search space is exactly the rows of the recording, its runner answers from them, and a
strategy runs with its default options. A run ends after --evaluations different configurations or where the strategy ends by itself.
"""

import argparse
import json
import pathlib
import random
import sys
import time
import warnings

import numpy
from constraint import FunctionConstraint
from kernel_tuner import util
from kernel_tuner.interface import Options, strategy_map
from kernel_tuner.runners.simulation import SimulationRunner
from kernel_tuner.searchspace import Searchspace

DEFAULT_STRATEGIES = ["adaptive_tabu_greywolf", "genetic_algorithm", "hybrid_vndx", "diff_evo", "pso", "simulated_annealing", "firefly_algorithm",
                      "dual_annealing", "greedy_ils", "mls", "random_sample"]
FAILED_TIME = 1e20


class FirstVisits(dict):
    """The set of keys that the runner keeps of what it measured, in the order of their first visit."""

    def add(self, key):
        self.setdefault(key, len(self))


def rows_of(path):
    """Configuration and time (None where it failed) of every row, in the order of the file: a Kernel Tuner cache or T4 results."""
    data = json.loads(path.read_text())
    if "cache" in data:
        names = data["tune_params_keys"]
        return [({name: row[name] for name in names}, row.get("time")) for row in data["cache"].values()]
    rows = []
    for result in data["results"]:
        times = [one["value"] for one in result["measurements"] if one["name"] == "time"]
        valid = result.get("invalidity", "correct") in ("", "correct")
        rows.append((result["configuration"], times[0] if valid and times else None))
    return rows


def is_time(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < FAILED_TIME


def key_of(values):
    return ",".join(str(value) for value in values)


class RecordedSpace:
    """A recording as Kernel Tuner's search space, and the cache that its simulation runner answers from."""

    def __init__(self, path):
        rows = rows_of(path)
        self.parameters = {name: sorted({row[name] for row, _ in rows}) for name in rows[0][0]}
        self.row_of = {key_of(row.values()): number for number, (row, _) in enumerate(rows)}
        self.cache = {}
        for row, value in rows:
            result = dict(row) | {"compile_time": 0, "verification_time": 0, "benchmark_time": 0}
            if is_time(value):
                result["time"] = value
            else:
                result["time"] = result["__error__"] = util.RuntimeFailedConfig()
            self.cache[key_of(row.values())] = result
        size = self.space().size
        if size != len(rows):
            sys.exit(f"{path}: Kernel Tuner makes {size} configurations of {len(rows)} rows")

    def space(self):
        """A new one for each run: it remembers neighbours that it was asked for, and the next run would meet those of the last."""
        return Searchspace(self.parameters, [FunctionConstraint(lambda *values: key_of(values) in self.row_of)], 10**9)

    def run(self, strategy, seed, evaluations):
        """The numbers of the rows that were measured, in their order."""
        space = self.space()
        random.seed(seed)
        numpy.random.seed(seed)
        limit = min(evaluations, space.size)
        options = Options(tune_params=self.parameters, restrictions=space._modified_restrictions, restrictions_unmodified=None, cache=self.cache,
                          cachefile=None, simulation_mode=True, verbose=False, metrics=None, seed=seed, strategy=strategy, max_fevals=limit,
                          objective=["time"], objective_higher_is_better=[False], strategy_options=Options(max_fevals=limit),
                          budget=util.TuningBudget(None, limit))
        runner = SimulationRunner(None, Options(kernel_name="recorded"), Options(quiet=True), 1, None)
        runner.visited_results = FirstVisits()
        strategy_map[strategy].tune(space, runner, options)
        return [self.row_of[key] for key in runner.visited_results]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", type=pathlib.Path, metavar="RECORDING")
    parser.add_argument("--strategy", action="append", help=f"repeatable; default: {' '.join(DEFAULT_STRATEGIES)}")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--evaluations", type=int, default=500)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with arguments.out.open("w") as out:
        for path in arguments.recordings:
            recorded = RecordedSpace(path)
            for strategy in arguments.strategy or DEFAULT_STRATEGIES:
                start = time.perf_counter()
                for seed in range(1, arguments.seeds + 1):
                    rows = recorded.run(strategy, seed, arguments.evaluations)
                    out.write(json.dumps({"recording": path.stem, "strategy": f"kernel_tuner {strategy}", "seed": seed, "rows": rows}) + "\n")
                out.flush()
                print(f"{path.stem} {strategy}: {(time.perf_counter() - start) / arguments.seeds:.2f} s a run", file=sys.stderr)


if __name__ == "__main__":
    main()
