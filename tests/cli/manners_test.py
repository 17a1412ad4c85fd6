#!/usr/bin/env python3
"""What every command of `ridge` owes its user: help, exit codes, --json, suggestions, completion, man pages, colours, defaults."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

RIDGE = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.tmp = pathlib.Path(cls.directory.name)
        cls.environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "RIDGE_CACHE_DIR")}
        cls.environment |= {"RIDGE_CACHE_DIR": str(cls.tmp / "cache"), "XDG_CONFIG_HOME": str(cls.tmp / "config"), "TERM": "xterm-256color"}
        cls.table = json.loads(subprocess.run([RIDGE, "help", "--json"], capture_output=True, text=True, check=True, env=cls.environment).stdout)
        cls.leaves = [entry for entry in cls.table if not entry["group"]]

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def ridge(self, *arguments, **extra):
        return subprocess.run([RIDGE, *map(str, arguments)], capture_output=True, text=True, timeout=240, cwd=self.tmp,
                              env={**self.environment, **extra})

    def refused(self, code, *arguments, says, **extra):
        result = self.ridge(*arguments, **extra)
        self.assertEqual(result.returncode, code, f"{arguments}: {result.stdout}{result.stderr}")
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, result.stderr)
        return result

    def in_terminal(self, *arguments, columns=80, **extra):
        """Standard output and error as a terminal of that width receives them, and the exit code."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([RIDGE, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs, cwd=self.tmp,
                                   env={**self.environment, **extra})
        os.close(theirs)
        received = b""
        while True:
            try:
                block = os.read(ours, 4096)
            except OSError:  # the terminal is gone with its last process
                break
            if not block:
                break
            received += block
        os.close(ours)
        return received.decode().replace("\r\n", "\n"), process.wait()


class EveryCommand(Base):
    def test_states_examples_exit_codes_and_json(self):
        for entry in self.table:
            name = " ".join(entry["path"]) or "ridge"
            with self.subTest(name):
                self.assertTrue(entry["summary"])
                self.assertTrue(entry["exits_declared"], "the command does not call .exits({...})")
                codes = [one["code"] for one in entry["exits"]]
                self.assertEqual(codes, sorted(set(codes)))
                self.assertLessEqual({0, 2}, set(codes))
                self.assertTrue(all(one["meaning"] for one in entry["exits"]))
                if not entry["group"]:
                    self.assertTrue(entry["examples"], "the command has no .example(...)")
                    self.assertTrue(entry["json"], "the command calls neither .json(...) nor .no_json(...)")
                for option in entry["options"]:
                    self.assertTrue(option["help"], option)

    def test_help_shows_what_the_table_says(self):
        for entry in self.table:
            with self.subTest(" ".join(entry["path"])):
                result = self.ridge(*entry["path"], "--help")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(self.ridge("help", *entry["path"]).stdout, result.stdout)
                for title in ("Usage", "Examples", "JSON (--json)", "Exit codes"):
                    self.assertIn(title + "\n", result.stdout)
                words = " ".join(result.stdout.split())
                for option in entry["options"]:
                    self.assertIn(", ".join(option["flags"]), words)
                codes = result.stdout[result.stdout.index("Exit codes"):]
                self.assertEqual(re.findall(r"^ +(\d+)  ", codes, re.M), [str(one["code"]) for one in entry["exits"]])

    def test_an_example_uses_flags_that_exist(self):
        of_all = {flag for option in self.table[0]["options"] for flag in option["flags"]} | {"--help", "--version"}
        for entry in self.leaves:
            flags = {flag for option in entry["options"] for flag in option["flags"]} | of_all
            for example in entry["examples"]:
                line = re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", example["line"].split(" -- ")[0])
                command = re.search(r"\bridge ((?:[a-z-]+ ?)*)", line)
                if not command or command[1].split()[: len(entry["path"])] != entry["path"]:
                    continue  # an example of what comes next
                for flag in re.findall(r"(?<= )--?[A-Za-z][a-z-]*", line):
                    self.assertIn(flag, flags, example["line"])

    def test_a_group_shows_examples_of_its_own(self):
        for group in ("campaign", "spec", "kernels", "memory", "ops", "workspace", "config"):
            examples = self.ridge(group, "--help").stdout.split("\nExamples\n")[1]
            self.assertIn(f"  ridge {group} ", examples.replace('"$(ridge', "  ridge"), group)
            self.assertNotIn("ridge optimize gemm", examples)

    def test_an_unknown_flag_is_exit_2_everywhere(self):
        for entry in self.table:
            with self.subTest(" ".join(entry["path"])):
                self.refused(2, *entry["path"], "--no-such-flag", says='no option "--no-such-flag"')

    def test_json_is_refused_where_there_is_none(self):
        without = [entry for entry in self.leaves if not entry["has_json"]]
        self.assertTrue(without)
        for entry in without:
            words = ["X" for argument in entry["arguments"] if argument["required"]]
            self.refused(2, *entry["path"], *words, "--json", says=["has no --json", entry["json"]])

    def test_json_is_one_document_where_it_is_promised(self):
        reports = ROOT / "tests/profile/reports"
        shape = ("m=8", "n=8", "k=8")
        calls = {"list": [], "doctor": [], "help": ["bench"], "config show": [], "config path": [], "ops list": [],
                 "ops explain": ["gemm", *shape], "check": ["gemm", *shape, "--impl", "cpu_simd"], "spec list": ["--markdown"],
                 "spec show": ["H200"], "spec get": ["H200", "memory_bandwidth"], "spec diff": ["H200", "MI300X"], "spec lint": [],
                 "spec probe": [], "roofline": ["gemm", *shape, "--on", "H200"], "profile": ["--from", reports / "ncu_copy.csv"],
                 "memory init": ["--workspace", "w"], "memory create": ["--workspace", "w", "--set", "quality_gate.failure_reason=slow"], "memory read": ["v0", "--workspace", "w"],
                 "memory update": ["v0", "--workspace", "w", "--set", "quality_gate.failure_reason=slow"],
                 "memory summary": ["--workspace", "w"], "memory validate": ["--workspace", "w"],
                 "memory restart": ["--workspace", "w", "--seed", "3"], "memory unmask": ["v0", "--workspace", "w"], "memory schema": [],
                 "campaign schema": ["agent_answer"], "tips search": ["wave", "--op", "gemm", "--device", "H200"],
                 "tips show": ["ops/any-kernel#another-tile-shape"]}
        promised = {" ".join(entry["path"]): entry for entry in self.leaves if entry["has_json"]}
        for name, arguments in calls.items():
            with self.subTest(name):
                result = self.ridge(*name.split(), *arguments, "--json")
                self.assertIn(result.returncode, [one["code"] for one in promised[name]["exits"]], result.stderr)
                json.loads(result.stdout)


