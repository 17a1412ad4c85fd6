#!/usr/bin/env python3
"""The smallest proposer: changes one declared tunable at random.  ridge optimize gemm --proposer command:examples/agent_random.py"""
import json, random, sys

request = json.load(sys.stdin)
declared = request["space"]["tunables"]
now = {t["name"]: request["incumbent"]["defines"].get(t["name"], t["default"]) for t in declared}
tunable = random.choice([t for t in declared if len(t["values"]) > 1])
value = random.choice([v for v in tunable["values"] if v != now[tunable["name"]]])
lost = [r["round"] for r in request["history"] if not r["accepted"]]  # a hypothesis says which failure it learned from
answer = {
    "version": request["version"],
    "hypothesis": {"title": f"{tunable['name']} = {value}", "mechanism": f"random {tunable['name']}={value}",
                   "risks": ["it may well be slower"], "verification_signal": "a suite ratio above 1.01",
                   "bottleneck": "compute", "category": tunable["category"], "expected_gain": 0.01,
                   "reasoning": "a random step; what the tunable should do: " + (tunable["effect"] or "unknown"),
                   **({"informed_by": lost[-1]} if lost else {})},
    "changes": [{"defines": {tunable["name"]: value}}],
}
json.dump(answer, sys.stdout)
