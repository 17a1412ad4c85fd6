#!/usr/bin/env python3
"""`ridge mcp --port`: the protocol over HTTP in both eras, several clients at once, foreign pages and wrong tokens refused."""
import base64
import http.client
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

RIDGE = pathlib.Path(sys.argv.pop(1)).resolve()
REVISION = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientCapabilities": {}}
BOTH = "application/json, text/event-stream"
EXPLAIN = {"name": "ops_explain", "arguments": {"operator": "gemm", "case": ["m=8", "n=8", "k=8"]}}


class Base(unittest.TestCase):
    words = ()

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.tmp = pathlib.Path(self.directory.name).resolve()
        self.folder = self.tmp / "work"
        self.folder.mkdir()
        self.environment = {**os.environ, "RIDGE_CACHE_DIR": str(self.tmp / "cache"), "XDG_CONFIG_HOME": str(self.tmp / "config")}
        self.start()

    def start(self):
        self.server = subprocess.Popen([RIDGE, "mcp", "--root", self.folder, "--port", "0", *self.words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env=self.environment)
        said = self.server.stderr.readline()
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)/mcp", said)[1])
        self.token = "" if self.words else re.search(r"Bearer ([0-9a-f]{64})$", self.server.stderr.readline().strip())[1]

    def tearDown(self):
        self.server.send_signal(signal.SIGTERM)
        _, said = self.server.communicate(timeout=60)
        self.assertEqual(self.server.returncode, 130, said)
        self.directory.cleanup()

    def request(self, method="POST", body=b"", path="/mcp", token=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        sent = {"Accept": BOTH, "Content-Type": "application/json", "Authorization": f"Bearer {self.token if token is None else token}"}
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        connection.request(method, path, body, {name: value for name, value in sent.items() if value is not None})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text

    def ask(self, method, identifier=1, progress=None, headers={}, **parameters):
        """A request of 2026-07-28: its answer, and what came before it."""
        meta = {**META, **({"progressToken": progress} if progress else {})}
        body = json.dumps({"jsonrpc": "2.0", "id": identifier, "method": method, "params": {**parameters, "_meta": meta}})
        sent = {"Mcp_Protocol_Version": REVISION, "Mcp_Method": method}
        if subject := parameters.get("name", parameters.get("uri")):
            sent["Mcp_Name"] = subject
        answer, text = self.request(body=body, **{**sent, **headers})
        messages = [json.loads(text)] if "json" in answer.headers["Content-Type"] else [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        return answer, messages[-1], messages[:-1]

    def older(self, session, method, identifier=1, **parameters):
        """A request of an earlier revision."""
        body = {"jsonrpc": "2.0", "method": method, "params": parameters, **({"id": identifier} if identifier else {})}
        headers = {"Mcp_Session_Id": session} if session else {}
        return self.request(body=json.dumps(body), **headers)

    def begin(self):
        answer, text = self.older(None, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "1"})
        self.assertEqual(json.loads(text)["result"]["protocolVersion"], "2025-06-18")
        return answer.headers["Mcp-Session-Id"]


class Access(Base):
    def test_without_the_token_nothing_is_answered(self):
        for token in ("", "0" * 64, self.token[:-1], self.token + "0"):
            answer, text = self.request(body='{"jsonrpc":"2.0","id":1,"method":"ping"}', token=token)
            self.assertEqual(answer.status, 401, text)

    def test_pages_of_other_sites_are_refused(self):
        answer, _ = self.request(body="{}", Origin="https://evil.example")
        self.assertEqual(answer.status, 403)
        answer, _ = self.request(body="{}", Host=f"evil.example:{self.port}")
        self.assertIn(answer.status, (400, 403, 421))
        answer, _ = self.request(body="{}", Content_Type="text/plain")  # what a page may send without being asked
        self.assertEqual(answer.status, 415)

    def test_methods_and_paths_that_are_not_there(self):
        self.assertEqual(self.request("GET")[0].status, 405)
        self.assertEqual(self.request("POST", path="/")[0].status, 404)
        self.assertEqual(self.request(body="{}", Accept="text/html")[0].status, 406)

    def test_a_port_that_is_taken_is_said(self):
        second = subprocess.run([RIDGE, "mcp", "--port", str(self.port)], capture_output=True, text=True, env=self.environment)
        self.assertEqual(second.returncode, 7, second.stderr)
        self.assertIn(str(self.port), second.stderr)
        for port in ("65536", "-1", str(2**32 + 8422)):
            refused = subprocess.run([RIDGE, "mcp", "--port", port], capture_output=True, text=True, env=self.environment, timeout=30)
            self.assertEqual((refused.returncode, f"{port} is no port" in refused.stderr), (2, True), refused.stderr)


class TokenFile(Base):
    def setUp(self):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".token")
        self.file.write("a-token-of-ones-own-1234\n")
        self.file.flush()
        self.words = ("--token-file", self.file.name)
        super().setUp()
        self.token = "a-token-of-ones-own-1234"

    def test_the_token_of_a_file(self):
        self.assertEqual(self.request(body="{}", token="another")[0].status, 401)
        answer, message, _ = self.ask("server/discover")
        self.assertEqual((answer.status, message["result"]["supportedVersions"][0]), (200, REVISION))

    def test_a_file_without_one_is_refused(self):
        for text in ("", "short\n", "two words of some length\n"):
            (self.tmp / "bad").write_text(text)
            done = subprocess.run([RIDGE, "mcp", "--port", "0", "--token-file", self.tmp / "bad"], capture_output=True, text=True, env=self.environment)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("openssl rand", done.stderr)
        (self.tmp / "bad").write_text("a-token-that-others-may-read\n")
        (self.tmp / "bad").chmod(0o644)
        done = subprocess.run([RIDGE, "mcp", "--port", "0", "--token-file", self.tmp / "bad"], capture_output=True, text=True, env=self.environment)
        self.assertEqual((done.returncode, "chmod 600" in done.stderr), (2, True), done.stderr)