class Words(Base):
    def test_version(self):
        for flag in ("-V", "--version"):
            result = self.ridge(flag)
            self.assertEqual(result.returncode, 0)
            self.assertRegex(result.stdout, r"^ridge \d+\.\d+\.\d+\n$")

    def test_typos_are_answered_with_the_close_name(self):
        self.refused(2, "bnech", says=['no command "bnech"', "did you mean bench"])
        self.refused(2, "campaign", "resum", "x", says=['no command "resum"', "did you mean resume"])
        self.refused(2, "help", "campaign", "verfy", says="did you mean verify")
        self.refused(2, "bench", "gemm", "--tread", "2", says="did you mean --threads?")
        self.refused(2, "bench", "gemm", "--jsn", says="did you mean --json")
        far = self.refused(2, "bench", "gemm", "--colourfulness", says='no option "--colourfulness"')
        self.assertNotIn("did you mean", far.stderr)

    def test_misuse_names_the_value_and_the_way_out(self):
        self.refused(2, says=["name a command", "optimize", "ridge --help"])
        self.refused(2, "campaign", says=["name a command", "verify", "ridge campaign --help"])
        self.refused(2, "bench", says=["operator is required", "usage: ridge bench OPERATOR [CASE...] [OPTIONS]"])
        self.refused(2, "bench", "gemm", "--threads", "two", says=["--threads", '"two" is not a whole number'])
        self.refused(2, "bench", "gemm", "--min-time", "1h", says=["--min-time", '"1h" is not a number'])
        self.refused(2, "bench", "gemm", "--threads", says=["--threads takes one value"])
        self.refused(2, "doctor", "please", says="one argument too many: please")
        self.refused(2, "tips", "search", "--bottleneck", "magic", says=["--bottleneck magic", "compute, memory, latency"])
        self.refused(2, "tips", "search", "--limit", "0", says=["--limit 0"])
        self.refused(2, "list", "--color", "sometimes", says=["--color sometimes", "auto, always or never"])

    def test_help_fits_the_width(self):
        for entry in self.table:
            for line in self.ridge(*entry["path"], "--help", COLUMNS="64").stdout.splitlines():
                if len(line) > 64:  # only where a single word is too long for its place
                    self.assertLessEqual(len(line.split()), 3, line)

    def test_tables_fit_the_terminal(self):
        wide = self.ridge("spec", "show", "H200").stdout
        self.assertTrue(any(len(line) > 100 for line in wide.splitlines()))
        narrow, code = self.in_terminal("spec", "show", "H200", columns=90)
        self.assertEqual(code, 0)
        lines = narrow.splitlines()[1:]
        for line in lines:
            if len(line) > 90:  # a file name at its end cannot be broken
                self.assertGreater(len(line.split()[-1]), 30, line)
        self.assertEqual(sorted(set(re.findall(r"\w{6,}", wide)) - set(re.findall(r"\w{6,}", narrow))), [])


