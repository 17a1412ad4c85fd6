#!/usr/bin/env python3
"""Exports of the shipped campaigns in readers that are written from the published formats of the other side: what those
tools look for, and how they take it apart. Nothing here comes from the exporter.

usage: interop_test.py RIDGE
"""
import csv
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from datetime import datetime
from pathlib import Path

RIDGE = sys.argv.pop(1) if len(sys.argv) > 1 else "ridge"
ROOT = Path(__file__).resolve().parents[2]
CAMPAIGNS = sorted(p.parent for p in (ROOT / "campaigns").glob("*/journal.jsonl"))
# Records of operators whose shapes other tools have no columns for lie beside their devices' results.
OTHERS = sorted(p.parent for p in (ROOT / "bench/results").glob("*/campaigns/*/journal.jsonl"))


def ridge(*words, expect=0):
    done = subprocess.run([RIDGE, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == expect, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# --- the viewer's layout

TREND = ["Round", "Status", "Description", "Fwd Avg TFLOPS", "Fwd Peak TFLOPS", "Bwd Avg TFLOPS", "Bwd Peak TFLOPS",
         "Step Geomean TFLOPS", "vs Baseline", "Key Finding"]
COST = ["Time", "Phase", "Round", "Status", "Wall s", "SDK s", "Turns", "Cost USD", "Cumulative USD"]
BENCH = ["label", "B", "M", "N", "K", "correct", "out_snr", "da_snr", "db_snr", "fwd_ms_mean", "fwd_ms_std", "bwd_ms_mean",
         "bwd_ms_std", "fwd_tflops_mean", "fwd_tflops_std", "bwd_tflops_mean", "bwd_tflops_std"]
RUN = {"campaign_id", "campaign_dir", "current_phase", "current_round", "best_round", "best_score", "rollback_streak",
       "started_at", "last_update", "params", "history"}
PHASES = {"DEFINE_TARGET", "USER_CONFIRM_MANIFEST", "PREPARE_ENVIRONMENT", "SURVEY_RELATED_WORK", "READ_HISTORICAL_TIPS",
          "BASELINE", "PROFILE", "ANALYZE", "OPTIMIZE", "VALIDATE", "REVIEW", "DECIDE", "STAGNATION_REVIEW",
          "TERMINATION_CHECK", "REPORT", "DONE"}
DECISIONS = {"BASELINE": "BASELINE", "ACCEPTED": "ACCEPTED", "ROLLED BACK": "ROLLBACK"}
LOG = ["Basic Information", "Baseline", "Optimization History", "Current Best", "Directions to Try",
       "Verified Ineffective Directions", "Final Report"]


def pipe_table(text):
    rows = []
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("|") and line.endswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not all(set(cell) <= set("-:") and cell for cell in cells):
                rows.append(cells)
    return rows


def number(cell):
    return None if cell in ("-", "—", "") else float(cell)


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


class Viewer:
    """One campaign folder as the viewer loads it; an assertion where it would drop or misread something."""

    def __init__(self, folder):
        runs = sorted(folder.glob("state/*/run.json"))
        assert len(runs) == 1, runs
        self.run = json.loads(runs[0].read_text())
        assert set(self.run) == RUN, set(self.run) ^ RUN  # its loader passes them as keyword arguments
        assert self.run["campaign_id"] == runs[0].parent.name
        assert self.run["current_phase"] in PHASES, self.run["current_phase"]
        for key in ("started_at", "last_update"):
            datetime.strptime(self.run[key], "%Y-%m-%d %H:%M")
        self.trend = self.read_trend(folder / "logs/performance_trend.md")
        self.cost = self.read_cost(folder / "logs/cost.md")
        self.tables = {}
        for path in folder.glob("rounds/*"):
            found = re.fullmatch(r"round-(\d+)", path.name)
            assert found, path
            if (path / "artifacts/benchmark.csv").exists():
                self.tables[int(found[1])] = self.read_benchmark(path / "artifacts/benchmark.csv")
            assert (path / "summary.md").exists(), path
        self.folders = {int(p.name[6:]) for p in folder.glob("rounds/round-*")}
        sections = re.findall(r"^## (?!#)(.+?)\s*$", (folder / "logs/optimize.md").read_text(), re.M)
        assert [s for s in sections if s in LOG] == [s for s in LOG if s in sections], sections
        self.ineffective = [json.loads(line) for line in (folder / "verified_ineffective.jsonl").read_text().splitlines()]

    @staticmethod
    def read_trend(path):
        header, *rows = pipe_table(path.read_text())
        assert header == TREND, header
        trend = {}
        for row in rows:
            assert len(row) == len(TREND), row
            assert re.fullmatch(r"\d+", row[0]), row[0]
            assert row[1] in ("BASELINE", "ACCEPTED", "ROLLBACK"), row[1]
            assert int(row[0]) not in trend, row[0]
            trend[int(row[0])] = dict(zip(TREND[1:], row[1:]))
        return trend

    @staticmethod
    def read_cost(path):
        header, *rows = pipe_table(path.read_text())
        assert header == COST, header
        for row in rows:
            datetime.strptime(row[0], "%Y-%m-%d %H:%M:%S")
            assert row[1].split(" (")[0] in PHASES, row[1]
            assert row[2] == "-" or int(row[2]) >= 1, row[2]
            assert row[3] == "ok" and float(row[4]) >= 0, row
        return [(row[1], None if row[2] == "-" else int(row[2])) for row in rows]

    @staticmethod
    def read_benchmark(path):
        text = path.read_bytes().decode()
        assert text.count("\r\n") == text.count("\n"), path
        rows = list(csv.DictReader(text.splitlines()))
        assert list(rows[0]) == BENCH, list(rows[0])
        for row in rows:
            assert row["correct"] in ("PASS", "FAIL"), row["correct"]
            assert len(row["label"]) <= 40 and "dtype=" not in row["label"], row["label"]
            assert "nan" not in row.values(), row
            for key in ("M", "N", "K"):
                assert int(row[key]) > 0, row
            if row["fwd_tflops_std"]:
                assert float(row["fwd_tflops_std"]) > 0, row
        assert len({row["label"] for row in rows}) == len(rows)
        return rows

    def check(self):
        history = {entry["round"]: entry for entry in self.run["history"]}
        assert list(history) == sorted(history) and set(history) == set(self.trend) == self.folders
        assert self.run["current_round"] in history  # a round without a decision is drawn as pending
        best = None
        streak = 0
        for n, entry in history.items():
            assert set(entry) == {"round", "decision", "score", "description", "at"}, entry
            datetime.strptime(entry["at"], "%Y-%m-%d %H:%M")
            row = self.trend[n]
            assert DECISIONS[entry["decision"]] == row["Status"], (n, entry["decision"], row["Status"])
            streak = streak + 1 if entry["decision"] == "ROLLED BACK" else 0
            forward, backward = number(row["Fwd Avg TFLOPS"]), number(row["Bwd Avg TFLOPS"])
            step = number(row["Step Geomean TFLOPS"])
            if forward is None:
                assert not entry["score"], entry
                continue
            rates = [float(r["fwd_tflops_mean"]) for r in self.tables[n] if r["correct"] == "PASS"]
            assert abs(geomean(rates) - forward) < 0.001 * forward + 0.001, (n, geomean(rates), forward)
            assert abs(max(rates) - number(row["Fwd Peak TFLOPS"])) < 0.001 * forward
            expected = forward if backward is None else math.sqrt(forward * backward)
            assert abs(step - expected) < 0.002, (step, expected)
            assert abs(entry["score"]["step_geomean"] - step) < 0.001
            if row["Status"] == "BASELINE":
                assert row["vs Baseline"] == "—" and n == 1
            else:
                assert re.fullmatch(r"step [+-]\d+\.\d{3}%, fwd [+-]\d+\.\d{3}%, bwd (—|[+-]\d+\.\d{3}%)", row["vs Baseline"])
            if row["Status"] != "ROLLBACK":
                best = n
            phases = {phase for phase, of in self.cost if of == n}
            assert "BASELINE" in phases if n == 1 else {"ANALYZE", "VALIDATE", "DECIDE"} <= phases, (n, phases)
        assert self.run["best_round"] == best and self.run["best_score"] == history[best]["score"]
        assert self.run["rollback_streak"] == streak
        for line in self.ineffective:
            assert set(line) == {"round", "direction", "reason", "modified_files"}
            assert history[line["round"]]["decision"] == "ROLLED BACK", line


# --- the workspace's layout: every key of its template, "?" may be null

TEMPLATE = {
    "version": str, "masked": bool, "timestamp": str,
    "performance": {"latency_us?": float, "latency_us_by_shape": {}, "tflops?": float, "bandwidth_gbps?": float,
                    "tflops_peak_utilization_pct?": float, "bandwidth_peak_utilization_pct?": float,
                    "comparison_with_previous": {"latency_delta?": float, "tflops_delta?": float, "bandwidth_delta?": float}},
    "optimization": {"action_category": str, "action_description": str, "expected_impact": str, "risks_and_rollback": str},
    "profile_evidence": {"tool_used": str, "evidence_summary": str, "bottleneck_type": ("compute_bound", "memory_bound"),
                         "evidence_chain": str},
    "experience": {"experiment_count": int, "recorded_experiment_count": int,
                   "experiments": [{"index": int, "name": str, "hypothesis": str, "change": str, "evidence": str,
                                    "result": str, "decision": ("continue", "revert", "pivot")}]},
    "correctness": {"rel_err?": float, "status": ("PASS", "FAIL", "TIMEOUT_FAIL")},
    "isa_metric_progress": [{"metric": str, "target": float, "current": float, "met": bool}],
    "search_log": [{"source": ("gpu-wiki", "ref-project", "public-web"), "query": str, "finding": str,
                    "actionability": str}],
    "pitfalls_and_fixes": [{"error_type": ("compilation", "runtime", "accuracy", "performance", "timeout"),
                            "error_message": str, "root_cause": str, "fix_applied": str, "lesson": str}],
    "references": [{"source_type": ("gpu-wiki", "ref-project", "public-web", "user-input"), "path_or_url": str,
                    "description": str}],
    "quality_gate": {"result": ("PASS", "FAIL", "TIMEOUT_FAIL"), "failure_reason?": str},
    "open_directions": [{"direction": str, "rationale": str}],
    "git_commit_hash?": str,
}


def conform(value, template, place):
    if isinstance(template, dict):
        assert isinstance(value, dict), place
        if not template:
            assert all(isinstance(v, (int, float)) and math.isfinite(v) and v > 0 for v in value.values()), place
            return
        names = {key.rstrip("?") for key in template}
        assert set(value) == names, (place, set(value) ^ names)
        for key, inner in template.items():
            name = key.rstrip("?")
            if not (key.endswith("?") and value[name] is None):
                conform(value[name], inner, f"{place}.{name}")
    elif isinstance(template, list):
        assert isinstance(value, list), place
        for i, item in enumerate(value):
            conform(item, template[0], f"{place}[{i}]")
    elif isinstance(template, tuple):
        assert value in template, (place, value)
    elif template is float:
        assert isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value), (place, value)
    else:
        assert isinstance(value, template), (place, value)


def git(folder, *words):
    return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True).stdout.strip()


