#!/usr/bin/env python3
"""`ridge handoff init`: what it writes is right for an honest kernel and fails every kernel that cheats, and the example
projects run from handoff to a report.  handoff_init_test.py RIDGE [PYTHON with PyTorch]"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

RIDGE = pathlib.Path(sys.argv.pop(1)).resolve()
PYTHON = pathlib.Path(sys.argv.pop(1)).absolute() if len(sys.argv) > 1 and "/" in sys.argv[1] else pathlib.Path(sys.executable)
ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/projects"


def has(module, **environment):
    return subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, env={**os.environ, **environment}).returncode == 0


TORCH = has("torch")
TRITON = TORCH and has("triton")
NEEDS_TORCH = unittest.skipUnless(TORCH, "PyTorch is not importable")


class Base(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tmp = pathlib.Path(directory.name)
        # `python3` of the commands is the Python that has PyTorch.
        (self.tmp / "bin").mkdir()
        (self.tmp / "bin/python3").write_text(f'#!/bin/sh\nexec "{PYTHON}" "$@"\n')
        (self.tmp / "bin/python3").chmod(0o755)
        self.environment = {**os.environ, "RIDGE_CACHE_DIR": str(self.tmp / "cache"), "XDG_CONFIG_HOME": str(self.tmp / "config"),
                            "PATH": f"{self.tmp / 'bin'}:{os.environ['PATH']}"}

    def ridge(self, *arguments, timeout=500, **extra):
        return subprocess.run([RIDGE, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, cwd=self.tmp,
                              env={**self.environment, **extra}, stdin=subprocess.DEVNULL)

    def project(self, **files):
        folder = self.tmp / f"project{len(list(self.tmp.glob('project*')))}"
        folder.mkdir()
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)
        return folder

    def init(self, folder, *flags, code=0, **extra):
        result = self.ridge("handoff", "init", "--project", folder, "--peak", "1", *flags, **extra)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr


PLAIN = "import torch\n\n\ndef matmul(a, b):\n    return a @ b\n"
CPP = """void matmul(const float* a, const float* b, float* out, int m, int n, int k) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
      out[i * n + j] = sum;
    }
  }
}
"""
SMALL = ("--shapes", "small=32x24x48,large=64x48x96")


class Writing(Base):
    def test_a_dry_run_prints_and_writes_nothing(self):
        folder = self.project(kernel__cpp=CPP)
        said = self.init(folder, "--dry-run", "--forward-only")
        self.assertIn("--- ", said)
        self.assertIn("void matmul(const float* a", said)
        self.assertEqual([one.name for one in folder.iterdir()], ["kernel.cpp"])

    def test_files_that_are_there_stay_without_force(self):
        folder = self.project(kernel__cpp=CPP)
        (folder / "ridge-project.toml").write_text("mine")
        self.assertIn("--force", self.init(folder, "--forward-only", code=7))
        self.assertEqual((folder / "ridge-project.toml").read_text(), "mine")
        self.assertFalse((folder / "quick_test_bench.cpp").exists())
        self.init(folder, "--forward-only", "--force", "--no-check")
        self.assertEqual(tomllib.loads((folder / "ridge-project.toml").read_text())["project"]["op"], "matmul")

    def test_json_has_the_files_and_what_the_handoff_found(self):
        folder = self.project(kernel__cpp=CPP)
        report = json.loads(self.ridge("handoff", "init", "--project", folder, "--forward-only", "--peak", "1", *SMALL, "--json").stdout)
        self.assertTrue(report["written"])
        for one in report["files"]:
            self.assertEqual((folder / one["path"]).read_text(), one["text"])
        self.assertTrue(all(row["works"] for row in report["checks"]), report["checks"])

    def test_nothing_that_is_typed_becomes_code(self):
        folder = self.project(kernel__cpp=CPP)
        device = 'a "GPU" \\ of\ttwo\nlines'
        self.init(folder, "--forward-only", "--no-check", "--device", device, "--prefix", "ssh 'my box' \"two words\" a\\ b",
                  "--acceptance", "make 'check all'")
        project = tomllib.loads((folder / "ridge-project.toml").read_text())
        self.assertEqual(project["project"]["device"], device)
        self.assertEqual(project["commands"]["prefix"], ["ssh", "my box", "two words", "a b"])
        self.assertEqual(project["commands"]["acceptance"], ["make", "check all"])
        for flags, says in ((("--build", "make; rm -rf /"), "for a shell"), (("--build", "echo $HOME"), "for a shell"),
                            (("--build", "echo 'a"), "not closed"), (("--op", 'x"y'), "no word"), (("--call", "f();g"), "no function"),
                            (("--call", "os:system('x')"), "no MODULE:FUNCTION"), (("--shapes", 'a"b=1x1x1'), "no word"),
                            (("--shapes", "a=1x1"), "2 sizes"), (("--shapes", "a=0x1x1"), "whole numbers"),
                            (("--shapes", "a=1x1x1,a=2x2x2"), "twice"), (("--kernel", "../x.cpp"), "no file"),
                            (("--dtype", "f64"), "not f32"), (("--form", "conv"), "not product"), (("--language", "rust"), "not c++"),
                            (("--form", "rows"), "C++ harness is for")):
            self.assertIn(says, self.init(folder, "--forward-only", "--force", "--no-check", *flags, code=2), flags)

    def test_what_a_folder_tells_need_not_be_said(self):
        folder = self.project(kernel__cpp=CPP, CMakeLists__txt="project(x)\nset(CMAKE_CXX_STANDARD 20)\ninclude_directories(include missing)\n",
                              pyproject__toml='[project]\nname = "my-ops"\n[tool.pytest.ini_options]\n', helper__py="x = 1\n")
        (folder / "include").mkdir()
        self.init(folder, "--forward-only", "--no-check")
        project = tomllib.loads((folder / "ridge-project.toml").read_text())
        self.assertEqual(project["commands"]["build"][:4], ["c++", "-std=c++20", "-O3", "-Iinclude"])
        self.assertEqual(project["commands"]["acceptance"], ["python3", "-B", "-m", "pytest", "-q"])
        nothing = self.project(a__py="x = 1\n", b__py="x = 1\n")
        self.assertIn("--kernel FILE", self.init(nothing, code=2))

    def test_the_peak_of_a_processor_bounds_tiles_of_half_width(self):
        peaks = {}
        for dtype in ("f32", "bf16", "f16"):
            folder = self.project(kernel__py=PLAIN)
            made = self.ridge("handoff", "init", "--project", folder, "--dtype", dtype, "--no-check")
            self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
            peaks[dtype] = tomllib.loads((folder / "ridge-project.toml").read_text())["benchmark"]["peak"]
        self.assertEqual(peaks["bf16"], 32 * peaks["f32"])
        self.assertEqual(peaks["f16"], 32 * peaks["f32"])

    def test_a_device_that_cannot_be_asked_is_named_in_the_file(self):
        folder = self.project(kernel__cu=CPP.replace("int k)", "int k, cudaStream_t stream)"))
        self.init(folder, "--forward-only", "--no-check")
        asked = self.ridge("optimize", "matmul", "--project", folder, "--yes", "--directory", self.tmp / "never")
        if shutil.which("nvidia-smi") is None and shutil.which("nvcc") is None:
            self.assertNotEqual(asked.returncode, 0)
        self.init(folder, "--forward-only", "--no-check", "--force", "--device", "H200")
        self.assertEqual(tomllib.loads((folder / "ridge-project.toml").read_text())["project"]["device"], "H200")


class CppHarness(Base):
    def verdict(self, body, code):
        folder = self.project(kernel__cpp=body)
        return self.init(folder, "--forward-only", *SMALL, code=code)

    def test_an_honest_kernel_is_ready(self):
        self.assertIn("Ready", self.verdict(CPP, 0))

    def test_a_wrong_element_fails(self):
        self.assertIn("wrong or not written", self.verdict(CPP.replace("= sum;", "= sum + (m > 20 && i == 3 && j == 0);"), 1))

    def test_nan_fails(self):
        self.assertIn("wrong or not written", self.verdict(CPP.replace("= sum;", "= sum * (0.0f / 0.0f);"), 1))

    def test_what_is_not_written_fails(self):
        self.assertIn("wrong or not written", self.verdict(CPP.replace("i < m;", "i < m - (m > 20);"), 1))

    def test_what_is_kept_under_an_address_fails(self):
        cached = "#include <map>\n#include <vector>\nstatic std::map<const float*, std::vector<float>> seen;\n" + CPP.replace(
            "  for (int i = 0; i < m; ++i) {",
            "  auto& kept = seen[a];\n  if (kept.size() == static_cast<std::size_t>(m) * n) {\n    for (int x = 0; x < m * n; ++x) out[x] = kept[x];\n"
            "    return;\n  }\n  for (int i = 0; i < m; ++i) {", 1)
        cached = cached[:cached.rindex("}")] + "  kept.assign(out, out + m * n);\n}\n"
        self.verdict(cached, 1)

    def test_what_is_kept_under_its_content_fails(self):
        slow = CPP.replace("  for (int i = 0; i < m; ++i) {",
                           "  double key = m * 1e6 + n * 1e3 + k;\n  for (int x = 0; x < m * k; ++x) key += a[x] * (x + 1);\n"
                           "  auto& kept = seen[key];\n  if (!kept.empty()) {\n    for (int x = 0; x < m * n; ++x) out[x] = kept[x];\n"
                           "    return;\n  }\n  for (volatile int wait = 0; wait < 1000000; ++wait) {}\n  for (int i = 0; i < m; ++i) {", 1)
        slow = slow[:slow.rindex("}")] + "  kept.assign(out, out + m * n);\n}\n"
        said = self.verdict("#include <map>\n#include <vector>\nstatic std::map<double, std::vector<float>> seen;\n" + slow, 1)
        self.assertIn("times as long as those it has seen", said)

    def test_what_a_thread_writes_after_the_call_fails(self):
        late = "#include <chrono>\n#include <thread>\n" + CPP[:CPP.rindex("}")] + (
            "  if (m != 128) return;\n  float* last = out + m * n - 1;\n  const float right = *last;\n  *last = 0;\n"
            "  std::thread([=] { std::this_thread::sleep_for(std::chrono::microseconds(300)); *last = right; }).detach();\n}\n")
        folder = self.project(kernel__cpp=late)
        said = self.init(folder, "--forward-only", "--shapes", "small=32x24x48,large=128x96x512", "--build",
                         "c++ -O3 -pthread -o quick_test_bench quick_test_bench.cpp kernel.cpp", code=1)
        self.assertIn("wrong or not written", said)

    def test_a_changed_input_fails(self):
        self.assertIn("changes its inputs", self.verdict(CPP[:CPP.rindex("}")] + "  const_cast<float*>(a)[0] += 1;\n}\n", 1))


FUNCTION = """import torch


