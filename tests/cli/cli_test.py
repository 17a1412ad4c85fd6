#!/usr/bin/env python3
"""`ridge` as a user runs it: every bad input ends in a clear message and its exit code; a campaign survives kill -9."""
import csv
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RIDGE = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.tmp = pathlib.Path(cls.directory.name)
        cls.environment = {**os.environ, "RIDGE_CACHE_DIR": str(cls.tmp / "cache"), "XDG_CONFIG_HOME": str(cls.tmp / "config")}

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def ridge(self, *arguments, timeout=240, **extra):
        return subprocess.run([RIDGE, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, cwd=self.tmp,
                              env={**self.environment, **extra})

    def refused(self, code, *arguments, says, **extra):
        result = self.ridge(*arguments, **extra)
        self.assertEqual(result.returncode, code, f"{arguments}: {result.stdout}{result.stderr}")
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, result.stdout + result.stderr)
        return result

    def json(self, *arguments, **extra):
        result = self.ridge(*arguments, "--json", **extra)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)


class Hardware(Base):
    def test_a_fact_comes_with_its_source(self):
        result = self.ridge("spec", "get", "H200", "memory_bandwidth")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("memory_bandwidth: 4.8 TB/s <- nvidia/h200-datasheet.md:H200 SXM", result.stdout)

    def test_an_unknown_fact_is_exit_4(self):
        self.refused(4, "spec", "get", "H20", "boost_clock", says="boost_clock: UNKNOWN (")

    def test_a_name_of_two_products(self):
        self.refused(2, "spec", "show", "H100", says=["H100 PCIe", "H100 SXM"])

    def test_no_such_metric(self):
        self.refused(2, "spec", "get", "H200", "warmth", says=["warmth", "memory_bandwidth"])

    def test_the_repository_is_clean(self):
        report = self.json("spec", "lint", ROOT / "docs")
        self.assertTrue(report["ok"], report["findings"])
        self.assertGreater(report["citations"], 500)

    def test_a_citation_that_does_not_hold(self):
        plan = self.tmp / "plan.md"
        plan.write_text("memory_bandwidth: 4.9 TB/s <- nvidia/h200-datasheet.md:H200 SXM\n")
        self.refused(1, "spec", "lint", plan, says=["plan.md:1", "4.8 TB/s"])

    def test_the_roofline_of_the_manual(self):
        report = self.json("roofline", "gemm", "m=4096", "n=4096", "k=4096", "dtype=bf16", "--on", "H200", "--latency", "0.25ms",
                           "--plot", self.tmp / "r.svg", "--write", self.tmp / "README.md")[0]
        self.assertEqual(f"{report['intensity']:.2f} {report['ridge']:.1f} {100 * report['utilisation']:.1f}", "1365.33 206.1 55.6")
        self.assertIn("<svg", (self.tmp / "r.svg").read_text())
        self.assertIn("## Stop Conditions", (self.tmp / "README.md").read_text())

    def test_more_than_there_is(self):
        self.refused(2, "roofline", "gemm", "m=4096", "n=4096", "k=4096", "dtype=bf16", "--on", "H200", "--latency", "100us",
                     says="138.9 % of what bf16 matrix can do")

    @unittest.skipIf(shutil.which("nvidia-smi"), "a machine without a GPU is meant")
    def test_the_ceilings_of_a_gpu_that_is_not_there(self):
        self.refused(3, "ceilings", "--on", "cuda", says="CUDA")
        self.refused(3, "ceilings", "--on", "hip", says="measured on cpu and cuda, not on hip")
        self.refused(3, "roofline", "gemm", "m=64", "n=64", "k=64", "--on", "cuda", says="CUDA")

    def test_no_roof_without_a_source(self):
        self.refused(3, "roofline", "--flop", "1e9", "--dtype", "bf16", "--on", "H20", says="matrix_bf16: UNKNOWN")

    def test_a_profilers_report_says_what_limits(self):
        reports = ROOT / "tests/profile/reports"
        report = self.json("profile", "--from", reports / "ncu_copy.csv")
        self.assertEqual((report["tool"], report["bottleneck"]), ("ncu", "memory"))
        counted = self.json("profile", "--from", reports / "rocprofv3_counters.csv", "--on", "MI300X")
        self.assertTrue(any(m["name"] == "dram_fraction" for m in counted["metrics"]))
        self.refused(2, "profile", "--from", reports / "ncu_two.csv", says="name the one that is meant with --kernel")
        self.refused(2, "profile", "--from", ROOT / "README.md", says="no report of a known profiler")
        self.refused(2, "profile", says="--from FILE")
        self.refused(2, "profile", "--tool", "rocprof-compute", "--", "true", says="read with --from")

    def test_a_shipped_kernel_that_does_not_exist(self):
        self.refused(2, "inspect", "matmul/cuda_wmma", says=["shipped kernels: ", "matmul/cuda_wgmma"])

    def test_a_file_that_is_no_code(self):
        text = self.tmp / "notes.txt"
        text.write_text("hello\nworld\n")
        self.refused(2, "inspect", text, says="neither machine code nor a listing")
        self.refused(2, "inspect", self.tmp / "nothing.cubin", says="nothing.cubin: No such file")

    def test_a_matrix_kernel_on_the_wrong_path(self):
        listing = self.tmp / "gemm.sass"
        listing.write_text(".text.my_gemm:\n/*0000*/ FFMA R0, R1, R2, R0 ;\n/*0010*/ EXIT ;\n")
        self.refused(1, "inspect", listing, says="wrong path: no matrix instruction")

    def test_assembly_has_the_class_of_every_instruction_beside_it(self):
        listing = self.tmp / "sum.sass"
        listing.write_text(".text.sum:\n/*0000*/ MOV R1, R2 ;\n.L_0:\n/*0010*/ LDG.E.128 R4, [R2] ;\n/*0020*/ @P0 BRA `(.L_0) ;\n/*0030*/ EXIT ;\n")
        printed = self.ridge("inspect", listing, "--assembly").stdout
        self.assertRegex(printed, r"(?m)^  \.L_0:\n +0x10  \| LDG\.E\.128 R4, \[R2\] +load_global 128$")
        self.assertRegex(printed, r"(?m)^ +0x30  EXIT +control$")
        self.assertNotIn("0x30  EXIT", self.ridge("inspect", listing).stdout)
        self.refused(2, "inspect", listing, "--assembly", "--diff", listing, says="--assembly and --diff: name one")


