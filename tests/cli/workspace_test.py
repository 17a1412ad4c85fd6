#!/usr/bin/env python3
"""`ridge workspace init --reference`: what can judge a kernel becomes a workspace whose harness finds wrong kernels, and what cannot
is refused with its reason.  workspace_test.py RIDGE [PYTHON with PyTorch]"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import unittest

RIDGE = pathlib.Path(sys.argv.pop(1)).resolve()
PYTHON = pathlib.Path(sys.argv.pop(1)).absolute() if len(sys.argv) > 1 and "/" in sys.argv[1] else pathlib.Path(sys.executable)


def has(module):
    return subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True).returncode == 0


TORCH = has("torch")
TRITON = TORCH and has("triton")
NEEDS_TORCH = unittest.skipUnless(TORCH, "PyTorch is not importable")

MODEL = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, out):
        super().__init__()
        self.linear = nn.Linear(features, out)

    def forward(self, x, scale):
        return torch.softmax(self.linear(x) * scale, dim=1)


def get_inputs():
    return [torch.randn(16, 24), 0.5]


def get_init_inputs():
    return [24, 12]
"""
KERNEL_CPP = """#include <cmath>
void model(const float* in0, double in1, const float* weight, const float* bias, float* out, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) {
    float sum = 0;
    for (int j = 0; j < 12; ++j) {
      float value = bias[j];
      for (std::int64_t p = 0; p < columns; ++p) value += in0[i * columns + p] * weight[j * columns + p];
      sum += out[i * 12 + j] = std::exp(value * static_cast<float>(in1));
    }
    for (int j = 0; j < 12; ++j) out[i * 12 + j] /= sum;
  }
}
"""
SCALE_REFERENCE = """/* ridge-reference
function = "scale"
sizes = ["rows", "columns"]
inputs = ["x: rows columns", "by: columns in 0.5 2"]
outputs = ["out: rows columns"]
sums = "columns"
flop = "2 rows columns"
*/
void scale(const double* x, const double* by, double* out, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < columns; ++j) sum += x[i * columns + j] * by[j];
    for (std::int64_t j = 0; j < columns; ++j) out[i * columns + j] = x[i * columns + j] * by[j] + sum;
  }
}
"""
SCALE_KERNEL = SCALE_REFERENCE[SCALE_REFERENCE.index("*/") + 3:].replace("double", "float")


