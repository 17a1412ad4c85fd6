#!/usr/bin/env python3
"""examples/agents/loop.py against a scripted endpoint: tools are called, misuse is told to the model, failures of the endpoint are tried again, and a
round's cost reaches the campaign."""
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

RIDGE = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
LOOP = ROOT / "examples/agents/loop.py"


def calls(*pairs):
    return {"role": "assistant", "content": None,
            "tool_calls": [{"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}}
                           for i, (name, arguments) in enumerate(pairs)]}


class Endpoint:
    """Answers with one message after the other; a number is an HTTP status instead."""

    def __init__(self, script):
        self.requests = []
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.requests.append((self.path, self.headers.get("Authorization"), body))
                step = script.pop(0) if script else 500
                if isinstance(step, int):
                    self.send_response(step)
                    self.send_header("Retry-After", "0")
                    self.end_headers()
                    self.wfile.write(b"later")
                    return
                answer = json.dumps({"choices": [{"message": step}], "usage": {"prompt_tokens": 1000, "completion_tokens": 100}}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def results(self):
        """What the model was told, by call, from the last request."""
        return {message["tool_call_id"]: json.loads(message["content"]) for message in self.requests[-1][2]["messages"] if message["role"] == "tool"}


class Loop(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name).resolve() / "work"
        self.folder.mkdir()
        self.environment = {**os.environ, "RIDGE_CACHE_DIR": directory.name + "/cache", "XDG_CONFIG_HOME": directory.name + "/config", "OPENAI_API_KEY": "k-1"}

    def run_loop(self, script, *words):
        endpoint = Endpoint(script)
        self.addCleanup(endpoint.server.server_close)
        self.addCleanup(endpoint.server.shutdown)
        done = subprocess.run([sys.executable, LOOP, "--endpoint", f"http://127.0.0.1:{endpoint.server.server_port}/v1", "--model", "m-1", "--root", self.folder, "--ridge", RIDGE,
                               *words], capture_output=True, text=True, env=self.environment, timeout=300)
        return done, endpoint

    def test_tools_misuse_and_an_endpoint_that_fails(self):
        done, endpoint = self.run_loop([429, calls(("ops_explain", {"operator": "gemm", "case": ["m=8", "n=8", "k=8"]}), ("rm", {}), ("ops_explain", "{no json"),
                                                   ("ops_explain", "[1]"), ("inspect", {"file": "/etc/passwd"})), 503,
                                        {"role": "assistant", "content": "It was looked at."}], "--log", str(self.folder / "log.jsonl"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "It was looked at.\n")
        self.assertIn("2 turns, 2000 tokens in, 200 out", done.stderr)
        path, key, first = endpoint.requests[0]
        self.assertEqual((path, key), ("/v1/chat/completions", "Bearer k-1"))
        self.assertIn("campaign_propose", [tool["function"]["name"] for tool in first["tools"]])
        self.assertIn("optimize", first["messages"][1]["content"])
        results = endpoint.results()
        self.assertEqual(results["c0"]["exit_code"], 0)
        self.assertIn('there is no tool "rm"', results["c1"]["said"])
        self.assertEqual([results[one]["exit_code"] for one in ("c2", "c3", "c4")], [2, 2, 2])
        self.assertIn("outside of", results["c4"]["said"])
        logged = [json.loads(line)["role"] for line in (self.folder / "log.jsonl").read_text().splitlines()]
        self.assertEqual(logged, ["assistant", *["tool"] * 5, "assistant"])

    def test_limits_end_it(self):
        look = calls(("ops_list", {}))
        done, _ = self.run_loop([look] * 9, "--max-turns", "2")
        self.assertIn("2 turns are used up", done.stderr)
        done, _ = self.run_loop([look] * 9, "--max-usd", "0.01", "--price-in", "5", "--price-out", "10")  # 0.006 a turn
        self.assertIn("0.01 USD are used up", done.stderr)
        self.assertIn("2 turns", done.stderr)
        done, _ = self.run_loop([401])
        self.assertEqual(done.returncode, 1)
        self.assertIn("the endpoint answered 401: later", done.stderr)

    def test_a_round_and_what_it_took(self):
        propose = {"directory": "c", "wait_for_quiet": "1s", "title": "wider vectors", "reason": "the inner loop is scalar", "expect": "2%", "define": ["VECTOR=8"]}
        draft = {"operator": "gemm", "case": ["m=96", "n=96", "k=96"], "proposer": "manual", "budget": "240s", "directory": "c", "max_foreign_load": "1", "max_steal": "1", "no_git": True}
        done, endpoint = self.run_loop([calls(("optimize", draft)), calls(("campaign_confirm", {"directory": "c"})), calls(("campaign_resume", {"directory": "c", "wait_for_quiet": "1s"})),
                                        calls(("campaign_context", {"directory": "c"})), calls(("campaign_propose", propose)), calls(("campaign_status", {"directory": "c"})),
                                        {"role": "assistant", "content": "Done."}], "--price-in", "1", "--price-out", "10")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = [json.loads(message["content"]) for message in endpoint.requests[-1][2]["messages"] if message["role"] == "tool"]
        self.assertEqual(told[3]["result"]["round"], 2, told[3])
        self.assertIn(told[4]["exit_code"], (0, 1), told[4])
        usage = json.loads(subprocess.run([RIDGE, "campaign", "status", "c", "--json"], capture_output=True, text=True, cwd=self.folder, env=self.environment).stdout)["usage"]
        self.assertEqual((usage["model"], usage["turns"], usage["input_tokens"], usage["output_tokens"]), ("m-1", 5, 5000, 500))
        self.assertAlmostEqual(usage["usd"], 0.01)
        self.assertIn("| 5 | 0.0100 | 0.0100 |", (self.folder / "c/logs/cost.md").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