class Modern(Base):
    def test_requests_stand_for_themselves(self):
        answer, message, _ = self.ask("tools/list")
        self.assertEqual(answer.status, 200)
        self.assertNotIn("Mcp-Session-Id", answer.headers)
        self.assertEqual(message["result"]["resultType"], "complete")
        answer, message, before = self.ask("tools/call", progress="p", **EXPLAIN)
        self.assertFalse(message["result"]["isError"], message)
        self.assertEqual(message["result"]["structuredContent"]["exit_code"], 0)

    def test_a_client_that_takes_no_streams_gets_one_document(self):
        answer, message, _ = self.ask("tools/call", headers={"Accept": "application/json"}, **EXPLAIN)
        self.assertIn("application/json", answer.headers["Content-Type"])
        self.assertFalse(message["result"]["isError"], message)

    def test_headers_must_say_what_the_message_says(self):
        for headers in ({"Mcp_Protocol_Version": "2025-06-18"}, {"Mcp_Protocol_Version": None}, {"Mcp_Method": "tools/list"}, {"Mcp_Name": "doctor"},
                        {"Mcp_Name": "=?base64?!?="}):
            answer, message, _ = self.ask("tools/call", headers=headers, **EXPLAIN)
            self.assertEqual((answer.status, message["error"]["code"]), (400, -32020), headers)
        encoded = "=?base64?" + base64.b64encode(b"ops_explain").decode() + "?="
        self.assertIn("result", self.ask("tools/call", headers={"Mcp_Name": encoded}, **EXPLAIN)[1])

    def test_misuse_has_the_protocols_own_errors_and_statuses(self):
        for body, status, code in (("{", 400, -32700), ("[]", 400, -32600), ("7", 400, -32600), ('{"jsonrpc":"2.0","id":5}', 400, -32600)):
            answer, text = self.request(body=body)
            self.assertEqual((answer.status, json.loads(text)["error"]["code"]), (status, code), body)
        answer, message, _ = self.ask("tools/steal")
        self.assertEqual((answer.status, message["error"]["code"]), (404, -32601))
        answer, message, _ = self.ask("tools/call", name="rm", arguments={})
        self.assertEqual((answer.status, message["error"]["code"]), (400, -32602))
        answer, text = self.request(body=json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}), Mcp_Protocol_Version=REVISION)
        self.assertEqual((answer.status, text), (202, ""))

    def test_a_message_that_is_too_large_is_refused(self):
        try:
            answer, _ = self.request(body='"' + "x" * (17 << 20) + '"')
            self.assertEqual(answer.status, 413)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server closed while we still wrote
        self.assertIn("result", self.ask("server/discover")[1])

    def test_paths_stay_inside_the_folder(self):
        _, message, _ = self.ask("tools/call", name="inspect", arguments={"file": "/etc/passwd"})
        self.assertIn("outside of", message["result"]["structuredContent"]["said"])
        answer, message, _ = self.ask("resources/read", uri="ridge://campaign/../../etc/passwd")
        self.assertEqual((answer.status, message["error"]["code"]), (400, -32602))

    def test_closing_the_stream_cancels_the_call(self):
        body = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/call",
                           "params": {"name": "bench", "arguments": {"operator": "gemm", "case": ["m=1024", "n=1024", "k=1024"], "min_time": "60"},
                                      "_meta": {**META, "progressToken": "t"}}})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", "/mcp", body, {"Accept": BOTH, "Content-Type": "application/json", "Authorization": f"Bearer {self.token}",
                                                  "Mcp-Protocol-Version": REVISION, "Mcp-Method": "tools/call", "Mcp-Name": "bench"})
        answer = connection.getresponse()
        line = b""
        while not line.startswith(b"data: "):
            line = answer.readline()
        self.assertEqual(json.loads(line[6:])["params"]["progressToken"], "t")
        self.assertTrue(self.workers())
        answer.close()
        connection.close()
        deadline = time.monotonic() + 60
        while self.workers() and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertFalse(self.workers())

    def workers(self):
        """The processes that the server has started and that run."""
        found = subprocess.run(["ps", "--ppid", str(self.server.pid), "-o", "stat="], capture_output=True, text=True).stdout.split()
        return [state for state in found if not state.startswith("Z")]