class Workspace(Base):
    def test_a_kernel_becomes_a_workspace(self):
        kernel = self.tmp / "mine.cpp"
        kernel.write_text("// a kernel\n")
        self.refused(2, "workspace", "init", self.tmp / "w0", says=["--kernel FILE", "--platform", "--language"])
        made = self.ridge("workspace", "init", self.tmp / "w1", "m=4096", "n=4096", "k=4096", "dtype=bf16", "--op", "gemm", "--kernel", kernel,
                          "--platform", "H200", "--language", "c++")
        self.assertEqual(made.returncode, 0, made.stderr)
        readme = (self.tmp / "w1" / "README.md").read_text()
        for section in ("Task Context", "Hardware Spec", "Roofline", "Stop Conditions", "ISA Targets"):
            self.assertIn(f"## {section}", readme)
        self.assertIn("matrix_bf16: 989.4 TFLOPS <- derived/h200.md:H200", readme)
        self.assertEqual(self.ridge("spec", "lint", self.tmp / "w1" / "README.md").returncode, 0)
        log = subprocess.run(["git", "-C", self.tmp / "w1", "status", "--short"], capture_output=True, text=True, check=True)
        self.assertEqual(log.stdout, "")
        for left in ("profiles/v1/deep.ncu-rep", "kernel.ptx", "build/kernel.o", "memory/.lock"):
            (self.tmp / "w1" / left).parent.mkdir(parents=True, exist_ok=True)
            (self.tmp / "w1" / left).write_text("")
        log = subprocess.run(["git", "-C", self.tmp / "w1", "status", "--short"], capture_output=True, text=True, check=True)
        self.assertEqual(log.stdout, "")
        self.refused(7, "workspace", "init", self.tmp / "w1", "--kernel", kernel, "--platform", "H200", "--language", "c++", says="exists already")

    def workspace(self, name, kernel=ROOT / "src/ops/gemm/cpu_plain.cpp", language="c++", platform="this"):
        made = self.ridge("workspace", "init", name, "m=64,128", "n=64", "k=64", "--op", "gemm", "--kernel", kernel, "--platform", platform,
                          "--language", language)
        self.assertEqual(made.returncode, 0, made.stderr)
        return self.tmp / name

    def test_from_a_kernel_to_a_campaign_in_two_commands(self):
        folder = self.workspace("two")
        done = self.ridge("optimize", "--workspace", "two", "--yes", "--budget", "120s", "--max-iterations", "2", "--max-foreign-load", "1",
                          "--max-steal", "1")
        self.assertIn(done.returncode, (0, 8), done.stdout + done.stderr)
        campaign = next((folder / "campaigns").iterdir())
        manifest = (campaign / "manifest.yaml").read_text()
        self.assertIn("workspace: ../..", manifest)
        # Every target shows the measured number that it rests on, in the manifest and in the report.
        fact = "<- fma_f32 measured with 1 thread"
        self.assertEqual(manifest.count("<- "), 2)
        self.assertIn("no call is faster than", (campaign / "report/REPORT.md").read_text())
        self.assertTrue(fact in manifest or "<- read_bandwidth measured" in manifest, manifest)
        for _ in range(3):  # a machine that seems to favour an arm pauses a campaign; it is measured again when resumed
            if done.returncode == 0:
                break
            self.assertEqual(done.returncode, 8, done.stdout + done.stderr)
            self.assertIn("Paused; continue with: ridge campaign resume ", done.stderr.splitlines()[-1])
            done = self.ridge("campaign", "resume", campaign, "--wait-for-quiet", "0s")
        if done.returncode == 8:
            self.skipTest("this machine favours an arm: " + done.stdout[-200:])
        # A number at the end, however busy the machine is.
        self.assertIn("Baseline: ", done.stdout)
        self.assertIn("Smallest gain that about 15 sessions decide", done.stdout)
        self.assertFalse((campaign / "memory").exists())
        records = self.json("memory", "summary", "--workspace", "two")
        rounds = len(list((campaign / "rounds").iterdir()))
        self.assertEqual([r["version"] for r in records], [f"v{i}" for i in range(rounds)])
        self.assertEqual(records[0]["optimization"]["action_category"], "baseline")
        self.assertEqual(self.ridge("memory", "validate", "--workspace", "two").returncode, 0)
        self.assertEqual(self.ridge("campaign", "verify", campaign).returncode, 0)
        # Every version is committed with its kernel and, but for the baseline, its plan, accepted or not.
        left = subprocess.run(["git", "status", "--short"], cwd=folder, capture_output=True, text=True, check=True).stdout
        self.assertEqual(left, "")
        kept = subprocess.run(["git", "ls-files"], cwd=folder, capture_output=True, text=True, check=True).stdout.split()
        for number in range(rounds):
            self.assertTrue(any(path.startswith(f"versions/v{number}/") for path in kept), kept)
            self.assertEqual(f"plans/v{number}_plan.md" in kept, number > 0, kept)
        self.assertIn("baseline_report.md", kept)
        # What is exported for another tool is valid by our own schema.
        self.assertEqual(self.ridge("campaign", "export", campaign, "--format", "atrex", "--out", "exported").returncode, 0)
        found = self.ridge("memory", "validate", "--workspace", "exported")
        self.assertEqual(found.returncode, 0, found.stdout)
        self.refused(7, "baseline", "--workspace", "two", says="has a baseline")

    def test_a_baseline_is_checked_measured_and_committed(self):
        folder = self.workspace("base")
        made = self.json("baseline", "--workspace", "base", "--budget", "10s")
        self.assertEqual(made["version"], "v0")
        shapes = sorted(made["performance"]["latency_us_by_shape"])
        self.assertEqual([shape.split(" dtype=")[0] for shape in shapes], ["m=128 n=64 k=64", "m=64 n=64 k=64"])
        self.assertIn("## Baseline", (folder / "README.md").read_text())
        self.assertEqual(len(json.loads((folder / "profiles/v0/bench.json").read_text())["bench"]), 2)
        status = subprocess.run(["git", "-C", folder, "status", "--short"], capture_output=True, text=True, check=True)
        self.assertEqual(status.stdout, "")

    def test_a_wrong_kernel_has_no_baseline(self):
        kernel = self.tmp / "wrong.cpp"
        text = (ROOT / "src/ops/gemm/cpu_plain.cpp").read_text()
        kernel.write_text(text.replace("sum += p.a", "sum -= p.a"))
        self.assertNotEqual(kernel.read_text(), text)
        folder = self.workspace("bad", kernel)
        self.refused(1, "baseline", "--workspace", "bad", says="wrong.cpp is WRONG")
        self.assertFalse((folder / "memory/v0.json").exists())

    def test_what_a_workspace_cannot_do_here_is_said(self):
        self.refused(2, "optimize", "gemm", "--workspace", "w", says="names operator, cases and kernel itself")
        self.refused(2, "optimize", says="--workspace DIR")
        self.refused(2, "baseline", "--workspace", self.tmp, says="ridge workspace init")
        kernel = self.tmp / "hip.cpp"
        kernel.write_text("// a kernel\n")
        self.workspace("hip", kernel, "hip", "MI300X")
        self.refused(3, "baseline", "--workspace", "hip", says="no engine here runs HIP")
        self.workspace("gpu_targets", platform="H200")
        self.refused(3, "optimize", "--workspace", "gpu_targets", "--yes", says="--platform this")
        self.workspace("cuda", ROOT / "data/candidates/gemm_bf16_tiled.cu", "cuda", "H200")
        self.assertEqual(self.ridge("spec", "lint", self.tmp / "cuda/README.md").returncode, 0)
        self.assertIn("memory_bandwidth: 4.8 TB/s <- nvidia/h200-datasheet.md:H200 SXM", (self.tmp / "cuda/README.md").read_text())
        self.workspace("cuda_for_amd", ROOT / "data/candidates/gemm_bf16_tiled.cu", "cuda", "MI300X")
        self.refused(3, "baseline", "--workspace", "cuda_for_amd", says="a cuda kernel runs on a GPU of NVIDIA's")

    def test_a_gpus_workspace_rests_on_its_ceilings_and_cites_its_documents(self):
        cache = self.tmp / "gpu-cache"
        cache.mkdir()
        row = {"threads": 1, "samples": [1.0], "method": "as recorded", "device": "NVIDIA H200, GPU-1, driver 580"}
        rows = [{"name": "matrix_bf16", "unit": "FLOP/s", "value": 780e12}, {"name": "fma_f32", "unit": "FLOP/s", "value": 65e12},
                {"name": "read_bandwidth", "unit": "B/s", "value": 4.6e12}, {"name": "l2_bandwidth", "unit": "B/s", "value": 8e12}]
        (cache / "ceilings-cuda.json").write_text(json.dumps([{**row, **one} for one in rows]))
        flags = ["--cache-dir", cache]
        axes = self.json("roofline", "gemm", "m=4096", "n=4096", "k=4096", "dtype=bf16", "--on", "cuda", *flags)[0]["axes"]
        self.assertEqual([a["peak"] for a in axes[:2]], [780e12, 4.6e12])
        self.assertEqual(axes[0]["cited"], "matrix_bf16: 989.4 TFLOPS <- derived/h200.md:H200")
        made = self.ridge("workspace", "init", "gpu_here", "m=4096", "n=4096", "k=4096", "dtype=bf16", "--op", "gemm", "--kernel",
                          ROOT / "data/candidates/gemm_bf16_tiled.cu", "--platform", "this", "--language", "cuda", *flags)
        self.assertEqual(made.returncode, 0, made.stderr)
        readme = (self.tmp / "gpu_here/README.md").read_text()
        self.assertIn("matrix_bf16 measured on NVIDIA H200, GPU-1, driver 580", readme)
        self.assertIn("memory_bandwidth: 4.8 TB/s <- nvidia/h200-datasheet.md:H200 SXM", readme)
        self.assertIn("ridge check gemm --candidate gemm_bf16_tiled.cu", readme)
        self.assertEqual(self.ridge("spec", "lint", self.tmp / "gpu_here/README.md").returncode, 0)

    @unittest.skipIf(shutil.which("nvidia-smi"), "a machine without a GPU is meant")
    def test_a_workspace_of_a_gpus_kernel_needs_the_gpu(self):
        self.workspace("gpu", ROOT / "data/candidates/gemm_bf16_tiled.cu", "cuda", "H200")
        self.refused(3, "baseline", "--workspace", "gpu", says="CUDA")
        self.refused(3, "optimize", "--workspace", "gpu", "--yes", says="cuda")
        self.refused(3, "workspace", "init", "cuda_here", "m=64", "n=64", "k=64", "--op", "gemm", "--kernel",
                     ROOT / "data/candidates/gemm_bf16_tiled.cu", "--platform", "this", "--language", "cuda", says="CUDA")

    def test_what_is_not_known_is_said(self):
        kernel = self.tmp / "norm.cu"
        kernel.write_text("// a kernel\n")
        self.assertEqual(self.ridge("workspace", "init", self.tmp / "w2", "--kernel", kernel, "--platform", "H200", "--language", "cuda").returncode, 0)
        self.assertIn("TBD", (self.tmp / "w2" / "README.md").read_text())


class Memory(Base):
    def test_a_round_is_kept_masked_and_hidden(self):
        for verb in (["init"], ["create", "--set", "quality_gate.failure_reason=too slow"],
                     ["create", "--set", "performance.latency_us=9.5", "--set", "quality_gate.result=PASS", "--set",
                      "correctness.status=PASS", "--set", "git_commit_hash=1234567"],
                     ["create", "--set", "quality_gate.failure_reason=wrong"]):
            self.assertEqual(self.ridge("memory", *verb, "--workspace", self.tmp / "w").returncode, 0, verb)
        self.assertEqual(self.json("memory", "read", "v1", "--workspace", self.tmp / "w")["git_commit_hash"], "1234567")
        self.refused(7, "memory", "mask", "v1", "--workspace", self.tmp / "w", says="best")
        self.assertEqual(self.ridge("memory", "mask", "v2", "--workspace", self.tmp / "w").returncode, 0)
        self.assertEqual([r["version"] for r in self.json("memory", "summary", "--workspace", self.tmp / "w")], ["v0", "v1"])
        self.refused(2, "memory", "update", "v1", "--workspace", self.tmp / "w", "--set", "performance.latency_us=nan", says="latency_us")


