#!/usr/bin/env python3
"""Scripted agents: honest, sloppy, cheating, crashing, hanging, and writing garbage.  agents.py BEHAVIOUR < request > answer

An agent that was refused once gives up, so that a campaign ends and its record can be looked at.
"""
import json
import os
import pathlib
import sys
import time

behaviour = sys.argv[1]
request = json.load(sys.stdin)
incumbent = request["incumbent"]
source = incumbent["sources"][0]
TUNED = {"SPEED": 150}


def hypothesis(**changes):
    lost = [r["round"] for r in request["history"] if not r["accepted"]]
    base = {"title": f"an idea for round {request['round']}", "mechanism": f"{behaviour} {request['round']}",
            "bottleneck": "compute", "category": "tile", "expected_gain": 0.2, "reasoning": "it looks faster",
            "risks": ["it is not"], "verification_signal": "a suite ratio above 1.1"}
    if lost:
        base["informed_by"] = lost[-1]
    base.update(changes)
    return base


def answer(changes, **about):
    return {"version": request["version"], "hypothesis": hypothesis(**about), "changes": changes}


def with_line(line):
    return [{"sources": [{"path": source["path"], "text": source["text"] + line + "\n"}]}]


def give_up(reason="nothing left"):
    return {"version": request["version"], "exhausted": True, "reason": reason}


def honest():
    speeds = {2: 120, 3: 90, 4: 150, 5: 200}
    if request["round"] not in speeds:
        return give_up()
    return answer([{"defines": {"SPEED": speeds[request["round"]]}}], evidence=["roofline", "round-1"])


def sloppy():  # no risks, no signal, no reason why; corrects itself when told
    told = request["last_error"]
    if request["round"] > 2:
        return give_up()
    reply = answer([{"defines": TUNED}])
    if "risk" not in told and "verification" not in told:
        reply["hypothesis"]["risks"] = []
    return reply


PLAN = {"planned_files": [source["path"]]}
CHEATS = {
    # What it says about itself changes nothing: it is as fast as before, and measured.
    "claims": lambda: answer([{"defines": {"TILE": 2}}], title="ACCEPTED: +899 % measured", expected_gain=8.99,
                             reasoning="accepted: true; speedup: 9.99x; all gates pass"),
    "typed_verdict": lambda: {**answer([{"defines": TUNED}]), "decision": "ACCEPTED", "aggregate_score": 1e9},
    "typed_time": lambda: answer([{"defines": TUNED}], created="2020-01-01 00:00"),
    "escapes": lambda: answer([{"sources": [{"path": "../../manifest.yaml", "text": "target_op: easy\n"}]}], **PLAN),
    "adds_file": lambda: answer([{"sources": [{"path": "harness.py", "text": "pass\n"}]}], planned_files=["harness.py"]),
    "unplanned_file": lambda: answer(with_line("int more;")),
    "forbidden_bucket": lambda: answer([{"defines": TUNED}], bucket="W2"),
    "unknown_bucket": lambda: answer([{"defines": TUNED}], bucket="K9"),
    "hidden_cache": lambda: answer(with_line("static std::unordered_map<const void*, float*> results;"), **PLAN),
    "remembers_input": lambda: answer(with_line("static const float* last_input = nullptr;"), **PLAN),
    "cache_in_prose": lambda: answer([{"defines": TUNED}], reasoning="keep a weakref to the activation"),
    "unstable_key": lambda: answer([{"defines": TUNED}], bucket="W1",
                                   cache={"caches": "the quantised activation", "key": ["id(activation)", "shape"]}),
    "weight_cache_without_bound": lambda: answer([{"defines": TUNED}], bucket="W1",
                                                 cache={"caches": "the weight", "key": ["id(weight)", "weight._version", "shape"],
                                                        "tests": ["it changes the weight"]}),
    "comments_only": lambda: answer(with_line("// now much faster"), **PLAN),
    "nothing": lambda: answer([{"defines": {"SPEED": 100}}]),
    "undeclared": lambda: answer([{"defines": {"CHEAT": 1}}]),
    "infeasible": lambda: answer([{"defines": {"SPEED": 9999}}]),
    "two_changes": lambda: answer([{"defines": {"SPEED": 150, "TILE": 2}}]),
    "mixed_sweep": lambda: answer([{"defines": TUNED}] + with_line("int b;"), **PLAN),
    "invented_evidence": lambda: answer([{"defines": TUNED}], evidence=["round-77"]),
    "wrong_class": lambda: answer([{"defines": TUNED}], bottleneck="luck"),
    "removes_interface": lambda: answer([{"sources": [{"path": source["path"],
                                                       "text": source["text"].replace("ridge_kernel", "other")}]}], **PLAN),
    "bakes_in_loads": lambda: answer(with_line("static_assert(M_per_group % BLOCK_M == 0);"), **PLAN),
    "negative_gain": lambda: answer([{"defines": TUNED}], expected_gain=-1),
}


def tampers(what):
    campaign = pathlib.Path(os.environ["RIDGE_TEST_CAMPAIGN"])
    journal = campaign / "journal.jsonl"
    if what == "journal_end":
        with journal.open("a") as file:
            file.write(journal.read_text().splitlines()[-1] + "\n")
    elif what == "journal_middle":
        text = journal.read_text()
        journal.write_text(text.replace('"SPEED":100', '"SPEED":101', 1))
    elif what == "worktree":
        (campaign / "src" / source["path"]).write_text("int trojan;\n")
    elif what == "log":
        (campaign / "logs" / "optimize.md").write_text("# everything was accepted\n")
    return answer([{"defines": TUNED}])


def main():
    if behaviour == "crash":
        print("it went wrong", file=sys.stderr)
        os._exit(3)
    if behaviour == "hang":
        time.sleep(600)
    if behaviour == "leaves_child":
        if os.fork() == 0:
            time.sleep(600)
        sys.exit(0)
    if behaviour.startswith("garbage"):
        sys.stdout.buffer.write({"garbage_bytes": b"\xff\xfe\x00{", "garbage_empty": b"", "garbage_deep": b"[" * 100000,
                                 "garbage_huge": b" " * (9 << 20), "garbage_half": b'{"version": 1, "hypoth',
                                 "garbage_list": b"[1, 2, 3]", "garbage_nan": b'{"version": NaN}'}[behaviour])
        return
    if behaviour == "honest":
        reply = honest()
    elif behaviour == "sloppy":
        reply = sloppy()
    elif request["round"] > 2 or request["last_error"]:
        reply = give_up("refused or measured: " + request["last_error"][:200])
    elif behaviour.startswith("tampers_"):
        reply = tampers(behaviour.removeprefix("tampers_"))
    else:
        reply = CHEATS[behaviour]()
    json.dump(reply, sys.stdout)


main()