class Colours(Base):
    def test_verdicts_are_coloured_on_a_terminal_only(self):
        shape = ("check", "gemm", "m=8", "n=8", "k=8", "--impl", "cpu_simd", "--all")
        self.assertNotIn("\x1b[", self.ridge(*shape).stdout)
        self.assertIn("\x1b[32mPASS\x1b[0m", self.ridge(*shape, "--color", "always").stdout)
        shown, code = self.in_terminal(*shape)
        self.assertEqual(code, 0, shown)
        self.assertIn("\x1b[32mPASS\x1b[0m", shown)
        for quiet in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertFalse(COLOUR.search(self.in_terminal(*shape, **quiet)[0]), quiet)
        self.assertFalse(COLOUR.search(self.in_terminal(*shape, "--color", "never")[0]))
        self.assertIn("\x1b[32mPASS", self.in_terminal(*shape, "--color=always", NO_COLOR="1")[0])
        self.assertIn("\x1b[31mridge:\x1b[0m", self.in_terminal("bench", "gemmm")[0])
        json.loads(self.ridge("doctor", "--json", "--color", "always").stdout)

    def test_progress_is_one_redrawn_line_on_a_terminal_and_plain_lines_elsewhere(self):
        bench = ("bench", "gemm", "m=64", "n=64", "k=64", "--impl", "cpu_simd", "--samples", "8", "--time-limit", "6s")
        shown, code = self.in_terminal(*bench, columns=50)
        self.assertEqual(code, 0, shown)
        drawn = shown.split("\r\x1b[K")
        self.assertGreater(len(drawn), 3, shown)
        for line in drawn[1:-1]:
            self.assertLess(len(line), 50, line)
            self.assertNotIn("\n", line)
        self.assertRegex("".join(drawn[1:-1]), r"\d+ %  ")
        self.assertIn("median", drawn[-1])  # the table follows where the line was wiped
        plain = self.ridge(*bench)
        self.assertNotIn("\r", plain.stderr)
        self.assertNotIn("\x1b", plain.stderr)
        self.assertEqual(self.ridge(*bench, "--quiet").stderr, "")


class Bench(Base):
    def test_what_all_rows_share_stands_above_and_the_end_is_one_sentence(self):
        shapes = ("m=64,128", "n=128", "k=128", "--impl", "cpu_simd", "--vs", "reference", "--time-limit", "12s", "--samples", "8")
        result = self.ridge("bench", "gemm", *shapes)
        self.assertEqual(result.returncode, 0, result.stderr)
        above, header, *rows = result.stdout.splitlines()
        self.assertRegex(above, r"^All cases: .*n=128 k=128")
        if header.startswith("All rows: "):
            header, *rows = rows
        self.assertRegex(header, r"^case +subject +median")
        self.assertRegex(rows[0], r"^m=64 +reference")
        summary = result.stdout[result.stdout.index("\nSummary"):]
        self.assertRegex(summary, r"paired, geometric mean of 2 cases\)\n  cpu_simd ran \d+\.\d+ ± \d+\.\d+ times faster than reference\n")
        narrow, code = self.in_terminal("bench", "gemm", *shapes, columns=72)
        self.assertIn("Left out to fit the terminal: p10", narrow)

    def test_a_fixed_seed_is_marked_in_the_result(self):
        bench = ("bench", "gemm", "m=8", "n=8", "k=8", "--impl", "cpu_simd", "--samples", "8", "--time-limit", "5s")
        report = json.loads(self.ridge(*bench, "--seed", "7", "--json").stdout)
        self.assertIn("from the fixed seed 7", report["environment"]["facts"]["measure.inputs"])
        self.assertIn("Inputs are from the fixed seed 7", self.ridge(*bench, "--seed", "7").stdout)
        self.assertNotIn("measure.inputs", json.loads(self.ridge(*bench, "--json").stdout)["environment"]["facts"])
        self.refused(2, "optimize", "gemm", "--yes", "--proposer", "replay:x", "--seed", "3", says="--seed 3 is for the search")