class OwnPages(Base):
    def test_knowledge_pages_of_ones_own_lie_beside_those_that_are_shipped(self):
        own = self.tmp / "pages"
        (own / "ops").mkdir(parents=True)
        entry = "+++\ntitle = \"Ours\"\nbottleneck = [\"memory\"]\n+++\n\nProse.\n\n## Tiles of a quokka\n- Category: tile\n- Applies: always\n" \
                "- Mechanism: reuse\n- Signal: fewer loads\n- Evidence: untested\n"
        (own / "ours.md").write_text(entry)
        path = f"/dev/null/none:{own}"
        self.refused(1, "tips", "search", "quokka", says="0 of 0 found")
        self.assertIn("page ours#tiles-of-a-quokka", self.ridge("tips", "search", "quokka", RIDGE_KNOWLEDGE_PATH=own).stdout)
        self.assertIn("page ops/gemm#", self.ridge("tips", "search", "tile", RIDGE_KNOWLEDGE_PATH=own).stdout)
        self.refused(2, "tips", "search", "quokka", says=["/dev/null/none", "RIDGE_KNOWLEDGE_PATH"], RIDGE_KNOWLEDGE_PATH=path)
        (own / "ours.md").write_text(entry.replace("- Signal: fewer loads\n", ""))
        self.refused(1, "spec", "lint", says="ours.md", RIDGE_KNOWLEDGE_PATH=own)


class BadInput(Base):
    def test_unknown_operator(self):
        self.refused(2, "bench", "gemmm", "m=8", says=["gemmm", "gemm"])

    def test_unknown_parameter(self):
        self.refused(2, "ops", "explain", "gemm", "m=8", "n=8", "k=8", "colour=red", says="colour")

    def test_word_that_is_no_parameter(self):
        self.refused(2, "bench", "gemm", "512", says="512")

    def test_negative_shape(self):
        self.refused(2, "check", "gemm", "m=-1", "n=8", "k=8", says="-1")

    def test_a_size_beyond_any_memory_names_the_bound(self):
        for size in (10**18, 2**64, 10**30):
            self.refused(2, "bench", "gemm", f"m={size}", "n=8", "k=8", says=[f"m={size}", str(2**40)])
        self.refused(2, "bench", "gemm", f"m={2**40}", f"n={2**40}", "k=8", says=[str(2**40), "at most", "can be addressed"])

    def test_a_case_without_work_has_no_share_of_a_roof(self):
        for words in (("m=0", "n=64", "k=64"), ("m=64", "n=0", "k=64")):
            row = self.json("bench", "gemm", *words, "--impl", "cpu_simd", "--samples", "8")["bench"][0]
            self.assertEqual((row["outcome"], row["roofline_fraction"], row["flops"]), ("PASS", 0, 0))

    def test_unknown_dtype(self):
        self.refused(2, "check", "gemm", "m=8", "n=8", "k=8", "dtype=fp7", says="fp7")

    def test_a_shape_that_no_memory_holds_says_how_much_it_needs(self):
        self.refused(1, "bench", "gemm", "m=4000000", "n=4000000", "k=4000000", says=["192000000000000 bytes", "that are available"])

    def test_too_many_cases(self):
        values = ",".join(map(str, range(200)))
        self.refused(2, "bench", "gemm", f"m={values}", f"n={values}", "k=8", says="10000")

    def test_unknown_flag(self):
        self.refused(2, "bench", "gemm", "--fast", says="--fast")

    def test_unknown_subcommand(self):
        self.refused(2, "optimise", says="optimise")

    def test_unknown_proposer(self):
        self.refused(2, "optimize", "gemm", "--yes", "--proposer", "oracle", says=["oracle", "search"])

    def test_unknown_backend(self):
        self.refused(2, "optimize", "gemm", "--yes", "--on", "abacus", says=["abacus", "cpu"])

    def test_prose_target(self):
        self.refused(2, "optimize", "gemm", "--yes", "--target", "as fast as you can", says="as fast as you can")

    def test_bad_budget(self):
        for budget in ("5", "five minutes", "-3s", "0s"):
            self.refused(2, "optimize", "gemm", "--yes", f"--budget={budget}", says=budget)

    def test_bad_iterations(self):
        self.refused(2, "optimize", "gemm", "--yes", "--max-iterations", "120", says="120")
        self.refused(2, "optimize", "gemm", "--yes", "--max-iterations", "0", says="0")

    def test_unknown_implementation(self):
        self.refused(2, "bench", "gemm", "m=8", "n=8", "k=8", "--impl", "cpu_magic", says="cpu_magic")

    def test_forced_implementation_of_the_environment_that_does_not_exist(self):
        self.refused(2, "ops", "explain", "gemm", "m=8", "n=8", "k=8", says="cpu_magic", RIDGE_GEMM_BACKEND="cpu_magic")

    def test_campaign_that_does_not_exist(self):
        for verb in ("status", "resume", "stop", "report", "verify", "replay"):
            self.refused(2, "campaign", verb, "no-such-campaign", says="no-such-campaign")

    def test_missing_candidate_file(self):
        self.refused(2, "check", "gemm", "--candidate", "no-such.cpp", says="no-such.cpp")

    def test_bad_define(self):
        (self.tmp / "k.cpp").write_text("int x;\n")
        self.refused(2, "check", "gemm", "--candidate", "k.cpp", "-D", "MR", says="MR")

    def test_read_only_place(self):
        self.refused(5, "optimize", "gemm", "--yes", "--directory", "/proc/ridge-campaign", says="/proc/ridge-campaign")


