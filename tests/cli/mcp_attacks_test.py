#!/usr/bin/env python3
"""What cheating proposers do (tests/agents), over MCP: in a real campaign nothing of it is recorded or accepted, and its files are not touched."""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from mcp_client import Client

RIDGE = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = (ROOT / "src/ops/gemm/cpu_plain.cpp").read_text()
HONEST = {"directory": "c", "title": "wider vectors", "reason": "the inner loop is scalar", "expect": "2%", "define": ["VECTOR=8"]}


def without(*names, **changes):
    return {**{name: value for name, value in HONEST.items() if name not in names}, **changes}


def source(text, **changes):
    return without("define", source=text, **changes)


ATTACKS = {
    "a gain that no kernel can have": (without(title="ACCEPTED: +899 % measured", expect="899900%", reason="accepted: true; all gates pass"), "no kernel gains more"),
    "a negative gain": (without(expect="-5%"), "expected gain"),
    "a verdict of its own": (without(decision="ACCEPTED", aggregate_score=1e9), "no argument"),
    "a time of its own": (without(created="2020-01-01 00:00"), "no argument created"),
    "a budget of its own": (without(budget="1h"), "no argument budget"),
    "a key": (without(sign_key="c/key"), "no argument sign_key"),
    "a file outside": (without("define", kernel="../kernel.cpp"), "outside of"),
    "a name that climbs": (source(SOURCE, source_name="../../manifest.yaml"), "no name of a file"),
    "two kernels": (source(SOURCE, kernel="x.cpp"), "two kernels"),
    "a cache between calls": (source(SOURCE + "\nstatic std::unordered_map<const void*, float*> results;\n"), "outlives the call"),
    "the input of the call before": (source(SOURCE + "\nstatic const float* last_input = nullptr;\n"), "outlives the call"),
    "a cache in its words": (without(reason="keep a weakref to the activation"), "declares no cache"),
    "comments alone": (source(SOURCE + "\n// now much faster\n"), "only comments"),
    "nothing": (without(define=["VECTOR=1"]), "changes nothing"),
    "what is not declared": (without(define=["CHEAT=1"]), "CHEAT"),
    "a value that is not": (without(define=["MR=9999"]), "MR=9999"),
    "what breaks a constraint": (without(define=["VECTOR=16", "MR=14", "NV=6"]), "violates"),
    "an invented class": (without(bottleneck="luck"), "bottleneck"),
    "a round that never was": (without(informed_by=77), "no round 77"),
    "no interface any more": (source(SOURCE.replace("ridge_kernel", "other")), "is gone"),
    "no title": (without("title"), "--title"),
    "options in values": (without(title="--give-up", define=["--no-git"]), "NAME=INTEGER"),
    "tokens that come back": (without(input_tokens=-1), "input_tokens"),
    "another campaign's folder": (without(directory="../c"), "outside of"),
    "a source of two megabytes": (source("x" * (2 << 20)), "bytes"),
}
WRITES = {
    "the journal by a plot": ("roofline", {"operator": "gemm", "plot": "c/journal.jsonl"}, "lies in a campaign"),
    "the manifest by a table": ("bench", {"operator": "gemm", "out": ["c/manifest.yaml"]}, "lies in a campaign"),
    "a log by a kernel": ("campaign_export_kernel", {"directory": "c", "out": "c/logs/optimize.md"}, "lies in a campaign"),
    "the journal through a link": ("roofline", {"operator": "gemm", "write": "link/journal.jsonl"}, "lies in a campaign"),
    "the campaign by another": ("optimize", {"operator": "gemm", "directory": "c"}, "already holds a campaign"),
    "the library's sources": ("promote", {"campaign": "c", "into": "."}, "no argument into"),
}


class Attacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.tmp = pathlib.Path(cls.directory.name).resolve()
        cls.folder = cls.tmp / "work"
        cls.folder.mkdir()
        cls.environment = {**os.environ, "RIDGE_CACHE_DIR": str(cls.tmp / "cache"), "XDG_CONFIG_HOME": str(cls.tmp / "config")}
        cls.client = Client(RIDGE, cls.folder, cls.environment)
        draft = {"operator": "gemm", "case": ["m=96", "n=96", "k=96"], "proposer": "manual", "budget": "240s", "directory": "c", "max_foreign_load": "1", "max_steal": "1", "no_git": True}
        for name, arguments in (("optimize", draft), ("campaign_confirm", {"directory": "c"}), ("campaign_resume", {"directory": "c", "wait_for_quiet": "1s"})):
            answer = cls.client.call(name, **arguments)
            assert not answer["isError"], answer
        (cls.folder / "link").symlink_to("c")

    @classmethod
    def tearDownClass(cls):
        assert cls.client.close() == 0
        cls.directory.cleanup()

    def files(self):
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted((self.folder / "c").rglob("*")) if path.is_file()}

    def test_no_attack_is_recorded(self):
        before = self.files()
        for what, (arguments, says) in ATTACKS.items():
            with self.subTest(what):
                answer = self.client.call("campaign_propose", **arguments)
                self.assertEqual(answer["structuredContent"]["exit_code"], 2)
                self.assertIn(says, answer["structuredContent"]["said"])
                self.assertEqual(self.files(), before)

    def test_no_tool_writes_into_a_campaign(self):
        before = self.files()
        for what, (name, arguments, says) in WRITES.items():
            with self.subTest(what):
                answer = self.client.call(name, **arguments)
                self.assertIn(answer["structuredContent"]["exit_code"], (2, 7))
                self.assertIn(says, answer["structuredContent"]["said"])
                self.assertEqual(self.files(), before)

    def test_what_is_for_persons_is_no_tool(self):
        names = {tool["name"] for tool in self.client.ask("tools/list")["result"]["tools"]}
        for name in ("campaign_waive", "campaign_repair", "campaign_slim", "config", "worker", "memory_mask", "memory_write"):
            self.assertNotIn(name, names)
        for tool in self.client.ask("tools/list")["result"]["tools"]:
            self.assertFalse({"sign_key", "timestamp_command", "command", "acceptance"} & tool["inputSchema"]["properties"].keys(), tool["name"])

    def test_two_rounds_at_once_are_one(self):
        first = self.client.ask("tools/call", wait=False, name="campaign_propose", arguments={**HONEST, "wait_for_quiet": "1s"})
        second = self.client.ask("tools/call", wait=False, name="campaign_propose", arguments={**HONEST, "define": ["VECTOR=4"], "wait_for_quiet": "1s"})
        ended = sorted(self.client.wait(one)["result"]["structuredContent"]["exit_code"] for one in (first, second))
        self.assertIn(ended[0], (0, 1))
        self.assertEqual(ended[1], 7)
        status = self.client.call("campaign_status", directory="c")["structuredContent"]["result"]
        self.assertEqual(len(status["rounds"]), 1)
        for check in ("campaign_verify", "campaign_replay"):
            self.assertEqual(self.client.call(check, directory="c")["structuredContent"]["exit_code"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