class Configuration(Base):
    def write(self, text):
        file = self.tmp / "config/ridge/config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def tearDown(self):
        shutil.rmtree(self.tmp / "config", ignore_errors=True)

    def test_where_it_is(self):
        self.assertEqual(self.ridge("config", "path").stdout, f"{self.tmp}/config/ridge/config.toml\n")
        home = self.ridge("config", "path", XDG_CONFIG_HOME="", HOME="/home/me")
        self.assertEqual(home.stdout, "/home/me/.config/ridge/config.toml\n")
        self.assertIn("does not exist", self.ridge("config", "show").stdout)

    def test_flags_beat_the_environment_beats_the_file(self):
        self.write('color = "always"\ncache-dir = "from-file"\n[check]\nall = true\nimpl = ["cpu_simd"]\n')
        check = ("check", "gemm", "m=8", "n=8", "k=8")
        shown = self.ridge(*check)
        self.assertIn("\x1b[32mPASS\x1b[0m cpu_simd", re.sub(" +", " ", shown.stdout))
        self.assertNotIn("reference:", shown.stdout)
        self.assertNotIn("\x1b", self.ridge(*check, NO_COLOR="1").stdout)
        self.assertNotIn("\x1b", self.ridge(*check, "--color", "never").stdout)
        self.assertIn("reference:", self.ridge(*check, "--impl", "reference").stdout)
        build = ("kernels", "list")
        self.assertIn("from-file/packs", self.ridge(*build, RIDGE_CACHE_DIR="").stderr)
        self.assertIn("from-environment/packs", self.ridge(*build, RIDGE_CACHE_DIR="from-environment").stderr)
        self.assertIn("from-flag/packs", self.ridge(*build, "--cache-dir", "from-flag").stderr)
        rows = json.loads(self.ridge("config", "show", "--json").stdout)["defaults"]
        self.assertIn({"command": "ridge check", "option": "impl", "values": ["cpu_simd"]}, rows)

    def test_what_is_wrong_is_named_with_file_and_close_name(self):
        file = self.write("[bench]\ntreads = 2\n")
        self.refused(2, "list", says=[str(file), "bench.treads", "did you mean threads?"])
        self.refused(2, "config", "show", says="bench.treads")
        self.assertEqual(self.ridge("config", "path").returncode, 0)
        self.assertEqual(self.ridge("help", "bench").returncode, 0)
        self.assertEqual(self.ridge("completion", "bash").returncode, 0)
        self.write("[bnech]\nthreads = 2\n")
        self.refused(2, "list", says=["bnech is no command", "did you mean bench?"])
        self.write("[bench\n")
        self.refused(2, "list", says=["line 1", "TOML"])
        self.write("[bench]\nthreads = [1, 2]\n")
        self.refused(2, "list", says="bench.threads takes one value")
        self.write("[bench]\nthreads = 1979-05-27\n")
        self.refused(2, "list", says="is a date")
        self.write('[list]\nthreads = "x"\n')
        self.refused(2, "list", says="list.threads is no option of ridge list")
        self.write('[ceilings]\nthreads = "x"\n')
        self.refused(2, "ceilings", says=[str(file), '"x" is not a whole number'])


