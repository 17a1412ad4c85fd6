#!/usr/bin/env python3
"""How often `ridge compare` accepts differences of known size on this machine, through the whole real chain.

    bench/decisions/power.py --effect 2 --decisions 20 --out bench/results/<machine>/power-2.json

The incumbent computes PAD rows twice, the candidate none (for a negative effect the other way round), so the truth is the
ratio of the work: (m + PAD) / m. Decisions use the error budget of a campaign (--planned 120). Writes every decision.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATE = (ROOT / "bench/decisions/padded_gemm.cpp").read_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ridge", default=ROOT / "build/bin/ridge")
    parser.add_argument("--effect", type=float, required=True, help="extra work of the incumbent in percent; negative: of the candidate")
    parser.add_argument("--decisions", type=int, default=20)
    parser.add_argument("--shape", nargs="+", default=["m=200", "n=192", "k=192"])
    parser.add_argument("--min-effect", type=float, default=0.01)
    parser.add_argument("--seconds", type=float, default=240, help="start no further decision after this time")
    parser.add_argument("--out", required=True, help="appends to an existing file")
    options = parser.parse_args()
    rows = int(dict(word.split("=") for word in options.shape)["m"])
    pad = round(rows * abs(options.effect) / 100)
    truth = (rows + pad) / rows if options.effect >= 0 else rows / (rows + pad)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    out = pathlib.Path(options.out)
    document = json.loads(out.read_text()) if out.exists() else {
        "what": "decisions of ridge compare on a pair of known truth", "commit": commit, "truth": truth, "shape": " ".join(options.shape),
        "min_effect": options.min_effect, "decisions": []}
    start = time.time()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, padding in (("padded", pad), ("plain", 0)):
            (folder / f"{name}.cpp").write_text(f"#define PAD {padding}\n{TEMPLATE}")
        incumbent, candidate = ("padded", "plain") if options.effect >= 0 else ("plain", "padded")
        if pad == 0:
            (folder / "padded.cpp").write_text(f"{TEMPLATE}\n// a copy\n")
        for _ in range(options.decisions):
            if time.time() - start > options.seconds:
                break
            answer = subprocess.run(
                [options.ridge, "--json", "-q", "compare", "gemm", *options.shape, "--incumbent", folder / f"{incumbent}.cpp",
                 "--candidate", folder / f"{candidate}.cpp", "--min-effect", str(options.min_effect), "--planned", "120"],
                capture_output=True, text=True)
            if answer.returncode not in (0, 1):
                sys.exit(answer.stderr)
            found = json.loads(answer.stdout)
            document["environment"] = found["environment"]
            decision = found["decision"]
            confirm = [s for s in found["evaluation"]["sessions"] if s["role"] == "confirm"]
            quads = confirm[0]["shapes"][0]["quads"] if confirm else []
            document["decisions"].append({
                "accepted": decision["accepted"], "outcome": decision["outcome"], "reason": decision["reason"],
                "evidence": decision["evidence"], "effects": decision["effects"],
                "sessions": len(confirm), "voided": sum(s["voided"] for s in found["evaluation"]["sessions"]),
                "quads": len(quads), "launches": len(quads[0]["blocks"][0]) if quads else 0,
                "guards": [s["guards"] for s in found["evaluation"]["sessions"]],
                "gates": {g["gate"]: g["outcome"] for g in decision["gates"]}})
            print(f"{len(document['decisions'])}: {decision['outcome']} {decision['reason']}", flush=True)
    document["accepted"] = sum(d["accepted"] for d in document["decisions"])
    document["count"] = len(document["decisions"])
    document["seconds"] = round(document.get("seconds", 0) + time.time() - start, 1)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"truth {truth:.3f}: {document['accepted']} of {document['count']} accepted in {document['seconds']:.0f} s")


if __name__ == "__main__":
    main()
