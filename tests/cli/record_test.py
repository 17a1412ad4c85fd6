#!/usr/bin/env python3
"""The record of a campaign at the command line: keys, signatures, repair, and files that are not what they should be."""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

RIDGE = pathlib.Path(sys.argv.pop(1)).resolve()
PLAIN = pathlib.Path(__file__).resolve().parents[2] / "src/ops/gemm/cpu_plain.cpp"


def chain(lines):
    """The events of a journal, chained anew as a forger would."""
    text, previous = "", "0" * 64
    for event in lines:
        event["previous"], event["hash"] = previous, ""
        event["hash"] = previous = hashlib.sha256(json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
        text += json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n"
    return text


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.tmp = pathlib.Path(cls.directory.name)
        cls.environment = {**os.environ, "RIDGE_CACHE_DIR": str(cls.tmp / "cache"), "XDG_CONFIG_HOME": str(cls.tmp / "config")}
        cls.environment.pop("RIDGE_SIGN_KEY", None)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def ridge(self, *arguments, timeout=60, **extra):
        return subprocess.run([RIDGE, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, cwd=self.tmp,
                              stdin=subprocess.DEVNULL, env={**self.environment, **extra})

    def ends(self, code, *arguments, says=(), **extra):
        result = self.ridge(*arguments, **extra)
        self.assertEqual(result.returncode, code, f"{arguments}: {result.stdout}{result.stderr}")
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, result.stdout + result.stderr)
        return result

    def draft(self, name, *more):
        """A campaign that waits for its confirmation: nothing is measured but ceilings."""
        self.ends(7, "optimize", "gemm", "m=8", "n=8", "k=8", "--directory", name, *more, says="waits for confirmation")
        return self.tmp / name / "journal.jsonl"


class Anchored(Base):
    def test_a_campaign_is_signed_from_its_first_line_on(self):
        self.ends(0, "campaign", "key", "new", "key", says="ed25519-")
        self.ends(7, "campaign", "key", "new", "key", says="exists already")
        shown = json.loads(self.ridge("campaign", "key", "show", "key.pub", "--json").stdout)["key"]
        (self.tmp / "config/ridge").mkdir(parents=True)
        (self.tmp / "config/ridge/config.toml").write_text(f'[optimize]\nsign-key = "{self.tmp}/key"\n')
        journal = self.draft("signed")
        (self.tmp / "config/ridge/config.toml").unlink()
        self.ends(0, "campaign", "confirm", "signed")
        self.assertIn(f"signing_key: {shown}", (self.tmp / "signed/manifest.yaml").read_text())
        clean = self.ends(0, "campaign", "verify", "signed", "--key", "key.pub", "--json")
        audit = json.loads(clean.stdout)
        self.assertEqual((audit["ok"], audit["key"], audit["signed_events"]), (True, shown, 2))
        self.assertNotIn("first_unsigned", audit)
        self.ends(0, "campaign", "verify", "signed", says="Does not prove who wrote it")

        events = [json.loads(line) for line in journal.read_text().splitlines()]
        events[1]["payload"]["by"] = "somebody else"
        journal.write_text(chain(events))
        self.ends(0, "campaign", "verify", "signed")  # a chain alone proves consistency
        self.ends(1, "campaign", "verify", "signed", "--key", "key.pub", says="line 2 is not the line that was signed")
        forged = json.loads(self.ridge("campaign", "verify", "signed", "--key", "key.pub", "--json").stdout)
        self.assertEqual((forged["ok"], forged["first_unsigned"]), (False, 2))
        self.ends(2, "campaign", "extend", "signed", "--budget", "1m", says="is not the line that was signed")

    def test_what_is_no_key_is_refused(self):
        self.draft("plain")
        (self.tmp / "no.key").write_text("no key")
        self.ends(2, "campaign", "verify", "plain", "--key", "no.key", says="holds no Ed25519 key")
        self.ends(2, "campaign", "verify", "plain", "--key", "absent", says="absent")
        (self.tmp / "open.key").write_text((self.tmp / "no.key").read_text())
        (self.tmp / "open.key").chmod(0o644)
        self.ends(2, "optimize", "gemm", "m=8", "n=8", "k=8", "--directory", "n", "--sign-key", "open.key", says="chmod 600")
        self.ends(0, "campaign", "key", "new", "later")
        self.ends(1, "campaign", "verify", "plain", "--key", "later.pub", says="line 1 is not signed")


class Repair(Base):
    def test_an_edited_line_and_all_behind_it_can_be_dropped(self):
        journal = self.draft("edited")
        self.ends(0, "campaign", "confirm", "edited")
        good = journal.read_bytes()
        journal.write_bytes(good.replace(b'"ridge campaign confirm"', b'"ridge campaign sonfirm"'))
        self.ends(2, "campaign", "verify", "edited", says=("line 2", "ridge campaign repair"))
        self.ends(7, "campaign", "repair", "edited", says=("1 line from line 2 on", "--yes"))
        self.ends(0, "campaign", "repair", "edited", "--yes", says="dropped-1")
        self.assertIn(b"sonfirm", (self.tmp / "edited/dropped-1/journal.jsonl").read_bytes())
        self.ends(0, "campaign", "verify", "edited")
        self.ends(0, "campaign", "repair", "edited", says="are good")
        self.ends(0, "campaign", "confirm", "edited")
        journal.write_bytes(b"x" + journal.read_bytes())
        self.ends(2, "campaign", "repair", "edited", "--yes", says="not even its first line")


class Unfriendly(Base):
    def test_readers_take_regular_files_only(self):
        os.mkfifo(self.tmp / "pipe")
        (self.tmp / "trap").mkdir()
        os.mkfifo(self.tmp / "trap/journal.jsonl")
        (self.tmp / "zero").mkdir()
        (self.tmp / "zero/journal.jsonl").symlink_to("/dev/zero")
        for command in (("check", "gemm", "--candidate", "pipe"), ("optimize", "gemm", "--kernel", "pipe", "--directory", "p"),
                        ("inspect", "pipe"), ("campaign", "key", "show", "pipe"), ("bench", "gemm", "--shapes", "pipe"),
                        ("campaign", "status", "trap"), ("campaign", "verify", "trap"), ("campaign", "replay", "trap"),
                        ("campaign", "repair", "trap"), ("campaign", "resume", "trap")):
            result = self.ridge(*command, timeout=20)
            if "--shapes" in command and "no option" in result.stderr:
                continue
            self.assertEqual(result.returncode, 2, f"{command}: {result.stdout}{result.stderr}")
            self.assertIn("is a named pipe, not a file", result.stderr, command)
        for command in (("check", "gemm", "--candidate", "/dev/zero"), ("inspect", "/dev/zero"), ("campaign", "status", "zero"),
                        ("campaign", "verify", "zero"), ("campaign", "confirm", "zero")):
            self.ends(2, *command, says="is a device, not a file", timeout=20)

    def test_a_missing_campaign_is_said_once(self):
        for verb in ("status", "verify", "replay", "report", "resume", "repair", "confirm"):
            result = self.ends(2, "campaign", verb, "absent", says="absent holds no campaign")
            self.assertNotIn("journal.jsonl", result.stderr, verb)
            self.assertEqual(result.stderr.count("absent"), 1, f"{verb}: {result.stderr}")

    def test_nothing_steers_the_terminal(self):
        evil = "\x1b[2J\x1b]0;owned\x07\r\u202e"
        result = self.ridge("check", evil)
        self.assertNotEqual(result.returncode, 0)
        journal = self.draft("steered")
        events = [json.loads(line) for line in journal.read_text().splitlines()]
        events[0]["payload"]["spec"]["id"] = evil
        events[0]["payload"]["spec"]["kernel_source"] = evil
        journal.write_text(chain(events))
        for verb in ("status", "verify", "report", "rules", "confirm"):
            result = self.ridge("campaign", verb, "steered")
            for steering in "\x1b\x07\r\u202e":
                self.assertNotIn(steering, result.stdout + result.stderr, verb)
        (self.tmp / (evil + ".cpp")).write_text("int x;")
        for command in (("inspect", evil + ".cpp"), ("check", "gemm", "--candidate", evil + ".cpp"), (evil,), ("check", "gemm", "--" + evil)):
            result = self.ridge(*command)
            for steering in "\x1b\x07\r\u202e":
                self.assertNotIn(steering, result.stdout + result.stderr, command)

    def test_a_manifest_that_can_never_run_is_refused_with_what_is_possible(self):
        self.draft("never")
        manifest = self.tmp / "never/manifest.yaml"
        good = manifest.read_text()
        for key, bad, says in (("threads", "999999", "processors"), ("threads", "0", "at least 1"), ("mode", "hot", "cold or warm"),
                               ("memory_limit_mib", "1", "64.."), ("call_timeout", "0", "above 0"), ("max_decisions", "4294967297", "1..120"),
                               ("max_sessions", "4294967328", "1..10000")):
            lines = [f"  {key}: {bad}" if line.strip().startswith(key + ":") else line for line in good.splitlines()]
            manifest.write_text("\n".join(lines) + "\n")
            result = self.ridge("campaign", "confirm", "never")
            self.assertIn(result.returncode, (2, 3), f"{key}: {result.stdout}{result.stderr}")
            for text in (key, bad, says):
                self.assertIn(text, result.stderr)
        manifest.write_text(good)
        self.ends(0, "campaign", "confirm", "never")


    def test_absurd_shapes_are_answered_with_bytes(self):
        huge = ("m=1048576", "n=1048576", "k=1048576")
        for command in (("check", "gemm", *huge), ("check", "gemm", "m=8", "n=8", "k=8", "batch=1000000000000"),
                        ("bench", "gemm", "m=64", "n=64", "k=64", "batch=1000000000"), ("tune", "gemm", *huge),
                        ("tune", "gemm", "m=64", "n=64", "k=64", "batch=1000000000"), ("calibrate", "gemm", *huge),
                        ("compare", "gemm", *huge, "--incumbent", PLAIN, "--candidate", PLAIN)):
            result = self.ridge(*command)
            said = result.stdout + result.stderr
            self.assertNotIn("bad_alloc", said)
            self.assertNotIn("bug of ridge", said)
            self.assertNotEqual(result.returncode, 0, command)
            self.assertRegex(said, r"take\s+\d+\s+bytes,\s+of\s+\d+\s+that\s+are\s+available", f"{command}: {said}")

    def test_a_key_that_is_there_twice_is_refused(self):
        journal = self.draft("twice")
        text = journal.read_text()
        journal.write_text(text.replace('"sequence":0', '"sequence":1,"sequence":0', 1))
        self.ends(2, "campaign", "verify", "twice", says=("line 1", '"sequence" is there twice'))

    def test_errors_are_in_our_words(self):
        (self.tmp / "broken/ridge").mkdir(parents=True)
        (self.tmp / "broken/ridge/config.toml").write_text('color = "never"\nthreads = = 2\n')
        self.ends(2, "list", XDG_CONFIG_HOME=str(self.tmp / "broken"), says=("line 2", "threads = = 2", "NAME = VALUE"))
        self.draft("yaml")
        manifest = self.tmp / "yaml/manifest.yaml"
        manifest.write_text(manifest.read_text() + "a: [1,\n  b: }\n")
        said = self.ends(2, "campaign", "confirm", "yaml", says=("manifest.yaml: line", "NAME: VALUE")).stderr
        self.assertNotIn("yaml-cpp", said)


class Budget(Base):
    def test_an_error_budget_beyond_its_bound(self):
        for planned in (4294967297, 121, 0, -4294967295):
            self.ends(2, "compare", "gemm", "--incumbent", __file__, "--candidate", __file__, "--planned", planned,
                      says=f"--planned {planned}: 1 to 120")


if __name__ == "__main__":
    unittest.main(verbosity=1)