class Generated(Base):
    def test_man_pages(self):
        folder = self.tmp / "man1"
        self.assertEqual(self.ridge("help", "--man-pages", folder).returncode, 0)
        pages = {page.name: page.read_text() for page in folder.iterdir()}
        self.assertEqual(set(pages), {"-".join(["ridge", *entry["path"]]) + ".1" for entry in self.table})
        self.assertEqual(pages["ridge-bench.1"], self.ridge("help", "--man", "bench").stdout)
        for name, page in pages.items():
            for section in ("NAME", "SYNOPSIS", "JSON OUTPUT", "EXIT STATUS", "SEE ALSO"):
                self.assertIn(f".SH {section}\n", page, name)
        if shutil.which("groff"):
            for name, page in pages.items():
                done = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            shown = subprocess.run(["groff", "-man", "-Tascii"], input=pages["ridge-bench.1"], capture_output=True, text=True).stdout
            self.assertIn("--time-limit", re.sub(".\x08", "", COLOUR.sub("", shown)))  # bold is overstruck

    def environment_with_ridge(self):
        return {**self.environment, "PATH": f"{RIDGE.parent}:{self.environment['PATH']}"}

    def complete_bash(self, *words):
        script = ('source <(ridge completion bash)\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ridge\nprintf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", "ridge", *words], capture_output=True, text=True, cwd=self.tmp,
                              env=self.environment_with_ridge())
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout.split("\n")[:-1]

    def test_bash_completion(self):
        self.assertIn("bench", self.complete_bash(""))
        self.assertEqual(self.complete_bash("campaign", "ver"), ["verify"])
        self.assertEqual(self.complete_bash("bench", "--mo"), ["--mode"])
        self.assertEqual(self.complete_bash("bench", "--mode", ""), ["cold", "warm"])
        self.assertEqual(self.complete_bash("bench", "gemm", "--color", "n"), ["never"])
        self.assertEqual(self.complete_bash("--color", "never", "ben"), ["bench"])
        self.assertEqual(self.complete_bash("help", "roof"), ["roofline"])
        self.assertIn("gemm", self.complete_bash("bench", ""))
        self.assertIn("H200", self.complete_bash("roofline", "--on", "H2"))
        (self.tmp / "a file.cpp").write_text("")
        self.assertEqual(self.complete_bash("check", "gemm", "--candidate", "a f"), ["a file.cpp"])
        for entry in self.table:  # every command and flag of the table is offered
            words = entry["path"] + (["--"] if not entry["group"] else [""])
            offered = self.complete_bash(*words)
            if entry["group"]:
                below = [one["path"][-1] for one in self.table if one["path"][:-1] == entry["path"] and one["path"]]
                self.assertEqual(sorted(offered), sorted(below))
            for option in [] if entry["group"] else entry["options"]:
                self.assertIn([flag for flag in option["flags"] if flag.startswith("--")][0], offered)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_completion(self):
        def complete(line):
            done = subprocess.run(["fish", "-c", f"ridge completion fish | source; complete -C '{line}'"], capture_output=True, text=True,
                                  env={**self.environment_with_ridge(), "HOME": str(self.tmp)}, cwd=self.tmp)
            self.assertEqual((done.returncode, done.stderr), (0, ""), line)
            return [row.split("\t")[0] for row in done.stdout.splitlines()]
        self.assertEqual(complete("ridge campaign ver"), ["verify"])
        self.assertEqual(complete("ridge bench gemm --mo"), ["--mode"])
        self.assertEqual(complete("ridge bench --mode "), ["cold", "warm"])
        self.assertIn("gemm", complete("ridge bench "))
        self.assertEqual(complete("ridge --color never ben"), ["bench"])

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_completion(self):
        script = self.tmp / "_ridge"
        self.assertEqual(self.ridge("completion", "zsh", "--out", script).returncode, 0)
        subprocess.run(["zsh", "-n", script], check=True)
        shell, terminal = pty.fork()
        if shell == 0:
            os.chdir(self.tmp)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**self.environment_with_ridge(), "PS1": "> "})

        # ^Xd writes the command line to a file and empties it.
        line = self.tmp / "line"
        os.write(terminal, (f"fpath=({self.tmp} $fpath); autoload -U compinit; compinit -u -D; "
                            f"dump() {{ print -r -- $BUFFER >! {line}; zle kill-buffer }}; zle -N dump; bindkey '^Xd' dump\n").encode())

        def completed(keys, seconds=20):
            line.unlink(missing_ok=True)
            os.write(terminal, (keys + "\t\x18d").encode())
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and not (line.exists() and line.read_text().endswith("\n")):
                if select.select([terminal], [], [], 0.05)[0]:
                    os.read(terminal, 4096)
            return line.read_text()
        try:
            self.assertEqual(completed("ridge campaign ver"), "ridge campaign verify \n")
            self.assertEqual(completed("ridge bench gemm --mo"), "ridge bench gemm --mode \n")
            self.assertEqual(completed("ridge bench gemm --mode w"), "ridge bench gemm --mode warm \n")
            self.assertEqual(completed("ridge roofl"), "ridge roofline \n")
        finally:
            os.kill(shell, 9)
            os.waitpid(shell, 0)
            os.close(terminal)


if __name__ == "__main__":
    unittest.main()