class Matmul(torch.autograd.Function):
    @staticmethod
    def forward(context, a, b):
        context.save_for_backward(a, b)
        return forward(a, b)

    @staticmethod
    def backward(context, d_out):
        a, b = context.saved_tensors
        return backward(d_out, a, b)


def backward(d_out, a, b):
    return d_out @ b.T, a.T @ d_out


def matmul(a, b):
    return Matmul.apply(a, b)


"""


@NEEDS_TORCH
class PythonHarness(Base):
    def verdict(self, forward, code, *flags):
        folder = self.project(kernel__py=FUNCTION.replace("def matmul", forward + "\n\n\ndef matmul"))
        return self.init(folder, *SMALL, *flags, code=code)

    def test_an_honest_kernel_is_ready(self):
        said = self.verdict("def forward(a, b):\n    return a @ b", 0)
        self.assertIn("combined_step_tflops", said)
        self.assertIn("the reference process finds the outputs right", said)

    def test_bf16_and_forward_only(self):
        folder = self.project(kernel__py=PLAIN)
        self.assertIn("Ready", self.init(folder, *SMALL, "--dtype", "bf16", "--forward-only"))

    def test_kernels_that_cheat_fail(self):
        kept = "    if key not in seen:\n        seen[key] = a @ b\n    return seen[key].clone()\n\n\nseen = {}"
        rows = {"wrong": "def forward(a, b):\n    out = a @ b\n    if a.shape[0] > 20:\n        out[3, 0] += 1\n    return out",
                "nan": "def forward(a, b):\n    return (a @ b) * float('nan')",
                "not written": "def forward(a, b):\n    out = torch.empty(a.shape[0], b.shape[1])\n    rows = a.shape[0] - (a.shape[0] > 20)\n"
                               "    out[:rows] = (a @ b)[:rows]\n    return out",
                "address": "def forward(a, b):\n    key = (a.data_ptr(), a.shape, b.shape)\n" + kept,
                "content": "def forward(a, b):\n    import time\n    key = a.numpy().tobytes()\n    if key not in seen:\n        time.sleep(0.01)\n" + kept,
                "shape": "def forward(a, b):\n    return (a @ b)[:-1]", "dtype": "def forward(a, b):\n    return (a @ b).double()",
                "raises": "def forward(a, b):\n    raise KeyError('no')"}
        for name, forward in rows.items():
            with self.subTest(name):
                said = self.verdict(forward, 1, "--shapes", "small=32x24x48")
                self.assertIn("focused test passes", said)

    def test_a_wrong_gradient_fails(self):
        folder = self.project(kernel__py=FUNCTION.replace("def matmul", "def forward(a, b):\n    return a @ b\n\n\ndef matmul").replace(
            "a.T @ d_out", "0.99 * (a.T @ d_out)"))
        self.assertIn("db", self.init(folder, *SMALL, code=1))

    def harness(self, folder, *arguments, code=0):
        result = subprocess.run([PYTHON, "-B", "quick_test_bench.py", *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def test_what_a_thread_computes_after_the_call_fails(self):
        late = ("def forward(a, b):\n    import threading, time\n    out = torch.zeros(a.shape[0], b.shape[1])\n    a, b = a.detach(), b.detach()\n\n"
                "    def work():\n        time.sleep(0.005)\n        out.copy_(a @ b)\n\n    threads.append(threading.Thread(target=work))\n"
                "    threads[-1].start()\n    return out\n\n\nthreads = []")
        folder = self.project(kernel__py=FUNCTION.replace("def matmul", late + "\n\n\ndef matmul").replace(
            "    return d_out @ b.T", "    threads.pop().join()\n    return d_out @ b.T"))
        self.init(folder, *SMALL, "--no-check")
        self.assertIn("out[0, 0] is 0.0", self.harness(folder, "--test", code=1))
        self.assertIn("out[0, 0] is 0.0", self.harness(folder, "--summary-csv", "t.csv", code=1))

    def test_an_output_that_is_no_plain_tensor_fails(self):
        lazy = ("class Lazy(torch.Tensor):\n    pass\n\n\ndef matmul(a, b):\n    return Product.apply(a, b).as_subclass(Lazy)\n")
        folder = self.project(kernel__py=FUNCTION.replace("def matmul", "def forward(a, b):\n    return a @ b\n\n\ndef plain").replace(
            "class Matmul", "class Product").replace("Matmul.apply", "Product.apply") + lazy)
        self.init(folder, *SMALL, "--no-check", "--call", "kernel:matmul")
        self.assertIn("out is a Lazy, and must be a torch.Tensor itself", self.harness(folder, "--test", code=1))

    def test_a_changed_gradient_fails(self):
        folder = self.project(kernel__py=FUNCTION.replace("def matmul", "def forward(a, b):\n    return a @ b\n\n\ndef matmul").replace(
            "    return d_out @ b.T, a.T @ d_out", "    d_out.zero_()\n    return torch.zeros_like(a), torch.zeros_like(b)"))
        self.init(folder, *SMALL, "--no-check")
        self.assertIn("changes the gradient", self.harness(folder, "--test", code=1))
        self.harness(folder, "--summary-csv", "t.csv", "--outputs", "kept", code=1)
        self.assertIn("da[", self.harness(folder, "--verify", "kept", code=1))

    def test_the_seed_picks_the_call_that_is_verified(self):
        folder = self.project(kernel__py=PLAIN)
        self.init(folder, *SMALL, "--no-check")
        cases = set()
        for seed in range(6):
            self.harness(folder, "--summary-csv", "t.csv", "--outputs", "kept", "--fresh", "--shapes", "small", "--seed", seed)
            self.harness(folder, "--verify", "kept", "--shapes", "small", "--seed", seed)
            read = subprocess.run([PYTHON, "-c", "import torch; print(torch.load('kept')['small']['case'])"], cwd=folder, capture_output=True, text=True)
            cases.add(int(read.stdout))
        self.assertGreater(len(cases), 1)
        self.assertTrue(cases <= set(range(2, 9)), cases)

    def test_a_label_may_be_called_as_an_edge(self):
        folder = self.project(kernel__py=PLAIN)
        self.assertIn("Ready", self.init(folder, "--shapes", "edge0=32x24x48,edge7=64x48x96"))

    def test_a_grouped_product_says_its_loads(self):
        folder = self.project(kernel__py="import torch\n\n\ndef grouped(a, b, counts):\n"
                                         "    return torch.cat([x @ w for x, w in zip(a.split(counts.tolist()), b)])\n")
        self.init(folder, "--form", "grouped", "--shapes", "even=16x24:8/8/8/8,skewed=16x24:24/0/6/2,one=16x24:0/32/0/0", "--op", "grouped_gemm")
        project = tomllib.loads((folder / "ridge-project.toml").read_text())
        self.assertEqual(project["benchmark"]["shapes"], ["even:8x4", "skewed:24-0-6-2", "one:0-32-0x2"])

    SOFTMAX = ("import torch\n\n\ndef softmax(x):\n    e = torch.exp(x - x.amax(1, keepdim=True))\n"
               "    return e / e.sum(1, keepdim=True)\n")
    ROWS = ("--kernel", "kernel.py", "--form", "rows", "--reference", "reference:softmax", "--call", "kernel:softmax")

    def test_a_gradient_of_zeros_fails_in_long_rows(self):
        zero = ("import torch\n\n\nclass Softmax(torch.autograd.Function):\n    @staticmethod\n    def forward(context, x):\n"
                "        context.save_for_backward(torch.softmax(x, 1))\n        return torch.softmax(x, 1)\n\n    @staticmethod\n"
                "    def backward(context, d):\n        (y,) = context.saved_tensors\n        if d.shape[1] == 8192:\n"
                "            return torch.zeros_like(d)\n        return y * (d - (y * d).sum(1, keepdim=True))\n\n\n"
                "def softmax(x):\n    return Softmax.apply(x)\n")
        folder = self.project(kernel__py=zero, reference__py=self.SOFTMAX)
        self.init(folder, *self.ROWS, "--shapes", "wide=4x8192", "--no-check")
        self.assertIn("dx[", self.harness(folder, "--test", code=1))
        self.harness(folder, "--summary-csv", "t.csv", "--outputs", "kept", code=1)
        self.assertIn("wide,FAIL", (folder / "t.csv").read_text())
        self.assertIn("dx[", self.harness(folder, "--verify", "kept", code=1))

    def test_honest_rows_of_every_dtype_pass(self):
        for dtype in ("f32", "bf16", "f16"):
            folder = self.project(kernel__py="import torch\n\n\ndef softmax(x):\n    return torch.softmax(x, 1)\n", reference__py=self.SOFTMAX)
            self.init(folder, *self.ROWS, "--shapes", "narrow=2048x3,tall=512x64,wide=4x8192", "--no-check", "--dtype", dtype)
            self.assertIn("failed=0", self.harness(folder, "--test"))

    NORM = ("import torch\n\n\ndef norm(x):\n    x = x - x.mean(1, keepdim=True)\n"
            "    return x / torch.sqrt(x.square().mean(1, keepdim=True) + 1e-5)\n")

    def norm(self, kernel):
        folder = self.project(kernel__py=f"import torch\n\n\ndef norm(x):\n    return {kernel}\n", reference__py=self.NORM)
        self.init(folder, "--kernel", "kernel.py", "--form", "rows", "--reference", "reference:norm", "--call", "kernel:norm",
                  "--shapes", "narrow=2048x3,tall=64x7", "--no-check")
        return folder

    def test_rows_whose_terms_cancel_are_looked_at_once_more(self):
        honest = self.norm("torch.nn.functional.layer_norm(x, x.shape[1:])")  # its gradients cancel: off by a hundred times what the first look allows
        self.assertIn("failed=0", self.harness(honest, "--test"))
        halves = self.norm("torch.nn.functional.layer_norm(x.half(), x.shape[1:]).float()")
        self.assertIn("passed=0 failed=7", self.harness(halves, "--test", code=1))

    def test_rows_of_the_projects_own_reference(self):
        folder = self.project(kernel__py="import torch\n\n\ndef softmax(x):\n    return torch.softmax(x, 1)\n", reference__py=self.SOFTMAX)
        said = self.init(folder, *self.ROWS, "--shapes", "tall=64x16,wide=4x256")
        self.assertIn("combined_step_gbps", said)


class Examples(Base):
    """Each by the commands of its README: the harness is what init writes, the handoff is ready, a campaign ends in a verified report.

    A campaign of processes that each import PyTorch takes ten minutes: RIDGE_EXAMPLES=whole runs those as well."""

    def readme(self, name, verb, **places):
        """The words after `ridge` of the README's command, with its paths where this test has them."""
        text = (EXAMPLES / name / "README.md").read_text().replace("\\\n", " ")
        found = [line for block in re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE) for line in block.splitlines()
                 if line.startswith(f"ridge {verb} ")]
        self.assertTrue(found, f"{name}/README.md has no command: ridge {verb}")
        for old, new in {"examples/projects/propose.py": EXAMPLES / "propose.py", **places}.items():
            found[0] = re.sub(re.escape(old) + r"(?![\w.])", str(new), found[0])
        return shlex.split(found[0])[1:]

    def generated(self, name, **extra):
        folder = EXAMPLES / name
        words = self.readme(name, "handoff init", **{f"examples/projects/{name}": folder})
        self.assertEqual(words.pop(), "--force")
        result = self.ridge(*words, "--dry-run", "--json", **extra)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for one in json.loads(result.stdout)["files"]:
            self.assertEqual((folder / one["path"]).read_text(), one["text"], f"{name}: {one['path']} is not what init writes")

    def follow(self, name, *flags, accepted=True, whole=True, **extra):
        folder, campaign = self.tmp / name, self.tmp / f"{name}.campaign"
        shutil.copytree(EXAMPLES / name, folder)
        before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        places = {f"examples/projects/{name}": folder, f"/tmp/{name}": campaign}
        ready = self.ridge(*self.readme(name, "handoff matmul", **places), **extra)
        self.assertEqual(ready.returncode, 0, ready.stdout + ready.stderr)
        if not whole and os.environ.get("RIDGE_EXAMPLES") != "whole":
            return
        done = self.ridge(*self.readme(name, "optimize matmul", **places), "--quiet", *flags, **extra)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = self.ridge(*self.readme(name, "campaign report", **places), **extra)
        self.assertEqual(report.returncode, 0, report.stdout + report.stderr)
        self.assertTrue((campaign / "report/REPORT.html").exists(), sorted(campaign.rglob("report/*")))
        for audit in ("verify", "replay", "rules"):
            found = self.ridge("campaign", audit, campaign)
            self.assertEqual(found.returncode, 0, audit + found.stdout + found.stderr)
        self.assertEqual({p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}, before)
        rounds = json.loads(self.ridge("campaign", "status", campaign, "--json").stdout)["rounds"]
        if accepted:
            self.assertEqual([one["state"] for one in rounds], ["accepted"], (campaign / "logs/optimize.md").read_text())
        return campaign

    def test_remote(self):
        self.generated("remote")
        self.follow("remote")

    @NEEDS_TORCH
    def test_torch_cpp(self):
        self.generated("torch_cpp")
        self.follow("torch_cpp", whole=False)

    def test_triton(self):
        self.generated("triton", TRITON_INTERPRET="1")
        if not TRITON:
            self.skipTest("triton is not importable: pip install triton, and TRITON_INTERPRET=1 without a GPU")
        self.follow("triton", "--max-iterations", "1", accepted=False, whole=False, TRITON_INTERPRET="1")

    def test_cuda(self):
        self.generated("cuda")
        if shutil.which("nvcc") is None:
            self.skipTest("nvcc is not installed")
        built = self.ridge(*self.readme("cuda", "handoff matmul", **{"examples/projects/cuda": EXAMPLES / "cuda"}))
        self.assertEqual(built.returncode, 0, built.stdout + built.stderr)
        self.assertIn("nothing was run", built.stdout)

    def test_hip(self):
        self.generated("hip")
        built = self.ridge(*self.readme("hip", "handoff matmul", **{"examples/projects/hip": EXAMPLES / "hip"}))
        if shutil.which("hipcc") is None:
            self.assertEqual(built.returncode, 3, built.stdout + built.stderr)
            self.assertIn("hipcc is not installed on this machine", built.stdout)
            self.skipTest("hipcc is not installed")
        self.assertEqual(built.returncode, 0, built.stdout + built.stderr)


if __name__ == "__main__":
    unittest.main()
