#!/usr/bin/env python3
"""From a campaign to the library and back: promote, build, explain, revert. The rest of promotion is tested in tests/campaign."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

RIDGE = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = RIDGE.parents[1]
KERNEL = "src/ops/gemm/cpu_plain.cpp"
# The wrappers of the promoted kernel as the library's own build makes them.
PROJECT = f"""cmake_minimum_required(VERSION 3.25)
project(promoted LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_BUILD_TYPE Release)
include("{ROOT}/cmake/ridge_ops.cmake")
ridge_described_kernel("${{KERNEL}}" gemm ridge_gemm sources)
add_library(kernels OBJECT ${{sources}})
target_include_directories(kernels PRIVATE "{ROOT}/include" "{ROOT}/src")
"""


class Promotion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.tmp = pathlib.Path(cls.directory.name)
        cls.environment = {**os.environ, "RIDGE_CACHE_DIR": str(cls.tmp / "cache"), "XDG_CONFIG_HOME": str(cls.tmp / "config")}
        cls.environment.pop("RIDGE_GEMM_BACKEND", None)
        tree = cls.tree = cls.tmp / "tree"
        for name in (KERNEL, "CHANGELOG.md"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
        # Without what it has from earlier campaigns, so that this one's can be added.
        text = (tree / KERNEL).read_text()
        begin = text.index("[configs]\n") + len("[configs]\n")
        (tree / KERNEL).write_text(text[:begin] + "default = { }\n" + text[text.index("*/", begin):])
        for command in (["init", "--quiet"], ["add", "."],
                        ["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "--quiet", "-m", "start"]):
            subprocess.run(["git", "-C", str(tree), *command], check=True)
        cls.before = cls.files()
        # On a busy machine nothing is void, and what is accepted is far faster than the textbook; where it is so busy that a
        # budget is over before anything was accepted, a larger one.
        for budget in ("30s", "60s", "120s"):
            shutil.rmtree(cls.tmp / "campaign", ignore_errors=True)
            cls.campaign = cls.ridge("optimize", "gemm", "m=40", "n=72", "k=64", "--kernel", tree / KERNEL, "--yes", "--budget", budget,
                                     "--max-iterations", "2", "--max-foreign-load", "1", "--max-steal", "1", "--directory", "campaign", "--no-git")
            if (cls.tmp / "campaign/journal.jsonl").read_text().count('"kind":"committed"') > 1:  # the baseline, and a round
                break

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    @classmethod
    def files(cls):
        return {str(p.relative_to(cls.tree)): p.read_bytes() for p in sorted(cls.tree.rglob("*"))
                if p.is_file() and ".git" not in p.relative_to(cls.tree).parts}

    @classmethod
    def ridge(cls, *arguments, program=RIDGE, timeout=240, **extra):
        return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, cwd=cls.tmp,
                              stdin=subprocess.DEVNULL, env={**cls.environment, **extra})

    def ends(self, code, *arguments, says=(), **extra):
        result = self.ridge(*arguments, **extra)
        self.assertEqual(result.returncode, code, f"{arguments}: {result.stdout}{result.stderr}")
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, result.stdout + result.stderr)
        return result

    def rebuilt(self):
        """`ridge` with the tree's kernel in its worker: the library's objects with the changed ones in front."""
        (self.tmp / "project").mkdir()
        (self.tmp / "project/CMakeLists.txt").write_text(PROJECT)
        made = self.tmp / "made"
        for command in (["cmake", "-S", self.tmp / "project", "-B", made, "-G", "Ninja", f"-DKERNEL={self.tree / KERNEL}"],
                        ["cmake", "--build", made]):
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        listed = subprocess.run(["ninja", "-C", str(BUILD), "-t", "commands", "-s", "bin/ridge-worker"], capture_output=True, text=True,
                                check=True)
        link = next(line for line in reversed(listed.stdout.splitlines()) if " -o bin/ridge-worker " in line)
        programs = self.tmp / "programs"
        programs.mkdir()
        objects = " ".join(str(p) for p in made.rglob("*.o"))
        link = link.replace(" -o bin/ridge-worker ", f" {objects} -o {programs}/ridge-worker ")
        done = subprocess.run(link, shell=True, cwd=BUILD, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ("ridge", "ridge-host"):
            shutil.copy(BUILD / "bin" / name, programs / name)
        return programs / "ridge"

    def test_from_a_campaign_to_dispatch_and_back(self):
        self.assertEqual(self.campaign.returncode, 0, self.campaign.stdout + self.campaign.stderr)
        into = ("--into", self.tree)
        self.ends(7, "promote", "campaign", *into, "--dry-run", says="forced by environment", RIDGE_GEMM_BACKEND="reference")
        self.assertEqual(self.files(), self.before)
        text = (self.tree / "CHANGELOG.md").read_text()
        (self.tree / "CHANGELOG.md").write_text(text.replace("## Unreleased\n\n", "## Unreleased\n\n- Mine.\n"))
        self.ends(7, "promote", "campaign", *into, says="CHANGELOG.md has changes that are not committed")
        (self.tree / "CHANGELOG.md").write_text(text)

        promoted = self.ends(0, "promote", "campaign", *into, "--name", "won", "--time-limit", "6s", "--json",
                             says=["check cases passed", f"Not built: {self.tree}/build is no folder that CMake configured"])
        promotion = json.loads(promoted.stdout)
        line = next(line for line in (self.tree / KERNEL).read_text().splitlines() if line.startswith("won = "))
        self.assertIn(f'promoted = "{promotion["campaign"]}, {promotion["speedup"]:.2f}x"', line)
        self.assertIn(promotion["campaign"], (self.tree / "CHANGELOG.md").read_text())
        verified = json.loads(self.ends(0, "campaign", "verify", "campaign", "--json").stdout)
        self.assertIn(promotion["journal_hash"], verified["summary"])
        page = self.tree / f"src/ops/gemm/promotions/{promotion['campaign']}.md"
        self.assertIn(promotion["journal_hash"], page.read_text())
        shape = promotion["shapes"][0]
        self.assertEqual(shape["tuned"], shape["low"] > 1)
        self.assertEqual((self.tree / "data/tuned").exists(), shape["tuned"])

        program = self.rebuilt()
        words = ("gemm", "m=40", "n=72", "k=64")
        tables = {"RIDGE_TUNED_DIR": str(self.tree / "data/tuned"), "RIDGE_DATA_DIR": str(ROOT / "data")}
        said = f"in configuration won, promoted by campaign {promotion['campaign']}: {promotion['speedup']:.2f}x on its shapes"
        self.ends(0, "ops", "explain", *words, program=program, says=said, RIDGE_GEMM_BACKEND="cpu_plain/won", **tables)
        self.ends(0, "ops", "explain", *words, program=program, **tables, says=[said, "preferred by the tuned table"] if shape["tuned"] else ())
        self.ends(0, "check", *words, "--impl", "cpu_plain/won", program=program, says="1 passed, 0 failed", **tables)
        self.ends(2, "check", *words, "--impl", "cpu_plain/lost", program=program, says="it has default, won")
        rows = json.loads(self.ends(0, "bench", *words, "--impl", "cpu_plain/won", "--vs", "cpu_plain/default", "--time-limit", "6s", "--json",
                                    program=program).stdout)["bench"]
        self.assertEqual([row["subject"] for row in rows], ["cpu_plain/default", "cpu_plain/won"])

        self.ends(7, "promote", "campaign", *into, says="commit")
        self.ends(0, "promote", "--revert", "campaign", *into, says="is taken back")
        self.assertEqual(self.files(), self.before)
        self.ends(2, "promote", "--revert", "won", *into, says="it holds none")

    def test_what_the_trees_build_refuses_is_taken_back(self):
        """A folder that CMake configured for the tree, with a `cmake` that fails, and one that builds a worker without the edits."""
        build = self.tree / "build"
        (build / "bin").mkdir(parents=True)
        (build / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={self.tree}\n")
        before = self.files()
        tools = self.tmp / "tools"
        tools.mkdir()
        path = f"{tools}:{os.environ['PATH']}"
        promote = ("promote", "campaign", "--into", self.tree, "--name", "won", "--time-limit", "2s")

        def cmake(line):
            (tools / "cmake").write_text(f"#!/bin/sh\necho building \"$@\"\n{line}\n")
            (tools / "cmake").chmod(0o755)

        cmake(f"grep -c '^won = ' {self.tree / KERNEL}; echo kernel.cpp:7: error; exit 1")
        self.ends(6, *promote, says=[f"building --build {build} --target ridge ridge-worker", "\n1\nkernel.cpp:7: error", "every edit is put back"],
                  PATH=path)
        self.assertEqual(self.files(), before)
        cmake(f"cp {BUILD}/bin/ridge-worker {BUILD}/bin/ridge-host {build}/bin")
        self.ends(2, *promote, says='has no configuration "won"', PATH=path)
        shutil.rmtree(build / "bin")
        self.ends(0, *promote, "--no-build", says="Not built: --no-build", PATH=path)
        self.ends(0, "promote", "--revert", "won", "--into", self.tree)
        (build / "bin").mkdir()
        self.assertEqual(self.files(), before)
        shutil.rmtree(build)

    def test_what_cannot_be_promoted(self):
        self.ends(2, "promote", says="name the folder of one campaign")
        self.ends(2, "promote", "nowhere", "--into", self.tree, says="nowhere")
        self.ends(2, "promote", "campaign", "--into", self.tmp, says="is no source tree of the library")


if __name__ == "__main__":
    unittest.main(verbosity=0)
