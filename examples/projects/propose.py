#!/usr/bin/env python3
"""The one idea of an example: --proposer 'command:python3 examples/projects/propose.py examples/projects/torch_cpp'.

The folder's idea.toml has the words of a hypothesis and a list of replacements in the kernel.
"""
import json
import pathlib
import sys
import tomllib

request = json.load(sys.stdin)
folder = pathlib.Path(sys.argv[1])
if request["round"] != 2 or request["last_error"]:
    answer = {"version": 1, "exhausted": True, "reason": "one idea was all; the last answer: " + (request["last_error"] or "measured")[:300]}
else:
    idea = tomllib.loads((folder / "idea.toml").read_text())
    source = request["incumbent"]["sources"][0]
    text = source["text"]
    for old, new in idea["replace"]:
        if text.count(old) != 1:
            sys.exit(f"{source['path']} holds {text.count(old)} times: {old}")
        text = text.replace(old, new)
    answer = {"version": 1, "changes": [{"sources": [{"path": source["path"], "text": text}]}],
              "hypothesis": {"title": idea["title"], "mechanism": idea["title"], "bottleneck": idea["bottleneck"],
                             "category": idea["category"], "expected_gain": idea["expected_gain"],
                             "reasoning": idea["reasoning"], "risks": [idea["risk"]],
                             "verification_signal": "a shorter time on every shape", "planned_files": [source["path"]]}}
json.dump(answer, sys.stdout)
