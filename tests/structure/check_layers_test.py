#!/usr/bin/env python3
"""The layer check passes on the project, and refuses each kind of offence when one is planted in a copy."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(root):
    return subprocess.run([sys.executable, str(ROOT / "tools/check_layers.py"), "--root", str(root)],
                          capture_output=True, text=True)


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.directory.name)
        for top in ("include", "src", "apps"):
            shutil.copytree(ROOT / top, self.root / top)
        shutil.copy(ROOT / "layers.txt", self.root)

    def tearDown(self):
        self.directory.cleanup()

    def plant(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return run(self.root)

    def refused(self, path, text, expected):
        result = self.plant(path, text)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(f"{path}:1", result.stdout)
        self.assertIn(expected, result.stdout)

    def test_project_is_clean(self):
        result = run(ROOT)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_upward_include_is_refused(self):
        self.refused("src/base/planted.cpp", '#include "record/case.h"\n', "base includes")

    def test_campaign_must_not_see_operators(self):
        self.refused("src/campaign/planted.cpp", '#include "ops/op.h"\n', "campaign includes")

    def test_an_operator_must_not_include_another(self):
        self.refused("src/ops/gemm/planted.cpp", '#include "ops/quantize/quantize.h"\n', "an operator includes a file of the operator quantize")

    def test_public_header_includes_only_public_headers(self):
        self.refused("include/ridge/planted.h", '#include "base/json.h"\n', "only ridge/ headers")

    def test_vendor_header_outside_device_is_refused(self):
        self.refused("src/stats/planted.cpp", "#include <cuda.h>\n", "vendor headers")

    def test_process_outside_its_modules_is_refused(self):
        self.refused("src/campaign/planted.cpp", 'int x = system("ls");\n', "start processes")

    def test_stdout_outside_apps_is_refused(self):
        self.refused("src/stats/planted.cpp", 'void f() { std::cout << 1; }\n', "stdout")

    def test_json_key_outside_record_is_refused(self):
        self.refused("src/report/planted.cpp", 'void f(Json& json) { json["speed"] = 1; }\n', "JSON key")

    def test_loading_code_outside_the_host_is_refused(self):
        self.refused("src/campaign/planted.cpp", "void* p = dlopen(name, 1);\n", "loads candidate code")

    def test_unlisted_module_is_refused(self):
        result = self.plant("src/utilities/planted.cpp", "\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn("src/utilities", result.stdout)

    def test_cycle_in_layers_is_refused(self):
        text = (self.root / "layers.txt").read_text().replace("base      :\n", "base : record\n")
        (self.root / "layers.txt").write_text(text)
        result = run(self.root)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("cycle", result.stderr)


if __name__ == "__main__":
    unittest.main()