class Workspace:
    def __init__(self, folder):
        self.folder = folder
        numbers = sorted(int(re.fullmatch(r"v(\d+)\.json", p.name)[1]) for p in folder.glob("memory/*"))
        assert numbers == list(range(len(numbers))), numbers
        self.versions = [json.loads((folder / f"memory/v{n}.json").read_text()) for n in numbers]
        for n, version in enumerate(self.versions):
            conform(version, TEMPLATE, f"v{n}")
            assert version["version"] == f"v{n}" and len(version["open_directions"]) <= 3
            datetime.fromisoformat(version["timestamp"].replace("Z", "+00:00"))
            assert n == 0 or (folder / f"plans/v{n}_plan.md").exists()

    def best(self):
        """As that side takes it: the least latency of every version whose gate or whose correctness passes."""
        found = [v["performance"]["latency_us"] for v in self.versions
                 if "PASS" in (v["quality_gate"]["result"], v["correctness"]["status"])]
        return min(latency for latency in found if latency is not None)

    def check(self):
        accepted = [v for v in self.versions if v["quality_gate"]["result"] == "PASS"]
        assert self.best() == min(v["performance"]["latency_us"] for v in accepted)
        assert git(self.folder, "status", "--porcelain") == ""
        sources = {p for p in git(self.folder, "ls-files").splitlines()
                   if not p.startswith(("memory/", "plans/")) and p not in ("README.md", ".ridge-export")}
        for version in self.versions:
            commit = version["git_commit_hash"]
            assert (commit is not None) == (version["quality_gate"]["result"] == "PASS"), version["version"]
            if commit:  # a win is a commit that changes the kernel, and HEAD holds it
                changed = set(git(self.folder, "show", "--name-only", "--format=", commit).splitlines())
                assert changed & sources and not any(p.startswith("memory/") for p in changed), changed
                git(self.folder, "merge-base", "--is-ancestor", commit, "HEAD")
            for shape in version["performance"]["latency_us_by_shape"]:
                assert "dtype=" not in shape, shape
        # The kernel of HEAD is that of the version accepted last.
        assert git(self.folder, "diff", "--name-only", accepted[-1]["git_commit_hash"], "HEAD", "--", *sources) == ""