class Older(Base):
    def test_a_session_from_initialize_to_its_end(self):
        session = self.begin()
        answer, text = self.older(session, "notifications/initialized", None)
        self.assertEqual((answer.status, text), (202, ""))
        answer, text = self.older(session, "tools/list", Mcp_Protocol_Version="2025-06-18")
        self.assertNotIn("resultType", json.loads(text)["result"])
        answer, text = self.older(session, "tools/call", **EXPLAIN)
        messages = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        self.assertFalse(messages[-1]["result"]["isError"])
        self.assertEqual(self.request("DELETE", Mcp_Session_Id=session)[0].status, 200)
        self.assertEqual(self.older(session, "ping")[0].status, 404)

    def test_without_a_session_it_is_told_what_to_do(self):
        answer, text = self.older(None, "tools/list")
        self.assertEqual(answer.status, 400)
        self.assertIn("Mcp-Session-Id", json.loads(text)["error"]["message"])
        self.assertEqual(self.older("0" * 64, "ping")[0].status, 404)

    def test_one_client_does_not_cancel_the_call_of_another(self):
        first, second = self.begin(), self.begin()
        self.assertNotEqual(first, second)
        answers = []
        call = threading.Thread(target=lambda: answers.append(self.older(first, "tools/call", 7, name="doctor", arguments={})))
        call.start()
        time.sleep(0.3)
        self.older(second, "notifications/cancelled", None, requestId=7)
        call.join()
        self.assertIn('"exit_code":0', answers[0][1])


class Many(Base):
    words = ()

    def test_clients_at_once_have_their_own_answers(self):
        names = [f"m={8 * i}" for i in range(1, 13)]
        found = {}

        def one(name):
            while True:
                _, message, _ = self.ask("tools/call", identifier=1, name="ops_explain", arguments={"operator": "gemm", "case": [name, "n=8", "k=8"]})
                if message["result"]["structuredContent"]["exit_code"] != 7:  # too many at once: as it says, later
                    found[name] = json.dumps(message["result"]["structuredContent"]["result"])
                    return
                time.sleep(0.1)

        threads = [threading.Thread(target=one, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name in names:
            self.assertIn(f"{name} ", found[name])


class OfficialClient(Base):
    """The client of the protocol's own Python package, in the Python that runs this, where it has it."""

    @unittest.skipUnless(importlib.util.find_spec("mcp"), "no package mcp here")
    def test_it_lists_and_calls(self):
        import asyncio

        import mcp
        url, headers = f"http://127.0.0.1:{self.port}/mcp", {"Authorization": f"Bearer {self.token}"}

        async def older():
            import httpx
            from mcp.client.streamable_http import streamable_http_client
            async with httpx.AsyncClient(headers=headers) as client, streamable_http_client(url, http_client=client) as streams:
                async with mcp.ClientSession(streams[0], streams[1]) as session:
                    await session.initialize()
                    tools = await session.list_tools()
                    answer = await session.call_tool("ops_explain", EXPLAIN["arguments"])
                    return "2025", [tool.name for tool in tools.tools], answer.isError

        async def newest(mode):
            import httpx2
            from mcp.client.streamable_http import streamable_http_client
            async with httpx2.AsyncClient(headers=headers) as http_client:
                async with mcp.Client(streamable_http_client(url, http_client=http_client), mode=mode) as client:
                    tools = await client.list_tools()
                    answer = await client.call_tool("ops_explain", EXPLAIN["arguments"])
                    return client.protocol_version, [tool.name for tool in tools.tools], answer.is_error

        for talk in (lambda: newest(REVISION), lambda: newest("legacy")) if hasattr(mcp, "Client") else (older,):
            version, names, failed = asyncio.run(talk())
            self.assertIn("campaign_propose", names)
            self.assertFalse(failed, version)


if __name__ == "__main__":
    unittest.main(verbosity=2)