class Base(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tmp = pathlib.Path(directory.name)
        (self.tmp / "bin").mkdir()
        (self.tmp / "bin/python3").write_text(f'#!/bin/sh\nexec "{PYTHON}" "$@"\n')
        (self.tmp / "bin/python3").chmod(0o755)
        self.environment = {**os.environ, "RIDGE_CACHE_DIR": str(self.tmp / "cache"), "XDG_CONFIG_HOME": str(self.tmp / "config"),
                            "PATH": f"{self.tmp / 'bin'}:{os.environ['PATH']}"}

    def ridge(self, *arguments, timeout=800, **extra):
        return subprocess.run([RIDGE, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, cwd=self.tmp,
                              env={**self.environment, **extra}, stdin=subprocess.DEVNULL)

    def write(self, name, text):
        (self.tmp / name).write_text(text)
        return name

    def init(self, *flags, code=0, name="w", **extra):
        result = self.ridge("workspace", "init", name, *flags, **extra)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        if code:
            self.assertFalse((self.tmp / name).exists(), "a refusal leaves a folder behind")
        return result.stdout + result.stderr

    def harness(self, *arguments, name="w", code=0):
        result = subprocess.run([PYTHON, "-B", "test_kernel.py", *map(str, arguments)], cwd=self.tmp / name, capture_output=True, text=True,
                                timeout=300)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def git(self, *arguments, name="w"):
        return subprocess.run(["git", *arguments], cwd=self.tmp / name, capture_output=True, text=True, check=True).stdout


PRODUCT = ("--platform", "Sapphire Rapids")  # of the database: no ceiling is measured for it


class Flags(Base):
    """Refused before the reference runs: without PyTorch, too."""

    def test_what_is_not_said_is_asked_for(self):
        self.write("model.py", MODEL)
        self.write("ref.cpp", SCALE_REFERENCE)
        self.write("test_kernel.py", "")
        self.write("scale.cpp", SCALE_KERNEL)
        cpp = ("--reference", "ref.cpp", "--kernel", "scale.cpp", "--language", "c++", "--platform", "this")
        for flags, says in ((("--reference", "model.py:Model"), "--language"),
                            (("--reference", "model.py", "--language", "cuda", "--platform", "H200"), "--kernel FILE"),
                            (("--reference", "model.py", "--language", "rust", "--platform", "H200"), "--kernel FILE"),
                            (("--kernel", "scale.cpp", "--language", "triton", "--platform", "H200"), "--reference"),
                            (("--reference", "none.py", "--language", "python", "--platform", "this"), "none.py"),
                            (("--reference", "model.txt", "--kernel", "scale.cpp", "--language", "c++", "--platform", "this"), "no .py"),
                            (("--reference", "model.py", "--kernel", "model.py", "--language", "python", "--platform", "this"), "two files"),
                            (("--reference", "test_kernel.py", "--kernel", "model.py", "--language", "python", "--platform", "this"),
                             "the reference test_kernel.py has the name of a file that the workspace writes itself"),
                            (cpp, "--shapes LABEL=rowsxcolumns"), ((*cpp, "--shapes", "a=4"), "takes rows x columns"),
                            ((*cpp, "--shapes", "a=4x4", "--backward"), "no gradient"),
                            ((*cpp[:-1], "H200", "--shapes", "a=4x4"), "runs no c++ kernel"),
                            (("--reference", "model.py", "--kernel", "scale.cpp", "--language", "cuda", "--platform", "MI300X"), "runs no cuda")):
            said = self.ridge("workspace", "init", "w", *flags)
            self.assertNotEqual(said.returncode, 0, flags)
            self.assertIn(says, said.stderr, flags)
            self.assertFalse((self.tmp / "w").exists(), flags)

    def test_the_comment_of_a_reference_is_read_strictly(self):
        self.write("scale.cpp", SCALE_KERNEL)
        for old, new, says in (("/* ridge-reference", "/* reference", "no ridge-reference comment"), ('"columns"]\ninputs', '"rows"]\ninputs', "twice"),
                               ('"x: rows columns"', '"x: rows depth"', '"depth"'), ('"by: columns in 0.5 2"', '"by: columns in 2 0.5"', "ascending"),
                               ('"out: rows columns"', '"x: rows"', "twice"), ('function = "scale"', "", "function"),
                               ('sums = "columns"', 'sums = "depth"', "depth"), ('flop = "2', 'flop = "many', "many"),
                               ('function = "scale"', 'function = "f();g"', "no name"), ("sums =", "adds =", "unknown key")):
            self.assertIn(old, SCALE_REFERENCE)
            self.write("ref.cpp", SCALE_REFERENCE.replace(old, new, 1))
            self.assertIn(says, self.init("--reference", "ref.cpp", "--kernel", "scale.cpp", "--language", "c++", "--platform", "this",
                                          "--shapes", "a=4x4", code=2))

    def test_unknown_facts_do_not_stop_a_workspace(self):
        self.write("mine.cu", "__global__ void gemm() {}\n")
        for product in ("H20", "MI308X"):
            made = self.ridge("workspace", "init", product, "m=64", "n=64", "k=64", "dtype=bf16", "--op", "gemm", "--kernel", "mine.cu", "--platform",
                              product, "--language", "cuda" if product == "H20" else "hip")
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertIn("UNKNOWN, and recorded as such: ", made.stderr)
            self.assertIn("matrix_bf16", json.loads((self.tmp / product / "workspace.json").read_text())["unknown"])
            readme = (self.tmp / product / "README.md").read_text()
            for words in ("matrix_bf16: UNKNOWN", "asked of you", "Bound by memory", "registers_per_unit", "shared_memory_per_unit"):
                self.assertIn(words, readme)
            self.assertEqual(self.ridge("spec", "lint", self.tmp / product / "README.md").returncode, 0)
        given = self.ridge("workspace", "init", "given", "m=64", "n=64", "k=64", "dtype=bf16", "--op", "gemm", "--kernel", "mine.cu", "--platform",
                           "H20", "--language", "cuda", "--measured", "140TFLOPS")
        self.assertEqual(given.returncode, 0, given.stderr)
        self.assertIn("140.0 TFLOP/s", (self.tmp / "given/README.md").read_text())
        placed = self.ridge("roofline", "gemm", "m=4096", "n=4096", "k=4096", "dtype=bf16", "--on", "H20")
        self.assertEqual(placed.returncode, 0, placed.stderr)
        self.assertIn("UNKNOWN and left out: ", placed.stdout)
        self.assertEqual(self.ridge("roofline", "gemm", "m=64", "n=64", "k=64", "dtype=bf16", "--on", "H20", "--plot", "x.svg").returncode, 3)


@NEEDS_TORCH
class References(Base):
    def refused(self, says, old, new, *flags):
        self.assertIn(old, MODEL)
        self.write("model.py", MODEL.replace(old, new))
        said = self.init("--reference", "model.py:Model", "--language", "python", *PRODUCT, *flags, code=7)
        self.assertIn("cannot judge", said)
        self.assertIn(says, said)

    RESULT = "torch.softmax(self.linear(x) * scale, dim=1)"

    def test_numbers_that_are_not_float64(self):
        self.refused("does not run in float64: RuntimeError", self.RESULT, "self.linear(x.float()) * scale")
        self.refused("output 0 is torch.float32 although", self.RESULT, "(self.linear(x) * scale).float()")

    def test_inputs_that_no_seed_governs(self):
        self.refused("random without a seed", "torch.randn(16, 24)", "torch.randn(16, 24, generator=torch.Generator().manual_seed(time.time_ns()))"
                     .replace("time.time_ns()", "__import__('time').time_ns()"))

    def test_inputs_that_are_always_the_same(self):
        self.refused("same numbers under every seed", "torch.randn(16, 24)", "torch.ones(16, 24)")

    def test_outputs_that_are_no_tensors(self):
        self.refused("output 0 is a float", self.RESULT, "float(self.linear(x).sum())")

    def test_nan_outputs(self):
        self.refused("holds NaN", self.RESULT, "torch.log(self.linear(x))")

    def test_changed_inputs(self):
        self.refused("changes input 0 in place", self.RESULT, "self.linear(x.mul_(2)) * scale")
        self.refused("changes its parameter linear.bias", self.RESULT, "self.linear(x) * scale + self.linear.bias.data.mul_(2)")

    def test_a_reference_that_draws(self):
        self.refused("not deterministic", self.RESULT, "torch.dropout(self.linear(x), 0.5, self.training) * scale")

    def test_a_reference_without_a_gradient(self):
        self.refused("no gradient", self.RESULT, "self.linear(x).argmax(1)", "--backward")

    def test_code_that_fails_and_names_that_are_not_there(self):
        self.refused("model.py has no get_inputs", "def get_inputs", "def inputs")
        self.refused("ValueError: nothing", "    return [24, 12]", "    raise ValueError('nothing')")


@NEEDS_TORCH
class Kernels(Base):
    def workspace(self, kernel, *flags, language="python", model=MODEL, file="mine.py"):
        self.write("model.py", model)
        self.write(file, kernel)
        self.init("--reference", "model.py:Model", "--kernel", file, "--language", language, *PRODUCT, *flags)

    def test_a_module_is_its_own_first_kernel(self):
        self.write("model.py", MODEL)
        self.init("--reference", "model.py:Model", "--language", "python", *PRODUCT, "--backward")
        folder = self.tmp / "w"
        self.assertEqual((folder / "kernel.py").read_text(), MODEL)
        self.assertIn("failed=0", self.harness("--test"))
        self.harness("--summary-csv", "t.csv", "--outputs", "kept")
        self.harness("--verify", "kept")
        self.assertIn("default,PASS", (folder / "t.csv").read_text())
        facts = json.loads(self.harness("--describe").splitlines()[0])["shapes"]["default"]
        self.assertEqual([one["shape"] for one in facts["inputs"]], [[16, 24], []])
        self.assertEqual(facts["bytes"], 4 * (16 * 24 + 12 * 24 + 12 + 16 * 12))
        self.assertEqual(facts["flop"], 2 * 16 * 24 * 12)
        readme = (folder / "README.md").read_text()
        for words in ("weaker", "| linear.weight | float32 | [12, 24] |", "l2_cache", "Stop Conditions"):
            self.assertIn(words, readme)
        self.assertEqual(self.git("status", "--short").strip().splitlines(), ["?? kept", "?? t.csv"])

    def test_wrong_kernels_fail(self):
        same = "out = torch.softmax(self.linear(x) * scale, dim=1)\n        "
        rows = {"wrong": same + "out[3, 0] += 1e-5\n        return out", "nan": same + "return out * float('nan')",
                "coarse": "return torch.softmax(self.linear(x.bfloat16().float()) * scale, dim=1)",
                "shape": same + "return out[:-1]", "dtype": same + "return out.double()", "two": same + "return out, out",
                "input": same + "x.zero_()\n        return out",
                "kept": "key = x.data_ptr()\n        if key not in seen:\n            seen[key] = torch.softmax(self.linear(x) * scale, dim=1)\n"
                        "        return seen[key].clone()"}
        self.workspace(MODEL)
        for name, body in rows.items():
            with self.subTest(name):
                text = MODEL.replace("return " + References.RESULT, body) + "\n\nseen = {}\n"
                (self.tmp / "w/mine.py").write_text(text)
                self.harness("--summary-csv", "t.csv", code=1)

    def test_a_class_has_the_references_parameters_or_is_refused(self):
        self.workspace(MODEL.replace("class Model", "class ModelNew").replace("self.linear", "self.other"))
        self.assertIn("Missing key(s)", self.harness("--summary-csv", "t.csv", code=1))

    def test_a_function_of_operands_and_parameters(self):
        self.workspace("import torch\n\n\ndef fused(x, scale, weight, bias):\n    return torch.softmax((x @ weight.T + bias) * scale, 1)\n", "--backward")
        self.assertIn('called as `mine:fused`', (self.tmp / "w/README.md").read_text())
        self.assertIn("failed=0", self.harness("--test"))

    def test_shapes_reach_get_inputs(self):
        model = MODEL.replace("def get_inputs():", "def get_inputs(rows, columns):").replace("torch.randn(16, 24)", "torch.randn(rows, columns)")
        model = model.replace("def get_init_inputs():", "def get_init_inputs(rows, columns):").replace("return [24, 12]", "return [columns, 12]")
        self.workspace(model, "--shapes", "small=4x8,tall=32x8", "--dtype", "bf16", model=model)
        table = tomllib.loads((self.tmp / "w/ridge-project.toml").read_text())["benchmark"]
        self.assertEqual(table["shapes"], ["small", "tall"])
        self.assertIn("failed=0", self.harness("--test"))
        self.assertIn("| in0 | bfloat16 | [32, 8] |", (self.tmp / "w/README.md").read_text())

    def test_a_right_kernel_passes_on_every_draw(self):
        """Sums in order, of 1024 rows: two looks at what rounding does show next to nothing, by chance, for one row in a few hundred."""
        self.write("ref.cpp", SCALE_REFERENCE)
        self.write("scale.cpp", SCALE_KERNEL)
        self.init("--reference", "ref.cpp", "--kernel", "scale.cpp", "--shapes", "a=1024x512", "--language", "c++", "--platform", "Sapphire Rapids")
        build = tomllib.loads((self.tmp / "w/ridge-project.toml").read_text())["commands"]["build"]
        subprocess.run(build, cwd=self.tmp / "w", check=True)
        self.harness("--summary-csv", "t.csv", "--shapes", "a", "--seed", "1", "--fresh")
        wrong = SCALE_KERNEL.replace("sum += x[i * columns + j] * by[j];", "sum += x[i * columns + j] * by[j];\n    if (i == 5) sum += 4e-4f;")
        self.assertNotEqual(wrong, SCALE_KERNEL)
        self.write("w/scale.cpp", wrong)
        subprocess.run(build, cwd=self.tmp / "w", check=True)
        self.assertIn("512 elements are wrong", self.harness("--summary-csv", "t.csv", "--shapes", "a", "--seed", "1", "--fresh", code=1))

    def test_a_library_is_called_by_the_signature_that_is_written(self):
        self.workspace(KERNEL_CPP, language="c++", file="model.cpp")
        self.assertIn('extern "C" void model(const float* in0, double in1, const float* linear_weight, const float* linear_bias, float* out, '
                      "std::int64_t in0_0, std::int64_t in0_1);", (self.tmp / "w/signature.h").read_text())
        ready = self.ridge("handoff", "--project", "w")
        self.assertEqual(ready.returncode, 0, ready.stdout + ready.stderr)
        (self.tmp / "w/model.cpp").write_text(KERNEL_CPP.replace("double in1", "float in1"))
        other = self.ridge("handoff", "--project", "w")
        self.assertEqual(other.returncode, 1)
        self.assertIn("has no function model with the parameters that signature.h declares", other.stdout)

    @unittest.skipUnless(TRITON, "triton is not importable")
    def test_triton_in_its_interpreter(self):
        kernel = ("import torch\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\ndef twice(x, out, n, BLOCK: tl.constexpr):\n"
                  "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)\n\n\n"
                  "def double(x):\n    out = torch.empty_like(x)\n    twice[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)\n    return out\n")
        self.write("model.py", "import torch\n\n\ndef double(x):\n    return 2 * x\n\n\ndef get_inputs():\n    return [torch.randn(100)]\n")
        self.write("mine.py", kernel)
        self.init("--reference", "model.py:double", "--kernel", "mine.py", "--language", "triton", "--platform", "H200", TRITON_INTERPRET="1")
        ready = self.ridge("handoff", "--project", "w", TRITON_INTERPRET="1")
        self.assertEqual(ready.returncode, 0, ready.stdout + ready.stderr)


@NEEDS_TORCH
class Campaign(Base):
    PROPOSER = """import json, sys
request = json.load(sys.stdin)
if request["round"] != 2 or request["last_error"]:
    answer = {"version": 1, "exhausted": True, "reason": "one idea: " + (request["last_error"] or "measured")[:300]}
else:
    source = request["incumbent"]["sources"][0]
    answer = {"version": 1, "changes": [{"sources": [{"path": source["path"], "text": OLD_AND_NEW}]}],
              "hypothesis": {"title": "one idea", "mechanism": "m", "bottleneck": "compute", "category": "algorithm", "expected_gain": 0.1,
                             "reasoning": "a wrong one", "risks": ["it is wrong"], "verification_signal": "a shorter time",
                             "planned_files": [source["path"]]}}
json.dump(answer, sys.stdout)
"""

    def campaign(self, old, new):
        self.write("proposer.py", self.PROPOSER.replace("OLD_AND_NEW", f"source['text'].replace({old!r}, {new!r})"))
        started = self.ridge("baseline", "--workspace", "w")
        self.assertEqual(started.returncode, 0, started.stdout + started.stderr)
        self.assertIn("weaker", (self.tmp / "w/baseline_report.md").read_text())
        done = self.ridge("optimize", "--workspace", "w", "--yes", "--quiet", "--budget", "600s", "--max-iterations", "1", "--max-foreign-load", "1",
                          "--max-steal", "1", "--wait-for-quiet", "1s", "--proposer", f"command:{sys.executable} {self.tmp / 'proposer.py'}", timeout=1700)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        campaign = next((self.tmp / "w/campaigns").iterdir())
        self.assertIn("In the project's trust", (campaign / "report/REPORT.md").read_text())
        self.assertEqual(self.ridge("campaign", "verify", campaign).returncode, 0)
        self.assertEqual(self.ridge("memory", "validate", "--workspace", "w").returncode, 0)
        self.assertEqual(self.git("status", "--short"), "", "a version is not committed")
        records = json.loads(self.ridge("memory", "summary", "--workspace", "w", "--json").stdout)
        self.assertEqual([one["version"] for one in records], ["v0", "v1"])
        self.assertEqual(records[1]["quality_gate"]["result"], "FAIL")
        self.assertIn("one idea", (self.tmp / "w/plans/v1_plan.md").read_text())
        self.assertIn("v1: FAIL one idea", self.git("log", "-1", "--format=%B"))
        return "\n".join(self.git("show", "--name-only", "--format=", "HEAD").split())

    # A campaign of processes that each import PyTorch takes up to ten minutes: RIDGE_EXAMPLES=whole runs these.
    @unittest.skipUnless(os.environ.get("RIDGE_EXAMPLES") == "whole", "RIDGE_EXAMPLES=whole runs it")
    def test_a_function_of_cpp_to_the_end(self):
        self.write("ref.cpp", SCALE_REFERENCE)
        self.write("scale.cpp", SCALE_KERNEL)
        self.init("--reference", "ref.cpp", "--kernel", "scale.cpp", "--shapes", "a=64x512", "--language", "c++", "--platform", "this")
        self.assertIn("versions/v1/scale.cpp", self.campaign("* by[j] + sum", "* by[j]"))

    @unittest.skipUnless(os.environ.get("RIDGE_EXAMPLES") == "whole", "RIDGE_EXAMPLES=whole runs it")
    def test_a_module_with_a_kernel_of_python_to_the_end(self):
        self.write("model.py", MODEL)
        self.init("--reference", "model.py:Model", "--language", "python", "--platform", "this")
        self.assertIn("versions/v1/kernel.py", self.campaign("* scale", "* (scale + 1)"))

    @unittest.skipUnless(os.environ.get("RIDGE_EXAMPLES") == "whole", "RIDGE_EXAMPLES=whole runs it")
    def test_a_module_with_a_kernel_of_cpp_to_the_end(self):
        self.write("model.py", MODEL)
        self.write("model.cpp", KERNEL_CPP)
        self.init("--reference", "model.py:Model", "--kernel", "model.cpp", "--language", "c++", "--platform", "this")
        self.assertIn("versions/v1/model.cpp", self.campaign("/= sum", "/= sum + 1"))


if __name__ == "__main__":
    unittest.main()
