#!/usr/bin/env python3
"""The check of the kernels' builds refuses what it is for, and remembers a pass for no other build. A stand-in compiles."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/check_kernels.py"
NVCC = """#!/bin/sh
here=$(dirname "$0")
if [ "$1" = --version ]; then cat "$here/version"; exit; fi
echo "$*" >>"$here/calls"
echo "ptxas info    : Compiling entry function 'k' for 'sm_90a'" >&2
cat "$here/says" >&2
"""
RIDGE = """#!/bin/sh
echo '[{"kernels": [{"name": "k", "has_listing": false, "resources": {"registers": 40, "stack_bytes": 0, "spill_store_bytes": 0,
       "spill_load_bytes": 0, "shared_bytes": 0}}]}]'
"""
GOOD = "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 40 registers\n"


class CheckKernels(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("src/ops/one.cu", '#include "two.cuh"\n')
        self.write("src/ops/two.cuh", '#include "../three.cuh"\n')
        self.write("src/three.cuh", "// three\n")
        self.describe()
        for name, text in (("nvcc", NVCC), ("ridge", RIDGE)):
            self.write(name, text).chmod(0o755)
        self.write("version", "release 13.0\n")
        self.write("says", GOOD)
        self.write("calls", "")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        return self.root / path

    def describe(self, defines=("A=1",), most=64, sass=()):
        build = {"kernel": "one/k", "name": "default", "source": "ops/one.cu", "defines": list(defines), "sass": list(sass), "max_registers": most}
        self.write("build/kernel_builds.json", json.dumps({"builds": [build]}))

    def check(self, *words, code=0):
        """Whether it compiled, and what was said."""
        before = (self.root / "calls").read_text()
        ended = subprocess.run([sys.executable, TOOL, "--root", self.root, "--nvcc", self.root / "nvcc", "--ridge", self.root / "ridge", *words],
                               capture_output=True, text=True, env=dict(os.environ, RIDGE_CACHE_DIR=str(self.root / "cache")))
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return (self.root / "calls").read_text() != before, ended.stdout

    def test_a_build_that_passed_is_not_compiled_again(self):
        self.assertTrue(self.check()[0])
        compiled, says = self.check()
        self.assertFalse(compiled)
        self.assertIn("1 builds, 0 failed, 1 passed before", says)
        self.assertTrue(self.check("--again")[0])

    def test_all_that_it_depends_on_makes_it_another_build(self):
        self.check()
        for change in (lambda: self.write("src/three.cuh", "// other\n"), lambda: self.describe(["A=2"]), lambda: self.describe(most=63),
                       lambda: self.describe(sass=["LDG"]), lambda: self.write("version", "release 13.1\n"),
                       lambda: self.write("src/inspect/opcodes.cpp", "\n")):
            change()
            self.assertTrue(self.check()[0])
            self.assertFalse(self.check()[0])

    def test_a_build_that_failed_is_compiled_until_it_passes(self):
        for says, named in ((GOOD.replace("0 bytes spill stores", "8 bytes spill stores"), "8 bytes of register spills"),
                            (GOOD.replace("0 bytes stack", "16 bytes stack"), "16 bytes of stack frame"), (GOOD + "(C7510) serialised\n", "C7510"),
                            (GOOD.replace("40", "65"), "65 registers, declared limit 64"), ("", "no register count")):
            self.write("says", says)
            for _ in range(2):
                compiled, out = self.check(code=1)
                self.assertTrue(compiled)
                self.assertIn(named, out)
        self.write("says", GOOD)
        self.assertTrue(self.check()[0])

    def test_machine_code_that_was_not_looked_at_is_not_remembered(self):
        for _ in range(2):
            self.assertTrue(self.check("--ridge", self.root / "absent")[0])

    def test_nothing_to_compile_is_no_pass(self):
        self.assertIn("0 builds", self.check("no such kernel", code=1)[1])


if __name__ == "__main__":
    unittest.main()