class Interop(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="ridge-interop"))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_shipped_campaigns_load_in_the_viewer(self):
        self.assertGreaterEqual(len(CAMPAIGNS), 3)
        for campaign in CAMPAIGNS:
            with self.subTest(campaign.name):
                out = self.folder / campaign.name
                ridge("campaign", "export", campaign, "--format", "turbo-view", "--out", out)
                viewer = Viewer(out)
                viewer.check()
                self.assertIn("ACCEPTED", [row["Status"] for row in viewer.trend.values()])

    def test_a_live_view_follows_an_export_that_is_brought_up_to_date(self):
        campaign = CAMPAIGNS[0]
        lines = (campaign / "journal.jsonl").read_bytes().splitlines(keepends=True)
        kinds = [json.loads(line)["kind"] for line in lines]
        running = self.folder / "campaign"
        running.mkdir()
        out = self.folder / "view-of-it"
        seen = []
        closed = [i + 1 for i, kind in enumerate(kinds) if kind in ("committed", "rolled_back")]
        for end in (closed[0], closed[2], len(lines)):
            (running / "journal.jsonl").write_bytes(b"".join(lines[:end]))
            ridge("campaign", "export", running, "--format", "turbo-view", "--out", out)
            (out / "view").mkdir(exist_ok=True)  # the viewer's own output, inside the folder that it watches
            (out / "view/index.html").write_text("theirs")
            viewer = Viewer(out)
            viewer.check()
            seen.append(max(viewer.trend))
            self.assertEqual((out / "view/index.html").read_text(), "theirs")
        self.assertEqual(seen, sorted(set(seen)))
        files = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
        ridge("campaign", "export", running, "--format", "turbo-view", "--out", out)
        self.assertEqual(files, {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()})  # nothing to reload
        ridge("campaign", "export", CAMPAIGNS[1], "--format", "turbo-view", "--out", out, expect=7)

    @unittest.skipUnless(shutil.which("git"), "no git here")
    def test_shipped_campaigns_load_as_workspaces(self):
        for campaign in CAMPAIGNS:
            with self.subTest(campaign.name):
                out = self.folder / campaign.name
                ridge("campaign", "export", campaign, "--format", "atrex", "--out", out)
                workspace = Workspace(out)
                workspace.check()
                head = git(out, "rev-parse", "HEAD")
                ridge("campaign", "export", campaign, "--format", "atrex", "--out", out)
                self.assertEqual(git(out, "rev-parse", "HEAD"), head)

    def test_shipped_campaigns_pass_the_check_for_foreign_records(self):
        self.assertGreaterEqual(len(OTHERS), 2)
        for campaign in CAMPAIGNS + OTHERS:
            with self.subTest(campaign.name):
                answer = json.loads(ridge("campaign", "check", campaign, "--json"))
                self.assertEqual(answer["differences"], [])
                older = campaign in CAMPAIGNS  # than commands in manifests
                self.assertEqual("3 commands are not in its manifest" in answer["summary"], older, answer["summary"])

    def test_an_export_comes_back_with_its_shapes_costs_and_directions(self):
        out = self.folder / "view"
        ridge("campaign", "export", CAMPAIGNS[0], "--format", "turbo-view", "--out", out)
        back = json.loads(ridge("campaign", "import", out, "--json"))
        viewer = Viewer(out)
        self.assertEqual(back["shapes"], sorted(row["label"] for row in viewer.tables[1]))
        for one in back["rounds"]:
            self.assertEqual([s["label"] for s in one["shapes"]], [r["label"] for r in viewer.tables[one["round"]]])
        self.assertEqual(len(back["costs"]), len(viewer.cost))
        self.assertEqual(sum(d["state"] == "ineffective" for d in back["directions"]), len(viewer.ineffective))


