#!/usr/bin/env python3
"""Requests about CUDA candidates, answered by ridge-worker on this machine's GPU: every task, and every way to fail.

    worker_test.py RIDGE_WORKER CORPUS CACHE
"""
import json
import pathlib
import subprocess
import sys
import tempfile

worker, corpus, cache = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
header = (corpus / "product.cuh").read_text()
failures = []


# Holds the GPU until it is killed, with so many matrix products in flight.
NEIGHBOUR = """
import sys, time, torch
a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
torch.cuda.synchronize()
print("there", flush=True)
while True:
    for _ in range(int(sys.argv[1])): a @ b
    torch.cuda.synchronize()
    if sys.argv[1] == "0": time.sleep(1)
"""


def candidate(path, **defines):
    return {"op": "gemm", "backend": "cuda", "name": pathlib.Path(path).stem,
            "sources": [{"path": "kernel.cu", "text": (corpus / path).read_text()}, {"path": "product.cuh", "text": header}],
            "defines": defines, "flags": [], "parent": ""}


def case(**params):
    return {"op": "gemm", "params": [{"name": name, "value": str(value)} for name, value in params.items()]}


# Beside these, what a protocol leaves out has its default.
PROTOCOL = {"mode": "cold", "threads": 1, "min_effect": 0.01, "alpha": 0.05, "max_decisions": 120, "max_sessions": 32, "max_quads": 8,
            "max_launches": 5, "max_void_fraction": 0.2, "noninferiority": 0.05, "call_timeout": 30.0, "build_timeout": 120.0,
            "memory_limit_mib": 4096}


def ask(**request):
    request = {"version": 1, "cache_directory": cache, "cases": [case(m=200, n=232, k=264)], **request}
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = pathlib.Path(folder, "request.json"), pathlib.Path(folder, "response.json")
        asked.write_text(json.dumps(request))
        ran = subprocess.run([worker, asked, answered], capture_output=True, text=True, timeout=200)
        if not answered.exists():
            return {"error": f"no response, exit code {ran.returncode}: {ran.stderr[-300:]}"}
        return json.loads(answered.read_text())


def expect(name, holds, seen):
    print(f"{'ok  ' if holds else 'FAIL'} {name}: {str(seen)[:240]}", flush=True)
    if not holds:
        failures.append(name)


honest, slow, fast = candidate("honest/tiled.cu"), candidate("pairs/padded.cu", PADDING=60000), candidate("pairs/padded.cu", PADDING=50000)

response = ask(task="check", candidates=[honest, candidate("noop.cu"), candidate("does_not_compile.cu"), candidate("printf_flood.cu")])
rows = [report["rows"][0] for report in response.get("checks", [])]
expect("check passes an honest kernel", rows and rows[0]["outcome"] == "PASS", rows[:1] or response)
expect("the sanitizers ran", rows and "memcheck: clean" in rows[0].get("lanes", {}).get("sanitizer", ""), rows[:1] and rows[0].get("lanes"))
expect("check names what was not written", len(rows) > 1 and rows[1]["outcome"] == "WRONG" and rows[1]["gate"] == "poison", rows[1:2])
expect("a compiler's error names its line", len(rows) > 2 and rows[2]["outcome"] == "COMPILE" and "kernel.cu" in rows[2]["detail"], rows[2:3])
expect("printing is refused", len(rows) > 3 and rows[3]["outcome"] == "CHEAT", rows[3:4])

response = ask(task="check", candidates=[candidate("hidden_race.cu")])
row = (response.get("checks") or [{"rows": [{}]}])[0]["rows"][0]
expect("a race that no value shows is found", row.get("outcome") == "WRONG" and row.get("gate") == "sanitizer", row or response)

response = ask(task="bench", candidates=[honest], cases=[case(m=512, n=512, k=512)])
rows = response.get("bench", [])
expect("bench", rows and rows[0]["outcome"] == "PASS" and rows[0]["median"] > 1e-6, rows and {k: rows[0][k] for k in ("median", "detail")} or response)

response = ask(task="screen", candidates=[slow, fast, candidate("trap.cu"), honest])
rows = response.get("screen", [])
expect("screen goes on after a kernel that traps", [r["outcome"] for r in rows] == ["PASS", "PASS", "CRASH", "PASS"], rows or response)

response = ask(task="calibrate", incumbent=fast, sessions=4)
expect("calibrate", len(response.get("sessions", [])) == 4, [s["guards"] for s in response.get("sessions", [])][:1] or response)

response = ask(task="evaluate", incumbent=slow, candidates=[fast])
evaluation = response.get("evaluation") or {}
expect("evaluate confirms a faster kernel", evaluation.get("outcome") == "PASS" and len(evaluation.get("sessions", [])) >= 14,
       {k: evaluation.get(k) for k in ("outcome", "detail", "seconds")} if evaluation else response)
voided = [s["void_reason"] for s in evaluation.get("sessions", []) if s["voided"]]
expect("its sessions are valid", not voided, voided or "none is void")

response = ask(task="evaluate", incumbent=fast, candidates=[slow])
evaluation = response.get("evaluation") or {}
expect("evaluate screens a slower kernel out", evaluation.get("outcome") == "SLOWER", evaluation.get("detail") or response)

response = ask(task="evaluate", incumbent=fast, candidates=[candidate("hang.cu")])
evaluation = response.get("evaluation") or {}
expect("a kernel that hangs is HANG", evaluation.get("outcome") == "HANG", evaluation.get("detail") or response)

# Another process on the card. By the first rule nothing is decided, and the reason is told. By the second an idle one is no
# objection, and one at full load costs sessions or is named.
for load, steps in (("idle", 0), ("busy", 20)):
    neighbour = subprocess.Popen([sys.executable, "-c", NEIGHBOUR, str(steps)], stdout=subprocess.PIPE, text=True)
    if neighbour.stdout.readline().strip() == "there":
        found = ask(task="evaluate", incumbent=slow, candidates=[fast]).get("evaluation") or {}
        expect(f"beside a process that is {load} a faster kernel is confirmed, or the process named",
               found.get("outcome") == "PASS" and not any(s["voided"] for s in found["sessions"])
               or load == "busy" and "processes on this GPU that are not ours" in found.get("detail", ""),
               [found.get("outcome"), found.get("detail")])
        evaluation = ask(task="evaluate", incumbent=slow, candidates=[fast],
                         protocol={**PROTOCOL, "decision_rule": "sign-betting-1"}).get("evaluation") or {}
        void = sorted({s["void_reason"].split(" ")[0] for s in evaluation.get("sessions", []) if s["voided"]})
        told = "foreign_load" in void or "processes on this GPU that are not ours" in evaluation.get("detail", "")
        expect(f"beside a process that is {load} nothing is decided",
               evaluation.get("outcome") in ("AMBIGUOUS", "HARNESS_FAULT") and told,
               [evaluation.get("outcome"), evaluation.get("detail"), void])
    else:
        print("     no PyTorch that sees the GPU: a foreign process was not tried", flush=True)
    neighbour.kill()
    neighbour.wait()

response = ask(task="bench", implementations=["cpu_simd"], candidates=[honest])
expect("two backends in one request are refused", "one backend" in response.get("error_hint", ""), response.get("error"))

print(f"worker_test: {len(failures)} failed")
sys.exit(1 if failures else 0)