class Projects(Base):
    """The two shipped examples, from handoff to a verified end."""

    def follow(self, example, op):
        project = ROOT / "examples" / example
        before = {p: p.read_bytes() for p in project.rglob("*") if p.is_file()}
        ready = self.ridge("handoff", op, "--project", project)
        self.assertEqual(ready.returncode, 0, ready.stdout + ready.stderr)
        self.assertIn("Ready", ready.stdout)
        folder = self.tmp / example
        done = self.ridge("optimize", op, "--project", project, "--yes", "--quiet", "--directory", folder, "--proposer",
                          f"command:python3 -B {project}/propose.py")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for audit in ("verify", "replay", "rules"):
            found = self.ridge("campaign", audit, folder)
            self.assertEqual(found.returncode, 0, audit + found.stdout + found.stderr)
        self.assertEqual({p: p.read_bytes() for p in project.rglob("*") if p.is_file()}, before)
        self.said = self.ridge("campaign", "status", folder).stdout + (folder / "logs/optimize.md").read_text()
        return self.json("campaign", "status", folder)["rounds"]

    def test_the_cpp_project(self):
        rounds = self.follow("project_cpp", "rowsum")
        self.assertEqual([r["state"] for r in rounds], ["accepted", "rolled back"], self.said)
        self.assertEqual(rounds[1]["outcome"], "WRONG")

    def test_few_planned_decisions_are_bound_into_the_manifest(self):
        project, folder = ROOT / "examples/project_cpp", self.tmp / "planned"
        self.refused(2, "optimize", "rowsum", "--project", project, "--planned", "0", says="--planned 0: 1 to 120 are possible")
        drafted = self.ridge("optimize", "rowsum", "--project", project, "--planned", "2", "--directory", folder)
        self.assertIn("at most 5 % in 2 decisions", drafted.stderr)
        self.assertIn("max_decisions: 2", (folder / "manifest.yaml").read_text())

    def test_a_project_with_tunables_is_swept_without_an_agent(self):
        project = self.tmp / "tuned"
        shutil.copytree(ROOT / "examples/project_cpp", project)
        source = project / "src/rowsum.cpp"
        block = ('/* ridge-tunables\n[[tunable]]\nname = "BY_ROWS"\nvalues = [0, 1]\ndefault = 0\ntitle = "walk along the rows"\n*/\n'
                 "#define BY_ROWS 0\n")
        text = source.read_text().replace("void rowsum(", block + "void rowsum(", 1)
        source.write_text(text.replace("  for (std::size_t i = 0; i < rows; ++i) out[i] = 0;\n",
                                       "  for (std::size_t i = 0; i < rows; ++i) out[i] = 0;\n  if (BY_ROWS) {\n"
                                       "    for (std::size_t i = 0; i < rows; ++i) {\n      for (std::size_t j = 0; j < columns; ++j) "
                                       "out[i] += in[i * columns + j];\n    }\n    return;\n  }\n"))
        done = self.ridge("optimize", "rowsum", "--project", project, "--yes", "--quiet", "--directory", self.tmp / "swept",
                          "--max-iterations", "2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rounds = self.json("campaign", "status", self.tmp / "swept")["rounds"]
        self.assertLessEqual(len(rounds), 2)
        self.assertNotIn("HARNESS_FAULT", [r["outcome"] for r in rounds], done.stdout)
        self.assertEqual(self.ridge("campaign", "verify", self.tmp / "swept").returncode, 0)
        source.write_text(source.read_text().replace("#define BY_ROWS 0", "#define BY_ROW 0"))
        self.refused(1, "handoff", "rowsum", "--project", project, says="BY_ROWS is defined nowhere")
        self.refused(2, "optimize", "rowsum", "--project", project, "--yes", "--directory", self.tmp / "never", says="BY_ROWS is defined nowhere")
        self.assertFalse((self.tmp / "never").exists())

    def test_the_python_project_and_its_cache_that_is_refused(self):
        rounds = self.follow("project_python", "matmul")
        self.assertEqual([r["state"] for r in rounds], ["accepted"], self.said)

    def test_a_commit_of_a_project_is_extracted(self):
        top, folder = self.tmp / "repository", self.tmp / "draft"
        project = top / "python"
        shutil.copytree(ROOT / "examples/project_python", project)

        def git(*words):
            return subprocess.run(["git", "-C", top, "-c", "user.name=n", "-c", "user.email=e", *words], check=True, capture_output=True,
                                  text=True).stdout.strip()

        workspace = ("--project", project, "--mode", "workspace")
        self.refused(2, "optimize", "matmul", "--project", project, "--mode", "branch", says="--mode branch is not repo or workspace")
        self.refused(2, "optimize", "gemm", "--mode", "repo", says="--mode repo is for a project")
        self.refused(2, "optimize", "matmul", *workspace, says="git init")
        git("init", "--quiet", "--initial-branch=main")
        git("add", ".")
        git("commit", "--quiet", "-m", "start")
        ready = self.ridge("handoff", "matmul", *workspace)
        self.assertEqual(ready.returncode, 0, ready.stdout + ready.stderr)
        self.assertIn(f"all files of {project} at {git('rev-parse', '--short=12', 'HEAD')}", ready.stdout)
        kernel = project / "kernel.py"
        kernel.write_text(kernel.read_text() + "# edited\n")
        for verb in ("handoff", "optimize"):
            self.refused(7, verb, "matmul", *workspace, says="not committed: kernel.py")
            here = subprocess.run([RIDGE, verb, "matmul", "--project", ".", "--mode", "workspace"], cwd=project, env=self.environment,
                                  capture_output=True, text=True)
            self.assertEqual(here.returncode, 7, here.stdout + here.stderr)
            self.assertIn("not committed: kernel.py", here.stdout + here.stderr)
        git("commit", "--quiet", "-a", "-m", "edited")
        self.refused(7, "optimize", "matmul", *workspace, "--directory", folder, says="waits for confirmation")
        manifest = (folder / "manifest.yaml").read_text()
        self.assertIn("execution_mode: workspace", manifest)
        self.assertIn(f"upstream_commit: {git('rev-parse', 'HEAD')}", manifest)
        self.assertEqual((folder / "project/kernel.py").read_text(), kernel.read_text())
        self.assertEqual(git("status", "--short"), "")

    def test_a_project_that_does_not_work_is_not_ready(self):
        self.refused(2, "handoff", "matmul", "--project", self.tmp, says="ridge-project.toml")
        self.refused(2, "handoff", "gemm", "--project", ROOT / "examples/project_python", says="matmul")

    def test_a_metric_that_the_table_lacks_is_refused_with_what_it_has(self):
        python = ("optimize", "matmul", "--project", ROOT / "examples/project_python", "--yes", "--directory", self.tmp / "never")
        for metric in ("combined_step_tflops", "latency_p99", "column:Tokens/s:higher"):
            self.refused(2, *python, "--metric", metric, says="gives forward_tflops,latency, or column:NAME")
        self.refused(2, *python, "--metric", "speed", says="combined_step_tflops")
        self.refused(2, "optimize", "gemm", "--metric", "latency", says="for the table of a project")
        self.refused(2, *python, "--target", "step 700 TFLOPS", says="does not record")
        self.refused(2, *python, "--target", "latency > 20 us", says="of latency less is better")
        self.assertFalse((self.tmp / "never").exists())


class Tune(Base):
    def test_tunes_once_keeps_and_dispatch_follows(self):
        shapes = self.tmp / "shapes.txt"
        shapes.write_text("# two of one bucket, one of another\nm=64 n=64 k=64\nm=65 n=64 k=64  # near it\nm=256 n=64 k=64\n")
        ship = self.tmp / "ship/this.jsonl"
        first = self.json("tune", "gemm", "--shapes", shapes, "dtype=f32", "--keep-disturbed", "--ship", ship)
        self.assertEqual([dict((p["name"], p["value"]) for p in line["bucket"]["params"])["m"] for line in first], ["64", "256"])
        self.assertEqual(len(ship.read_text().splitlines()), 2)
        table = next((self.tmp / "cache/tuned").glob("*.jsonl"))
        kept = table.read_text()
        self.assertEqual(self.json("tune", "gemm", "--shapes", shapes, "dtype=f32", "--keep-disturbed"), first)
        self.assertEqual(table.read_text(), kept)  # nothing was measured again
        # Dispatch takes what the table names, also from a table that was shipped.
        chosen = "cpu_simd" if first[0]["implementation"] != "cpu_simd" else "reference"
        ship.write_text(ship.read_text().replace(f'"implementation":"{first[0]["implementation"]}"', f'"implementation":"{chosen}"'))
        table.unlink()
        rows = self.json("ops", "explain", "gemm", "m=64", "n=64", "k=64", RIDGE_TUNED_DIR=str(ship.parent))[0]["rows"]
        self.assertEqual([(row["implementation"], row["reason"][:29]) for row in rows if row["chosen"]], [(chosen, "preferred by the tuned table ")])

    def test_forgets_what_it_kept(self):
        shapes = self.tmp / "shapes.txt"
        shapes.write_text("m=64 n=64 k=64\n")
        self.json("tune", "gemm", "--shapes", shapes, "--keep-disturbed")
        self.assertTrue(list((self.tmp / "cache/tuned").glob("*.jsonl")))
        done = self.ridge("tune", "--forget")
        self.assertEqual((done.returncode, done.stdout.split(" ")[:3]), (0, ["1", "table", "forgotten"]), done.stderr)
        self.assertFalse(list((self.tmp / "cache/tuned").glob("*.jsonl")))
        self.assertEqual(self.ridge("tune", "--forget").returncode, 0)
        self.refused(2, "tune", says="no operator")

    def test_replays_a_search_on_recorded_measurements(self):
        def row(block, layout, unroll, value, invalidity="correct"):
            return {"configuration": {"block": block, "layout": layout, "unroll": unroll}, "times": {"compilation": 100, "runtimes": [1, 1]},
                    "invalidity": invalidity, "measurements": [{"name": "time", "value": value}], "objectives": ["time"]}
        rows = [row(2**i, layout, unroll, 1 + abs(i - 6) + 0.1 * j + 0.2 * abs(unroll - 4), "compile" if i > 8 else "correct")
                for i in range(10) for j, layout in enumerate(["nn", "nt", "tt"]) for unroll in range(1, 9)]
        cache, problem = self.tmp / "scale_T4.json", self.tmp / "scale_T1.json"
        cache.write_text(json.dumps({"metadata": {"timeunit": "miliseconds"}, "results": rows}))
        problem.write_text(json.dumps({"ConfigurationSpace": {"TuningParameters": [
            {"Name": "block", "Values": "[2**i for i in range(0, 10)]"}, {"Name": "layout", "Values": "['nn', 'nt', 'tt']"}, {"Name": "unroll", "Values": "list(range(1, 9))"}],
            "Conditions": [{"Expression": "block <= 512"}]}}))
        table, curves = self.tmp / "replay.csv", self.tmp / "curves.csv"
        report = self.json("tune", "replay", cache, "--strategy", "ours", "--strategy", "random", "--seeds", "20", "--score",
                           "--space", problem, "--csv", table, "--curves", curves)
        ours, random = report["rows"]
        self.assertEqual((ours["configurations"], ours["failing"], ours["strategy"]), (240, 24, "ours"))
        self.assertGreater(ours["score_per_evaluation"], random["score_per_evaluation"])
        with open(table) as file:
            self.assertEqual([line["strategy"] for line in csv.DictReader(file)], ["ours", "random"])
        with open(curves) as file:
            self.assertEqual(len(list(csv.DictReader(file))), 2 * ours["evaluations"])
        # What another device measured, the recording itself left out; and runs of other searches, by the same formula.
        other, runs = self.tmp / "other_T4.json", self.tmp / "runs.jsonl"
        other.write_text(cache.read_text().replace('"value": ', '"value": 1'))
        best = min((one["measurements"][0]["value"], number) for number, one in enumerate(rows) if one["invalidity"] == "correct")[1]
        runs.write_text(json.dumps({"recording": "scale_T4", "strategy": "theirs", "seed": 1, "rows": [best]}) + "\n")
        helped, theirs = self.json("tune", "replay", cache, "--seeds", "20", "--score", "--past", other, "--past", cache, "--runs", runs)["rows"]
        self.assertEqual((helped["strategy"], theirs["strategy"], theirs["score_per_evaluation"]), ("ours with past", "theirs", 1))
        self.assertGreater(helped["score_per_evaluation"], ours["score_per_evaluation"])
        runs.write_text(runs.read_text().replace(str(best), "240"))
        self.refused(2, "tune", "replay", cache, "--runs", runs, says=["runs.jsonl", "theirs, seed 1: row 240 of 240"])
        other.write_text(other.read_text()[:-30])
        self.refused(2, "tune", "replay", cache, "--past", other, says=["other_T4.json", "interrupted"])
        # Another kernel's cache, a problem that nothing satisfies, a copy that was cut short, a strategy that is none.
        problem.write_text(problem.read_text().replace("layout", "order"))
        self.refused(2, "tune", "replay", cache, "--space", problem, says=["scale_T4.json", "no parameter order"])
        problem.write_text(problem.read_text().replace("block <= 512", "block > 600 and block < 700"))
        self.refused(2, "tune", "replay", cache, "--space", problem, says=["no configuration satisfies", "block in 1, 2, 4"])
        cache.write_text(cache.read_text()[:-30])
        self.refused(2, "tune", "replay", cache, says=["scale_T4.json", "interrupted"])
        cache.write_text(json.dumps({"results": [*rows, rows[0]]}))
        self.refused(2, "tune", "replay", cache, says="result 1 and result 241 are the same configuration: block=1 layout=nn unroll=1")
        cache.write_text(json.dumps({"results": rows}))
        self.refused(2, "tune", "replay", cache, "--strategy", "annealing", says="known: ours, random, local")

    def test_keeps_measurements_and_gives_them_back(self):
        rows = [{"configuration": {"block": 2**i}, "times": {"compilation": 100, "runtimes": [1]}, "invalidity": "correct" if i else "compile",
                 "measurements": [{"name": "time", "value": 1.5 + i}], "objectives": ["time"]} for i in range(6)]
        recording, back = self.tmp / "kept_T4.json", self.tmp / "back_T4.json"
        recording.write_text(json.dumps({"results": rows}))
        self.refused(2, "tune", "import", recording, says=["names no kernel", "--kernel NAME"])
        words = ["--kernel", "kept", "--device", "one"]
        self.assertEqual([self.json("tune", "import", recording, *words)[key] for key in ("added", "measurements")], [6, 6])
        self.assertEqual(self.json("tune", "import", recording, *words)["added"], 0)
        self.assertEqual(self.json("tune", "export", back, "--kernel", "kept")["measurements"], 6)
        search = ["--seeds", "3", "--score"]
        was, now = (self.json("tune", "replay", file, *search)["rows"][0] for file in (recording, back))
        self.assertEqual((was["curve"], was["failing"]), (now["curve"], now["failing"]))
        rows[2]["measurements"][0]["value"] = 8
        recording.write_text(json.dumps({"results": rows}))
        self.refused(2, "tune", "import", recording, *words, says=["row 3 (block=4) is 0.008 s, and the store has 0.0035 s", "--clocks"])
        self.json("tune", "import", recording, "--kernel", "kept", "--device", "two")
        self.refused(2, "tune", "export", back, "--kernel", "kept", says=["2 circumstances", "one; clocks unknown; compiler unknown | two"])
        self.assertEqual(self.json("tune", "export", back, "--kernel", "kept", "--device", "two")["device"], "two")
        self.refused(2, "tune", "export", back, "--kernel", "none", says="nothing is stored of kernel none")

    def test_figures_of_a_busy_machine_are_not_kept(self):
        shapes = self.tmp / "shapes.txt"
        shapes.write_text("m=192 n=192 k=192\n")
        self.assertEqual(self.ridge("tune", "--forget").returncode, 0)  # what an earlier test kept
        burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
        try:
            tuned = self.ridge("tune", "gemm", "--shapes", shapes, "--json")
            self.assertEqual(tuned.returncode, 1, tuned.stderr)
            self.assertIn("others used", json.loads(tuned.stdout)[0]["disturbed"])
            self.assertFalse(list((self.tmp / "cache/tuned").glob("*.jsonl")))
            ceilings = self.json("ceilings")
            self.assertIn("others used", ceilings[0]["disturbed"])
            self.assertFalse(list((self.tmp / "cache").glob("ceilings-*")))
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()

    def test_a_file_may_name_several_operators(self):
        shapes = self.tmp / "shapes.txt"
        shapes.write_text("gemm m=32,48 n=32 k=32\nquantize rows=64 cols=64\n")
        lines = self.json("tune", "all", "--shapes", shapes, "--time-limit", "60s", "--keep-disturbed")
        self.assertEqual([line["bucket"]["op"] for line in lines], ["gemm", "gemm", "quantize"])
        self.assertEqual(len(self.json("tune", "quantize", "--shapes", shapes, "--keep-disturbed")), 1)
        self.refused(2, "tune", "all", says="--shapes data/shapes/training.txt")
        self.refused(2, "tune", "gemm_fp8", "--shapes", shapes, says="holds no case of gemm_fp8")
        shapes.write_text("m=32 n=32 k=32\n")
        self.refused(2, "tune", "all", "--shapes", shapes, says="names no operator")

    def test_what_cannot_be_tuned_is_said(self):
        self.refused(2, "tune", "gemm", "--on", "tpu", says=["tpu", "--on cpu"])
        self.refused(2, "tune", "gemm", "--shapes", "/dev/null", says="/dev/null is a device, not a file")
        with tempfile.NamedTemporaryFile() as empty:
            self.refused(2, "tune", "gemm", "--shapes", empty.name, says="holds no case")
        self.refused(2, "tune", "gemm", "--time-limit", "soon", says="soon")
        self.refused(2, "tune", "gemms", says="gemm")


class Output(Base):
    def test_help_has_examples_and_exit_codes(self):
        result = self.ridge("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("Exit codes", result.stdout)
        for name in ("optimize", "bench", "compare", "calibrate", "check", "ops explain", "ceilings", "doctor", "campaign verify"):
            result = self.ridge(*name.split(), "--help")
            self.assertEqual(result.returncode, 0, name)
            self.assertIn("Examples", result.stdout, name)

    def test_json_is_the_only_thing_on_standard_output(self):
        self.assertTrue(self.json("ops", "list"))
        self.assertTrue(self.json("doctor")["capabilities"])
        self.assertTrue(self.json("list")["proposers"])

    def test_doctor_looks_at_the_python_front_end(self):
        fake = self.tmp / "site" / "torch"
        fake.mkdir(parents=True)
        (fake / "__init__.py").write_text("__version__ = '9.9.0'\nfrom . import version\n")
        (fake / "version.py").write_text("cuda = hip = None\n")
        rows = {row["name"]: row for row in self.json("doctor", PYTHONPATH=str(fake.parent))["capabilities"]}
        self.assertTrue(rows["Python"]["available"])
        self.assertIn("9.9.0 (CPU only)", rows["PyTorch"]["detail"])
        self.assertFalse(rows["ridgeline.torch"]["available"])
        self.assertIn("this is torch 9.9.0", rows["ridgeline.torch"]["detail"] + rows["ridgeline.torch"]["remedy"])

    def test_explain_walks_the_list_for_a_gpu_too(self):
        rows = {row["implementation"]: row for row in self.json("ops", "explain", "gemm", "dtype=bf16", "--on", "cuda")[0]["rows"]}
        self.assertIn("the stream is cuda", rows["cpu_simd"]["reason"])
        self.assertFalse(rows["reference"]["supported"])
        self.refused(2, "ops", "explain", "gemm", "--on", "tpu", says="tpu")

    def test_explain_names_every_refusal(self):
        rows = self.json("ops", "explain", "gemm", "m=8", "n=8", "k=8")[0]["rows"]
        self.assertEqual(sum(row["chosen"] for row in rows), 1)
        self.assertTrue(all(row["reason"] for row in rows))

    def test_bench_gives_raw_samples_and_tables(self):
        report = self.json("bench", "gemm", "m=32:64:*2", "n=64", "k=64", "--impl", "cpu_simd", "--vs", "reference",
                           "--time-limit", "10s", "--samples", "8", "--out", "t.csv", "--out", "t.md", "--out", "t.json")
        rows = report["bench"]
        self.assertEqual([(row["label"].split()[0], row["subject"]) for row in rows],
                         [("m=32", "reference"), ("m=32", "cpu_simd"), ("m=64", "reference"), ("m=64", "cpu_simd")])
        self.assertTrue(all(len(row["samples"]) >= 8 and row["sessions"] >= 2 for row in rows))
        self.assertTrue(all(row["ratio_low"] <= row["ratio"] <= row["ratio_high"] for row in rows))
        self.assertIn("cpu.model", report["environment"]["facts"])
        self.assertTrue((self.tmp / "t.csv").read_text().startswith("label,"))
        self.assertIn("cpu_simd", (self.tmp / "t.md").read_text())
        self.assertEqual(json.loads((self.tmp / "t.json").read_text())["bench"][0]["samples"], rows[0]["samples"])
        again = self.ridge("bench", "gemm", "m=32", "n=64", "k=64", "--impl", "cpu_simd", "--time-limit", "5s", "--samples", "8",
                           "--baseline", "t.json", "--tolerance", "1000")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("Not paired", again.stdout)

    def test_absurd_benchmarks(self):
        shape = ("m=8", "n=8", "k=8")
        self.refused(2, "bench", "gemm", *shape, "--samples", "-3", says="-3")
        self.refused(2, "bench", "gemm", *shape, "--min-time", "1e9", says="3600")
        self.refused(2, "bench", "gemm", *shape, "--mode", "tepid", says=["tepid", "cold or warm"])
        self.refused(2, "bench", "gemm", *shape, "--format", "xml", says=["xml", "csv"])
        self.refused(2, "bench", "gemm", *shape, "--out", "t.xlsx", says=["t.xlsx", ".csv"])
        self.refused(2, "bench", "gemm", "m=9:3:1", "n=8", "k=8", says=["m=9:3:1", "runs backwards"])
        self.refused(2, "bench", "gemm", *shape, "--vs", "nobody", says="nobody")
        # An implementation that was asked for and can run nothing is said, with its reason: no header, no library, no such type.
        f16 = (*shape, "dtype=f16")
        self.refused(3, "bench", "gemm", *f16, "--vs", "cpu_onednn", says="cpu_onednn can run none of these cases: ")
        self.refused(3, "bench", "gemm", *f16, "--impl", "cpu_onednn", says="cpu_onednn can run none of these cases: ")
        self.refused(3, "check", "gemm", *f16, "--impl", "cpu_onednn", says="cpu_onednn can run none of these cases: ")
        if not shutil.which("nvidia-smi"):
            self.refused(3, "check", "gemm", *shape, "--impl", "cuda_simt", says="CUDA")
        self.refused(2, "bench", "gemm", *shape, "--threads", "4096", says="4096")
        self.refused(2, "bench", "gemm", *shape, "-D", "MR=4", says="--candidate")
        (self.tmp / "no.json").write_text("{}")
        self.refused(2, "bench", "gemm", *shape, "--baseline", "no.json", says="no.json")

    def test_compare_never_accepts_a_quick_look_and_calibrate_reports_noise(self):
        shape = ("m=24", "n=24", "k=24")
        look = self.ridge("--json", "compare", "gemm", *shape, "--incumbent", PLAIN, "--candidate", PLAIN, "--quick-look")
        self.assertEqual(look.returncode, 1, look.stderr)
        document = json.loads(look.stdout)
        self.assertFalse(document["decision"]["accepted"])
        reason = document["decision"]["reason"]
        self.assertTrue("no control of errors" in reason or "every session was void" in reason, reason)
        found = self.ridge("--json", "calibrate", "gemm", *shape, "--sessions", "8", "--time-limit", "4s", "--candidate", PLAIN,
                           "--decisions", "2")
        self.assertTrue(found.stdout, found.stderr)
        report = json.loads(found.stdout)
        self.assertEqual(report["false_accepts"], 0)
        self.assertEqual(len(report["decisions"]), 2)
        usable = sum(not session["voided"] for session in report["sessions"])
        self.assertEqual(report["calibration"]["sessions"], usable)
        if usable > 2:  # a busy machine voids them
            self.assertGreater(report["calibration"]["noise"], 0)
        self.refused(2, "calibrate", "gemm", "--sessions", "2", says="2")
        self.refused(2, "compare", "gemm", "--incumbent", "a.cpp", "--candidate", "b.cpp", says="a.cpp")


PLAIN = ROOT / "src/ops/gemm/cpu_plain.cpp"


class Candidates(Base):
    """What a candidate can do wrong, and the word that must be said about it."""

    def check(self, body, word, code=1):
        source = ("#include <cstdint>\n#include <cstdlib>\n#include <ridge/candidate.h>\n"
                  'extern "C" int ridge_kernel(const ridge_call* call) {\n' + body + "\n}\n")
        (self.tmp / "candidate.cpp").write_text(source)
        result = self.ridge("check", "gemm", "m=33", "n=17", "k=9", "--candidate", "candidate.cpp")
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        words = (word,) if isinstance(word, str) else word
        self.assertTrue(any(w in result.stdout + result.stderr for w in words), result.stdout + result.stderr)
        return result

    def test_shipped_one_is_right(self):
        result = self.ridge("check", "gemm", "m=33", "n=17", "k=9", "--candidate", PLAIN)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_does_not_compile(self):
        result = self.check("return undeclared_name;", "COMPILE")
        self.assertIn("undeclared_name", result.stdout + result.stderr)

    def test_crashes(self):
        self.check("*(volatile int*)8 = 1; return 0;", "CRASH")

    def test_leaves_the_output_untouched(self):
        self.check("(void)call; return 0;", "WRONG")

    def test_may_not_end_its_process(self):
        self.check("exit(0);", "it imports exit")

    def test_allocates_without_end(self):
        self.check("static char* volatile kept; while (true) { char* p = new char[1 << 26]; "
                   "for (int i = 0; i < 1 << 26; i += 4096) p[i] = 1; kept = p; }", ("OOM", "CRASH"))


class AgentFiles(Base):
    """Every command of AGENTS.md and the skill exists, with its flags; those that need nothing are run."""

    FILES = ["AGENTS.md", "skills/ridgeline/SKILL.md"]
    RUN = ["ridge doctor", "ridge roofline gemm m=512 n=512 k=512 --on H200", "ridge tips search spill --op gemm", "ridge spec show H200"]

    def commands(self):
        for name in self.FILES:
            for block in re.findall(r"```sh\n(.*?)```", (ROOT / name).read_text(), re.S):
                yield from ((name, shlex.split(line, comments=True)) for line in block.splitlines())

    def test_they_exist_with_their_flags(self):
        manual = {tuple(entry["path"]): entry for entry in self.json("help")}
        found = 0
        for name, words in self.commands():
            found += 1
            if words[0] != "ridge":
                self.assertTrue((ROOT / words[0]).is_file(), f"{name}: {words[0]}")
                for flag in (word for word in words[1:] if word.startswith("--")):
                    self.assertIn(flag, (ROOT / words[0]).read_text(), f"{name}: {words}")
                continue
            path = ()
            while tuple(words[1:len(path) + 2]) in manual and len(path) + 1 < len(words):
                path = tuple(words[1:len(path) + 2])
            self.assertTrue(path and not manual[path]["group"], f"{name}: {words}")
            flags = {flag for entry in (manual[path], manual[()]) for option in entry["options"] for flag in option["flags"]}
            for flag in (word for word in words if word.startswith("-")):
                self.assertIn(flag, flags, f"{name}: {words}")
        self.assertGreater(found, 20)

    def test_the_page_of_operators_has_all_of_them_and_no_dead_link(self):
        page = ROOT / "docs/operators/README.md"
        for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            self.assertTrue((page.parent / link).exists(), link)
        listed = set(re.findall(r"^\| `(\w+)` \|", page.read_text(), re.M))
        names = {each["name"] for each in self.json("ops", "list")}
        self.assertEqual(listed, {name for name in names if name.removesuffix("_backward") not in names - {name}})

    def test_those_that_need_nothing_work(self):
        written = [" ".join(words) for _, words in self.commands()]
        for command in self.RUN:
            self.assertIn(command, written)
            done = self.ridge(*shlex.split(command)[1:])
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Documents(Base):
    """What the documents show is what happens."""

    def first_block(self, document, language):
        text = (ROOT / document).read_text()
        return text.split(f"```{language}\n", 1)[1].split("```", 1)[0]

    def commands(self):
        # ridge check ... --candidate FILE, in a block or in backquotes; a name that is no file is the documents' own kernel.
        for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
            for found in re.finditer(r"ridge (check [^`\n|#]*--candidate [^`\n|#]+)", document.read_text()):
                words = shlex.split(found.group(1).split("   ")[0])
                if not words[-1].endswith(".cu"):  # a GPU's: tests/cheats/cuda has them
                    yield document.name, words

    def test_their_kernel_passes_their_command(self):
        (self.tmp / "mine.cpp").write_text(self.first_block("docs/candidates.md", "cpp"))
        commands = list(self.commands())
        self.assertIn(("candidates.md", ["check", "gemm", "--candidate", "mine.cpp"]), commands)
        for words in {tuple(words) for _, words in commands}:
            result = self.ridge(*words)
            self.assertEqual(result.returncode, 0, f"{words}: {result.stdout}{result.stderr}")
            self.assertRegex(result.stdout, r"mine: \d+ cases, \d+ passed, 0 failed, \d+ not claimed")

    def test_a_shipped_kernel_claims_what_it_computes(self):
        result = self.ridge("check", "gemm", "--candidate", PLAIN)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("not claimed", result.stdout)


class Checks(Base):
    def candidate(self, body, scope=""):
        (self.tmp / "k.cpp").write_text("#include <ridge/candidate.h>\n" + scope +
                                        'extern "C" int ridge_kernel(const ridge_call* call) {\n' + body + "\n}\n")
        return "k.cpp"

    def test_a_failure_prints_the_command_that_repeats_it(self):
        result = self.ridge("check", "gemm", "m=9", "n=8", "k=5", "--candidate", self.candidate("(void)call; return 0;"))
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        command = re.search(r"repeat it: (ridge check gemm m=9 .*--candidate k.cpp --seed \d+)$", result.stdout, re.M)
        self.assertTrue(command, result.stdout)
        wrong = [line for line in result.stdout.splitlines() if "WRONG" in line]
        again = self.ridge(*shlex.split(command.group(1))[1:])
        self.assertEqual([line for line in again.stdout.splitlines() if "WRONG" in line], wrong)

    def test_a_kernel_that_declines_everything_has_not_passed(self):
        result = self.ridge("check", "gemm", "m=9", "n=8", "k=5", "--candidate", self.candidate("(void)call; return 1;"))
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("1 declined", result.stdout)
        self.assertIn("nothing was checked", result.stdout)

    def test_the_summary_says_what_was_verified(self):
        result = self.ridge("check", "gemm", "m=9", "n=8", "k=5", "--impl", "cpu_simd", "--seed", "5")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"verified: 1 cases with up to 8 families of inputs, \d+ calls, \d+ outputs element by "
                                        r"element; .* in at most \de-\d+ of such runs; seed 5")

    def test_a_campaign_outside_the_scope_is_refused_before_it_starts(self):
        kernel = self.candidate("return 0;", '/* ridge-scope\nlayout = ["nt"]\n*/\n')
        self.refused(2, "optimize", "gemm", "m=9", "n=8", "k=5", "layout=nn", "--kernel", kernel, "--yes", "--budget", "5s",
                     says=["does not claim", "layout=nn is outside its scope (nt)"])
        self.assertFalse((self.tmp / "campaigns").exists())


class Campaign(Base):
    """A short real campaign: it accepts what is better, survives kill -9, refuses a second process, verifies and replays.

    What it accepts is not looked at, so a busy machine voids nothing here."""

    def start(self, name, *more):
        return subprocess.Popen([RIDGE, "optimize", "gemm", "--on", "cpu", "--yes", "--budget", "75s", "--max-iterations", "3",
                                 "--max-foreign-load", "1", "--max-steal", "1",
                                 "--directory", name, *more], cwd=self.tmp, env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def wait_for_events(self, name, count, process):
        journal = self.tmp / name / "journal.jsonl"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if journal.exists() and journal.read_bytes().count(b"\n") >= count:
                return
            time.sleep(0.05)
        self.assertIsNone(process.poll(), f"ended early: {process.communicate()}")

    def test_kill_resume_verify_replay(self):
        process = self.start("killed")
        self.wait_for_events("killed", 8, process)
        self.refused(7, "campaign", "resume", "killed", says=str(process.pid))
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = (self.tmp / "killed/journal.jsonl").read_bytes()
        result = self.ridge("campaign", "resume", "killed")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        after = (self.tmp / "killed/journal.jsonl").read_bytes()
        whole = before[: before.rfind(b"\n") + 1]
        self.assertTrue(after.startswith(whole), "the journal lost what it had")
        self.assertEqual(self.ridge("campaign", "verify", "killed").returncode, 0)
        self.assertEqual(self.ridge("campaign", "replay", "killed").returncode, 0)
        self.assertIn("REPORT.html", " ".join(p.name for p in (self.tmp / "killed/report").iterdir()))
        self.reported_commands_work("killed")
        self.quick_script_gives_the_table("killed")
        self.kernel_leaves("killed")
        self.refused(7, "campaign", "stop", "killed", says="has ended")
        self.refused(7, "campaign", "stop-after", "killed", "--rounds", "9", says="has ended")
        self.forgery_is_found("killed")

    def reported_commands_work(self, name):
        """Those of the page in the campaign's folder, wherever that is by now; the one of the terminal where the user is."""
        page = re.sub("<[^>]*>", "", (self.tmp / name / "report/REPORT.html").read_text())  # as it is read
        for command in ("ridge campaign verify .", "ridge campaign replay ."):
            self.assertIn(command, page)
            done = subprocess.run([RIDGE, *command.split()[1:]], cwd=self.tmp / name, env=self.environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        again = self.ridge("campaign", "resume", name)
        self.assertIn(f"ridge campaign verify {name}", again.stdout)

    def quick_script_gives_the_table(self, name):
        """Of the kernel that was accepted last, and of one that is wrong."""
        script, table = self.tmp / name / "quick_test_bench.py", self.tmp / "quick.csv"
        command = [sys.executable, "-B", script, "--summary-csv", table]
        done = subprocess.run(command, env={**self.environment, "RIDGE": str(RIDGE)}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        frozen = (self.tmp / name / "rounds/round-1/artifacts/benchmark.csv").read_bytes()
        self.assertEqual(table.read_bytes().split(b"\r\n")[0], frozen.split(b"\r\n")[0])
        ours, theirs = (list(csv.DictReader(text.decode().splitlines())) for text in (table.read_bytes(), frozen))
        for column in ("label", "B", "M", "N", "K", "Check"):
            self.assertEqual([row[column] for row in ours], [row[column] for row in theirs])
        for row in ours:
            self.assertGreater(float(row["Forward TFLOPS"]), 0)
            self.assertGreaterEqual(float(row["Forward TFLOPS_stddev"]), 0)
        wrong = subprocess.run([*command, "--shapes", ours[0]["label"], "--kernel", ROOT / "tests/cheats/cpu/drops_last_row.cpp"],
                               env={**self.environment, "RIDGE": str(RIDGE)}, capture_output=True, text=True)
        self.assertEqual(wrong.returncode, 1, wrong.stdout + wrong.stderr)
        self.assertEqual([row["Check"] for row in csv.DictReader(table.read_text().splitlines())], ["FAIL"])

    def kernel_leaves(self, name):
        rows = self.json("campaign", "list", self.tmp)
        row = next(r for r in rows if r["name"] == name)
        self.assertEqual(row["state"], "finished")
        self.assertIn(f"{row['speedup']:.3f}x", self.ridge("campaign", "list", ".").stdout)
        if row["accepted"] == 0:
            self.refused(7, "campaign", "export-kernel", name, says="the baseline stands")
            return
        summary = self.json("campaign", "export-kernel", name, "--out", "fast.cpp")
        self.assertAlmostEqual(summary["speedup"], row["speedup"])
        text = (self.tmp / "fast.cpp").read_text()
        self.assertIn(summary["compile"], text)
        for define in summary["configuration"].split():
            macro, value = define.split("=")
            self.assertIn(f"#define {macro} {value}\n", text)
        self.refused(7, "campaign", "export-kernel", name, "--out", "fast.cpp", says="exists already")
        check = self.ridge("check", "gemm", "m=33", "n=65", "k=17", "--candidate", "fast.cpp")
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)

    def forgery_is_found(self, name):
        trend = self.tmp / name / "logs/performance_trend.md"
        original = trend.read_text()
        trend.write_text(original.replace("1", "9", 1))
        self.refused(1, "campaign", "verify", name, says="performance_trend.md")
        trend.write_text(original)
        journal = self.tmp / name / "journal.jsonl"
        text = journal.read_text()
        half = len(text) // 2  # a busy machine may have decided nothing: then one digit is another
        for told, forged in (('"accepted":false', '"accepted":true'), ('"accepted":true', '"accepted":false'), (text[half:], text[half:].replace("1", "2", 1))):
            if told in text:
                journal.write_text(text.replace(told, forged, 1))
                break
        self.assertNotEqual(journal.read_text(), text)
        result = self.ridge("campaign", "verify", name)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("line", result.stdout + result.stderr)
        journal.write_text(text)


class ByHand(Base):
    def propose(self, *words, **extra):
        return self.ridge("campaign", "propose", "c", *words, **extra)

    def test_rounds_by_hand_and_of_the_search_take_turns(self):
        stated = ("--title", "wider vectors", "--reason", "the inner loop is scalar", "--expect", "2%")
        self.refused(2, "campaign", "propose", "c", "--defines", "VECTOR=8", *stated, says="holds no campaign")
        started = self.ridge("optimize", "gemm", "m=96", "n=96", "k=96", "--proposer", "manual", "--yes", "--quiet", "--budget", "240s",
                             "--max-foreign-load", "1", "--max-steal", "1", "--directory", "c")
        self.assertEqual(started.returncode, 8, started.stderr)
        self.assertIn("ridge campaign propose c", started.stdout)
        # Nothing of a refused proposal is recorded.
        before = (self.tmp / "c/journal.jsonl").read_bytes()
        broken = self.tmp / "broken.cpp"
        broken.write_text("int missing_semicolon\n")
        self.refused(2, "campaign", "propose", "c", *stated, says=["--kernel or --defines", "ridge campaign propose DIR"])
        self.refused(2, "campaign", "propose", "c", "--defines", "VECTOR", *stated, says=["VECTOR is not NAME=INTEGER", "--defines MR=6,NV=2"])
        self.refused(2, "campaign", "propose", "c", "--defines", "VECTOR=8", *stated[2:], says="--title is missing")
        for expect in ("much", "8", "-3%", "0.1%", "1000000%"):
            self.refused(2, "campaign", "propose", "c", "--defines", "VECTOR=8", *stated[:4], f"--expect={expect}", says="--expect 8%")
        self.refused(2, "campaign", "propose", "c", "--defines", "NO_SUCH=1", *stated, says="NO_SUCH")
        self.refused(7, "campaign", "propose", "c", "--give-up", says="no round of c is open")
        self.assertEqual((self.tmp / "c/journal.jsonl").read_bytes(), before)
        # A kernel that does not build leaves its round open, with the compiler's error and two ways out.
        plain = (ROOT / "src/ops/gemm/cpu_plain.cpp").read_text()
        broken.write_text(plain + "\nthis does not compile\n")
        failed = self.propose("--kernel", "broken.cpp", *stated, "--by", "ada")
        self.assertEqual(failed.returncode, 2, failed.stdout + failed.stderr)
        for text in ("COMPILE", "error", "--give-up", "3 more attempts"):
            self.assertIn(text, failed.stderr)
        done = self.propose("--give-up", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(json.loads(done.stdout)["state"], "rolled back")
        # A round by values of tunables, then one of the search.
        done = self.propose("--defines", "VECTOR=8", *stated, "--json")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        round_by_hand = json.loads(done.stdout)
        self.assertEqual(round_by_hand["proposer"], "manual")
        self.assertEqual(round_by_hand["changed"], {"VECTOR": 8})
        turn = self.ridge("campaign", "resume", "c", "--proposer", "search", "--rounds", "1", "--quiet")
        self.assertIn(turn.returncode, (0, 8), turn.stderr)
        for check in ("verify", "replay"):
            result = self.ridge("campaign", check, "c")
            self.assertEqual(result.returncode, 0, result.stdout)
        who = [one["proposer"] for one in self.json("campaign", "status", "c")["rounds"]]
        self.assertEqual(who[:3], ["manual:ada", "manual", "search"])
        # A round that is not begun is told its own reason, not that of an answer that was refused before.
        refusing = self.ridge("campaign", "resume", "c", "--proposer", "command:false", "--quiet")
        self.assertIn("gave no usable answer", refusing.stdout + refusing.stderr)
        self.ridge("campaign", "stop", "c")
        late = self.refused(7, "campaign", "propose", "c", "--defines", "VECTOR=4", *stated, says="was not begun: T4")
        self.assertNotIn("refused:", late.stderr)
        self.refused(7, "campaign", "propose", "c", "--defines", "VECTOR=4", *stated, says=["has ended", "ridge campaign extend c"])

    def test_a_file_of_a_project_replaces_the_source_of_its_name_and_brings_no_other_header(self):
        project = self.tmp / "p"
        shutil.copytree(ROOT / "examples/project_cpp", project)
        handoff = project / "ridge-project.toml"
        handoff.write_text(handoff.read_text().replace('kernel = ["src/rowsum.cpp"]', 'kernel = ["src/other.cpp", "src/rowsum.cpp"]'))
        (project / "src/other.cpp").write_text("int other;\n")
        started = self.ridge("optimize", "rowsum", "--project", project, "--proposer", "manual", "--yes", "--quiet", "--directory", "of-project")
        self.assertEqual(started.returncode, 8, started.stderr)
        mine = project / "src/rowsum.cpp"
        self.assertIn('#include "rowsum.h"', mine.read_text())
        mine.write_text(mine.read_text() + "\nthis does not compile\n")
        failed = self.ridge("campaign", "propose", "of-project", "--kernel", mine, "--title", "by rows", "--reason", "each line is used once", "--expect", "50%")
        self.assertEqual(failed.returncode, 2, failed.stdout + failed.stderr)
        self.assertIn("COMPILE", failed.stderr)
        done = self.ridge("campaign", "propose", "of-project", "--give-up", "--json")
        sources = {one["path"]: one["text"] for one in json.loads(done.stdout)["candidate"]["sources"]}
        self.assertEqual(sources, {"src/other.cpp": "int other;\n", "src/rowsum.cpp": mine.read_text()})

    def test_a_look_is_quick_and_no_decision(self):
        plain = ROOT / "src/ops/gemm/cpu_plain.cpp"
        began = time.monotonic()
        look = self.json("try", plain, "m=96", "n=96", "k=96", "-D", "VECTOR=8")
        self.assertLess(time.monotonic() - began, 20)
        self.assertFalse(look["decision"])
        self.assertGreater(look["sessions"], 0)
        self.assertLessEqual(look["ratio_low"], look["ratio"])
        self.assertLessEqual(look["ratio"], look["ratio_high"])
        (self.tmp / "other.cpp").write_text(plain.read_text())
        began = time.monotonic()
        said = self.ridge("try", plain, "m=96", "n=96", "k=96", "-D", "VECTOR=8", "--vs", "other.cpp")
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertRegex(said.stdout, r"cpu_plain is \d+\.\d+x as fast as other \(interval .* to .*, \d+ sessions? of each shape")
        self.assertIn("no decision", said.stdout)
        self.refused(2, "try", plain, "--vs", plain, says="are the same kernel")
        (self.tmp / "nameless.cpp").write_text("int f();\n")
        self.refused(2, "try", "nameless.cpp", says="--op gemm")
        self.refused(1, "try", "nameless.cpp", "m=8", "n=8", "k=8", "--op", "gemm", says="no decision")


class StartingKernels(Base):
    """What campaigns of these operators start from on a processor, with every tunable at work."""

    CASES = {"quantize": ["rows=131", "cols=300", "scaling=1x128", "dtype=f32,bf16", "format=e4m3fn,e5m2", "copies=both"],
             "dequantize": ["rows=131", "cols=300", "scaling=row,128x128", "dtype=f32,bf16", "format=e4m3fn,e5m2"],
             "gemm_fp8": ["m=67", "n=131", "k=333", "scaling=block,vector", "dtype=e5m2_e4m3fn", "out=f32,bf16"],
             "rmsnorm": ["rows=33", "cols=1000", "dtype=f32,bf16", "rstd=0,1"]}
    TUNABLES = {"quantize": [[], ["BLOCK=16", "VECTOR=4", "RECIPROCAL=1", "THREADS=4"]],
                "dequantize": [[], ["TABLE=1", "UNROLL=4"], ["VECTOR=4", "UNROLL=2", "THREADS=4"]],
                "gemm_fp8": [[], ["UNPACK=1", "VECTOR=4", "MR=2", "NR=3", "PANEL=32", "THREADS=4"]],
                "rmsnorm": [[], ["VECTOR=4", "UNROLL=2", "KEEP=1", "WIDE_WEIGHT=1", "PREFETCH=8", "THREADS=4"]]}

    def test_they_are_right(self):
        for op, case in self.CASES.items():
            for defines in self.TUNABLES[op]:
                words = [word for one in defines for word in ("-D", one)]
                said = self.ridge("check", op, *case, "--candidate", ROOT / f"src/ops/{op}/cpu_plain.cpp", *words, "--threads", "2")
                self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
                self.assertIn(" 0 failed", said.stdout)

    def test_campaigns_find_them_and_ask(self):
        for op in self.CASES:
            said = self.ridge("optimize", op, "--directory", self.tmp / op, "--no-git")
            self.assertIn("shipped with ridge: cpu_plain.cpp", said.stdout + said.stderr)
            self.assertNotIn("no kernel for", said.stderr)
            metric = "forward_tflops" if op == "gemm_fp8" else "forward_gbps"  # the memory bounds the others
            self.assertIn(f"primary_metric: {metric}", (self.tmp / op / "manifest.yaml").read_text())


class Kernels(Base):
    def test_a_pack_is_built_listed_and_verified(self):
        pack = self.tmp / "mine.pack"
        case = ["gemm", "m=64", "n=64", "k=64", "dtype=bf16", "layout=nt"]
        built = self.ridge("kernels", "build", *case, "--out", "mine.pack", "--json")  # from where the caller is
        if built.returncode == 3:
            self.skipTest(built.stderr.strip())
        made = json.loads(built.stdout)
        self.assertEqual(sorted(kernel["source"] for kernel in made["kernels"]), ["ops/matmul/cuda_simt.cu", "ops/matmul/cuda_wgmma.cu"])
        self.assertEqual(made["header"]["arch"], "sm_90a")
        self.assertEqual(self.json("kernels", "list", pack), made)
        self.assertEqual(self.json("kernels", "verify", pack), [])
        again = pack.read_bytes()
        self.json("kernels", "build", *case, "--out", pack)
        self.assertEqual(pack.read_bytes(), again)
        # A byte of the code.
        pack.write_bytes(again[:-100] + bytes([again[-100] ^ 1]) + again[-99:])
        self.refused(1, "kernels", "verify", pack, says="does not have the digest it was packed with")
        # Sources of another library.
        key = made["kernels"][0]["key"]
        pack.write_bytes(again.replace(key.encode(), key[::-1].encode()))
        self.refused(1, "kernels", "verify", pack, says="made from other sources than this library's")
        self.refused(2, "kernels", "list", self.tmp / "none.pack", says="none.pack: No such file")
        self.refused(2, "kernels", "build", "gemm", "m=64", "dtype=f8", "--out", pack, says="dtype")

    def test_every_kernel_compiles_where_it_is_run(self):
        """NVRTC refuses what nvcc takes, as a generic lambda without an execution space."""
        shapes = self.tmp / "shapes.txt"
        first = [(each["name"], each["params"][0]) for each in self.json("ops", "list") if any(name.startswith("cuda_") for name in each["implementations"])]
        if not first:
            self.skipTest("a build without the CUDA backend")
        # Sources that the default cases do not take: heads beyond 128, short sequences, and rows off 16 bytes.
        others = ("attention_backward dim=192 v_dim=128", "attention_backward heads=2 kv_heads=2 q_len=64 k_len=64 dim=64", "gemm m=64 n=64 k=65 dtype=bf16 layout=nt")
        shapes.write_text("".join(f"{name} {param['name']}={param['default']}\n" for name, param in first) + "\n".join(others) + "\n")
        built = self.ridge("kernels", "build", "all", "--shapes", shapes, "--out", self.tmp / "all.pack", "--json")
        if built.returncode == 3:
            self.skipTest(built.stderr.strip())
        self.assertEqual(built.returncode, 0, built.stderr)
        described = sorted(str(path.relative_to(ROOT / "src")) for path in (ROOT / "src/ops").rglob("*.cu") if "ridge-kernel" in path.read_text())
        self.assertEqual(sorted({kernel["source"] for kernel in json.loads(built.stdout)["kernels"]}), described)

    def test_packs_for_several_architectures(self):
        case = ["quantize", "rows=256", "cols=256", "dtype=bf16", "scaling=row"]
        built = self.ridge("kernels", "build", *case, "--arch", "sm_90a,sm_89", "--out", self.tmp / "q.pack", "--json")
        if built.returncode == 3:
            self.skipTest(built.stderr.strip())
        self.assertEqual(built.returncode, 0, built.stderr)
        made = json.loads(built.stdout)
        self.assertEqual([one["header"]["arch"] for one in made], ["sm_90a", "sm_89"])
        self.assertEqual(self.json("kernels", "list", self.tmp / "q-sm_89.pack"), made[1])
        self.assertEqual(self.json("kernels", "verify", self.tmp / "q-sm_90a.pack"), [])
        self.assertFalse({one["key"] for one in made[0]["kernels"]} & {one["key"] for one in made[1]["kernels"]})
        self.assertFalse((self.tmp / "q.pack").exists())

    def test_architectures_that_cannot_be_compiled_for(self):
        known = "sm_89 Ada .*sm_90a Hopper .*sm_120a"
        for arch, why in (("sm_90", "asks for: sm_90a"), ("sm_80", "older than every kernel"), ("gfx942", "CUDA kernels alone"),
                          ("hopper", "is no architecture"), ("sm_90a,sm_90a", "there twice"), ("sm_130a", "not known to this version")):
            said = self.refused(2, "kernels", "build", "gemm", "m=64", "--arch", arch, says=why)
            if "twice" not in why:
                self.assertRegex(" ".join(said.stderr.split()), known)
        self.refused(2, "kernels", "build", "gemm", "m=64", "--arch", "", says="is no architecture")
        # A product of f32 on Ada is a library's.
        said = self.ridge("kernels", "build", "gemm", "m=64", "--arch", "sm_89")
        if said.returncode == 3:
            self.skipTest(said.stderr.strip())
        self.assertEqual(said.returncode, 2, said.stderr)
        self.assertIn("cuda_simt", said.stderr)


if __name__ == "__main__":
    unittest.main()