# --- hardware records: the published schema of hw-1.0, and its rule about what no source states

PROVENANCE = ("vendor-published", "derived-from-system-total", "architecture-analysis")


class HardwareRecords(unittest.TestCase):
    def check(self, record, path=None):
        self.assertEqual(set(record), {"schema", "id", "type", "status", "identity", "facts", "provenance"})
        self.assertEqual((record["schema"], record["type"], record["status"]), ("hw-1.0", "spec-sheet", "current"))
        self.assertRegex(record["id"], r"^[a-z0-9-]+\.[a-z0-9-]+\.spec-sheet\.[a-z0-9.-]+$")
        who = record["identity"]
        self.assertLessEqual({"vendor", "arch", "product", "compute_capability", "sm_arch"}, set(who))
        self.assertEqual(record["id"], f"{who['vendor']}.{who['arch']}.spec-sheet.{who['product']}")
        if path:
            self.assertEqual(path.parts[-4:], ("spec-sheet", who["vendor"], who["arch"], who["product"] + ".json"))
        facts = record["facts"]
        self.assertLessEqual(set(facts), {"summary", "usage_notes", "peak_compute", "memory", "compute_units",
                                          "interconnect", "power", "deltas_vs", "unavailable"})
        if not facts["peak_compute"]:  # a product whose maker prints none
            self.assertIn("peak_compute.bf16.dense", facts["unavailable"])
        for peak in facts["peak_compute"]:
            self.assertLessEqual(set(peak), {"dtype", "unit", "unit_kind", "dense", "sparse_2to4", "accumulate", "use_case",
                                             "provenance", "derivation"})
            self.assertIn(peak["unit"], ("TFLOPS", "TOPS"))
            self.assertIn(peak["unit_kind"], ("tensor-core", "cuda-core"))
            self.assertIn(peak["provenance"], PROVENANCE)
            self.assertGreater(peak["dense"], 0)
            if peak["sparse_2to4"] is not None:
                self.assertLess(peak["dense"], peak["sparse_2to4"])
        for group in ("memory", "compute_units"):
            block = facts[group]
            self.assertIn(block["provenance"], PROVENANCE)
            self.assertLessEqual(set(block["provenance_overrides"]), set(block))
            for field, value in block.items():
                if field not in ("provenance", "provenance_overrides"):
                    self.assertEqual(value is None, field in facts["unavailable"], field)
        for text in facts["unavailable"].values():
            self.assertTrue(text)
        for key in ("bus_width_bits",):
            self.assertIsInstance(facts["memory"][key], (int, type(None)))
        self.assertIn(record["provenance"]["evidence_class"], PROVENANCE)
        self.assertTrue(record["provenance"]["sources"])
        for source in record["provenance"]["sources"]:
            self.assertIn(source["kind"], ("vendor-product-page", "vendor-doc", "ptx-isa", "internal-note",
                                           "third-party-analysis"))
        if record["provenance"]["last_verified"] is not None:
            self.assertRegex(record["provenance"]["last_verified"], r"^\d{4}-\d{2}-\d{2}$")

    def test_every_gpu_is_a_record(self):
        with tempfile.TemporaryDirectory() as folder:
            ridge("spec", "export", "--out", folder)
            paths = sorted(Path(folder).rglob("*.json"))
            self.assertGreaterEqual(len(paths), 10)
            for path in paths:
                with self.subTest(path.name):
                    self.check(json.loads(path.read_text()), path)

    def test_values_are_those_of_the_database(self):
        record = json.loads(ridge("spec", "export", "MI300X", "--format", "hw-1.0"))
        self.check(record)
        peaks = {(p["dtype"], p["unit_kind"]): p for p in record["facts"]["peak_compute"]}
        self.assertEqual(peaks["bf16", "tensor-core"]["dense"], 1307.4)
        self.assertEqual(peaks["bf16", "tensor-core"]["sparse_2to4"], 2614.9)
        self.assertEqual(peaks["int8", "tensor-core"]["unit"], "TOPS")
        self.assertNotIn(("fp4", "tensor-core"), peaks)
        self.assertEqual(record["facts"]["memory"]["bandwidth_tb_s"], 5.3)
        self.assertEqual(record["facts"]["memory"]["l2_cache_mb"], 32)
        self.assertEqual(record["identity"]["sm_arch"], "gfx942")
        derived = json.loads(ridge("spec", "export", "H200"))
        peak = next(p for p in derived["facts"]["peak_compute"] if p["dtype"] == "bf16")
        self.assertEqual((peak["dense"], peak["provenance"]), (989.4, "architecture-analysis"))
        self.assertIn("matrix_clock", peak["derivation"])

    def test_bad_input_is_refused(self):
        ridge("spec", "export", "H200", "--format", "hw-2", expect=2)
        ridge("spec", "export", "Zen 5", expect=2)
        ridge("spec", "export", expect=2)
        ridge("spec", "export", "H900", expect=2)


if __name__ == "__main__":
    unittest.main(verbosity=1)
