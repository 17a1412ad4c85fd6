#!/usr/bin/env python3
"""Adds up what the processes of scripts/false_alarms found.   sum_false_alarms.py FILE PROCESSOR COMMIT PART.json..."""
import json
import pathlib
import platform
import sys


def total(parts, key):
    return sum(part[key] for part in parts)


def added(parts, key):
    names = {name for part in parts for name in part[key]}
    return {name: sum(part[key].get(name, 0) for part in parts) for name in sorted(names)}


def largest(parts, key):
    return {name: max(part[key][name] for part in parts) for name in parts[0][key]}


def main(target, processor, commit, *files):
    parts = [json.loads(pathlib.Path(name).read_text()) for name in files]
    bias = parts[0]["bias"]
    beyond = "outputs_beyond_0_1_2_deviations"
    result = {
        "environment": {"processor": processor, "kernel": platform.release(), "commit": commit},
        "seeds": total(parts, "seeds"), "outputs_compared": total(parts, "outputs_compared"),
        "projections": total(parts, "projections"), "alarms": [alarm for part in parts for alarm in part["alarms"]],
        "bias": {"allowed_rate_per_output": bias["allowed_rate_per_output"], "deviations_allowed": bias["deviations_allowed"],
                 "largest_deviations": max(part["bias"]["largest_deviations"] for part in parts),
                 beyond: [sum(column) for column in zip(*(part["bias"][beyond] for part in parts))]},
        "largest_of_allowed": largest(parts, "largest_of_allowed"),
        "by_subject": added(parts, "by_subject"), "by_family": added(parts, "by_family")}
    pathlib.Path(target).write_text(json.dumps(result, indent=2) + "\n")
    print(f"{target}: {result['seeds']} seeds, {result['outputs_compared']} outputs, {len(result['alarms'])} false alarms")


if __name__ == "__main__":
    main(*sys.argv[1:])
