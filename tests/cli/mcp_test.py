#!/usr/bin/env python3
"""`ridge mcp` as an agent's client uses it: both eras of the protocol, every misuse answered, no path out of its folder."""
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

import mcp_client
from mcp_client import MODERN, Client

RIDGE = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Base(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.tmp = pathlib.Path(self.directory.name).resolve()
        self.folder = self.tmp / "work"
        self.folder.mkdir()
        self.environment = {**os.environ, "RIDGE_CACHE_DIR": str(self.tmp / "cache"), "XDG_CONFIG_HOME": str(self.tmp / "config")}
        self.client = Client(RIDGE, self.folder, self.environment)

    def tearDown(self):
        self.assertEqual(self.client.close(), 0)
        self.directory.cleanup()

    def refused(self, says, name, **arguments):
        answer = self.client.call(name, **arguments)
        self.assertTrue(answer["isError"], answer)
        self.assertIn(says, answer["structuredContent"]["said"])


class Protocol(Base):
    def test_a_modern_client_needs_no_greeting(self):
        found = self.client.ask("server/discover")["result"]
        self.assertEqual(found["resultType"], "complete")
        self.assertEqual(found["supportedVersions"][0], "2026-07-28")
        listed = self.client.ask("tools/list")["result"]
        self.assertIn("ttlMs", listed)
        names = [tool["name"] for tool in listed["tools"]]
        self.assertEqual(len(names), len(set(names)))
        for wanted in ("doctor", "optimize", "campaign_confirm", "campaign_propose", "campaign_verify", "try", "tips_search", "roofline"):
            self.assertIn(wanted, names)
        for tool in listed["tools"]:
            self.assertEqual(tool["inputSchema"]["type"], "object")
            self.assertFalse({"sign_key", "json", "timestamp_command"} & tool["inputSchema"]["properties"].keys(), tool["name"])

    def test_an_older_client_initializes(self):
        answer = self.client.ask("tools/list", modern=False)
        self.assertEqual(answer["error"]["code"], -32600)
        begun = self.client.ask("initialize", modern=False, protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "1"})
        self.assertEqual(begun["result"]["protocolVersion"], "2025-06-18")
        self.client.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        self.assertEqual(self.client.ask("ping", modern=False)["result"], {})
        self.assertNotIn("resultType", self.client.ask("tools/list", modern=False)["result"])
        newer = self.client.ask("initialize", modern=False, protocolVersion="2031-01-01", capabilities={}, clientInfo={"name": "t", "version": "1"})
        self.assertEqual(newer["result"]["protocolVersion"], "2025-11-25")

    def test_another_revision_is_told_what_is_spoken(self):
        self.client.send(json.dumps({"jsonrpc": "2.0", "id": "r", "method": "tools/list",
                                     "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2027-01-01"}}}))
        error = self.client.wait("r")["error"]
        self.assertEqual((error["code"], error["data"]["requested"]), (-32022, "2027-01-01"))

    def test_misuse_has_the_protocols_own_errors(self):
        for line, code in (("{", -32700), ("[]", -32600), ("7", -32600), ('{"jsonrpc":"1.0","id":5,"method":"ping"}', -32600),
                           ('{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600), ('{"jsonrpc":"2.0","id":5}', -32600),
                           ('{"jsonrpc":"2.0","id":5,"method":"ping","params":[]}', -32602), ("[" * 100000, -32700)):
            self.client.send(line)
            with self.client.arrived:
                self.client.arrived.wait_for(lambda: self.client.answers.get(None) or self.client.answers.get(5), 20)
            identifier = 5 if self.client.answers.get(5) else None
            self.assertEqual(self.client.wait(identifier)["error"]["code"], code, line[:60])
        self.assertEqual(self.client.ask("tools/steal")["error"]["code"], -32601)
        self.assertEqual(self.client.ask("tools/call", name="rm", arguments={})["error"]["code"], -32602)
        self.assertEqual(self.client.ask("tools/call", name="doctor", arguments=[])["error"]["code"], -32602)
        self.assertEqual(self.client.ask("tools/call", name="doctor", arguments={"a": {"b": 1}})["error"]["code"], -32602)

    def test_a_message_of_100_megabytes_is_refused_and_the_next_is_answered(self):
        self.client.send('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"' + "x" * (100 << 20) + '"}}')
        self.assertEqual(self.client.wait(None)["error"]["code"], -32700)
        self.assertIn("result", self.client.ask("ping"))

    def test_ten_thousand_damaged_messages(self):
        generator = random.Random(17)
        whole = [json.dumps({"jsonrpc": "2.0", "id": 3, "method": method, "params": {"_meta": MODERN, "name": "tips_search", "uri": "ridge://knowledge/x",
                                                                                    "arguments": {"words": ["spill"]}}}).encode()
                 for method in ("ping", "tools/list", "resources/read", "prompts/get", "server/discover")]
        stream = self.client.process.stdin.buffer
        for _ in range(10000):
            text = bytearray(generator.choice(whole))
            for _ in range(generator.randrange(1, 6)):
                at = generator.randrange(len(text))
                kind = generator.randrange(3)
                if kind == 0:
                    text[at] = generator.randrange(256)
                elif kind == 1:
                    del text[at:at + generator.randrange(1, 20)]
                else:
                    text[at:at] = bytes(generator.randrange(256) for _ in range(generator.randrange(1, 8)))
                if not text:
                    text = bytearray(b"{")
            stream.write(bytes(text).replace(b"\n", b"") + b"\n")
        stream.flush()
        self.client.next = 100000
        self.assertIn("result", self.client.ask("ping"))


class Tools(Base):
    def test_a_tool_answers_as_the_command_does(self):
        answer = self.client.call("ops_explain", operator="gemm", case=["m=8", "n=8", "k=8"])
        self.assertFalse(answer["isError"])
        self.assertEqual(answer["structuredContent"]["exit_code"], 0)
        same = subprocess.run([RIDGE, "ops", "explain", "gemm", "m=8", "n=8", "k=8", "--json"], capture_output=True, text=True, env=self.environment)
        self.assertEqual(answer["structuredContent"]["result"], json.loads(same.stdout))
        self.assertEqual(json.loads(answer["content"][0]["text"]), answer["structuredContent"])

    def test_documents_fit_the_schema_of_their_tool(self):  # the client compares each with it
        schemas = {tool["name"]: tool["outputSchema"]["properties"]["result"] for tool in self.client.ask("tools/list")["result"]["tools"]}
        self.assertEqual([name for name, schema in schemas.items() if not {"type", "anyOf"} & schema.keys()], ["memory_read"])
        (self.folder / "kernel.cpp").write_text((ROOT / "src/ops/gemm/cpu_plain.cpp").read_text())
        gemm = {"operator": "gemm", "case": ["m=64", "n=64", "k=64"]}
        for name, arguments in (("doctor", {}), ("ceilings", {}), ("spec_show", {"product": "H200"}), ("spec_get", {"product": "H200", "metric": "board_power"}), ("roofline", gemm),
                                ("ops_list", {}), ("check", gemm), ("try", {"candidate": "kernel.cpp", "case": gemm["case"], "define": ["VECTOR=8"]}), ("bench", gemm),
                                ("inspect", {"file": "kernel.o"}), ("tips_search", {"words": ["spill"]})):
            if name == "inspect":
                subprocess.run(["g++", "-c", "-O1", f"-I{ROOT}/include", "kernel.cpp", "-o", "kernel.o"], cwd=self.folder, check=True)
            answer = self.client.call(name, **arguments)
            self.assertIn("result", answer["structuredContent"], (name, answer))
        self.assertIn("is no object or array or", mcp_client.misfit("x", {"type": ["object", "array", "integer"]}))
        self.assertIn("a is missing", mcp_client.misfit({}, {"type": "object", "required": ["a"]}))
        self.assertIn("b is unknown", mcp_client.misfit({"b": 1}, {"type": "object", "properties": {}, "additionalProperties": False}))

    def test_what_cannot_be_used_is_said(self):
        self.refused("operator is missing", "check")
        self.refused("it has operator, case", "check", operator="gemm", sign_key="k")
        self.refused("where true or false belongs", "check", operator="gemm", all="yes")
        self.refused("where a text or a number belongs", "check", operator=True)
        self.refused("is a list, where one value belongs", "check", operator=["gemm", "quantize"])
        self.refused("gemms", "check", operator="gemms")
        self.refused("give search or manual", "optimize", operator="gemm", proposer="command:touch stolen")
        self.refused("has 70000 bytes", "tips_search", words=["x" * 70000])
        self.refused("give at most 256", "tips_search", words=["x"] * 257)
        self.refused("has a zero byte", "tips_search", words=["x\0y"])
        self.assertFalse((self.folder / "stolen").exists())

    def test_options_cannot_be_smuggled_in_as_values(self):
        self.refused("--version", "ops_explain", operator="--version")
        answer = self.client.call("tips_search", words=["--experience=etc", "-h"])
        self.assertFalse(answer["isError"], answer)

    def test_paths_stay_inside_the_folder(self):
        (self.tmp / "secret.cpp").write_text("int secret;\n")
        (self.folder / "link").symlink_to(self.tmp)
        (self.folder / "link.cpp").symlink_to(self.tmp / "secret.cpp")
        for path in ("/etc/passwd", "../secret.cpp", "link/secret.cpp", "link.cpp", "~/x", "a/../../secret.cpp"):
            for name, argument in (("inspect", "file"), ("campaign_status", "directory"), ("try", "candidate"), ("optimize", "kernel")):
                self.refused("side of", name, **{argument: path, **({"operator": "gemm"} if name == "optimize" else {})})
        self.refused("outside of", "roofline", operator="gemm", plot="/tmp/plot.svg")
        self.refused("outside of", "optimize", operator="gemm", define=["X=/etc/passwd"])
        for uri in ("ridge://campaign/../secret.cpp", "ridge://knowledge/../../secret", "ridge://campaign/link/file/secret.cpp", "file:///etc/passwd"):
            self.assertEqual(self.client.ask("resources/read", uri=uri)["error"]["code"], -32602, uri)

    def test_the_text_of_a_kernel_is_as_good_as_its_file(self):
        plain = (ROOT / "src/ops/gemm/cpu_plain.cpp").read_text()
        case = ["m=16", "n=16", "k=16"]
        answer = self.client.call("check", operator="gemm", case=case, source=plain)
        self.assertEqual(answer["structuredContent"]["exit_code"], 0, answer)
        wrong = (ROOT / "tests/cheats/cpu/drops_last_row.cpp").read_text()
        answer = self.client.call("check", operator="gemm", case=case, source=wrong)
        self.assertEqual((answer["structuredContent"]["exit_code"], answer["isError"]), (1, False))
        self.refused("is no name of a file", "check", operator="gemm", source=plain, source_name="../x.cpp")
        self.refused("are two kernels", "check", operator="gemm", source=plain, candidate="x.cpp")
        self.refused("has 1048577 bytes", "check", operator="gemm", source="x" * ((1 << 20) + 1))

    def test_a_call_reports_progress_and_is_cancelled(self):
        began = time.monotonic()
        identifier = self.client.ask("tools/call", wait=False, token="t", name="bench", arguments={"operator": "gemm", "case": ["m=1024", "n=1024", "k=1024"]})
        with self.client.arrived:
            self.client.arrived.wait_for(lambda: any(note["params"]["progressToken"] == "t" for note in self.client.notes), 60)
        self.client.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": identifier}}))
        self.assertIn("result", self.client.ask("ping"))
        self.assertEqual(self.client.close(), 0)
        self.assertNotIn(identifier, [one for one, left in self.client.answers.items() if left])
        self.assertLess(time.monotonic() - began, 120)
        self.client = Client(RIDGE, self.folder, self.environment)

    def test_no_more_calls_than_allowed(self):
        self.client.close()
        self.client = Client(RIDGE, self.folder, self.environment, "--most-calls", "1")
        first = self.client.ask("tools/call", wait=False, name="doctor", arguments={})
        second = self.client.ask("tools/call", name="doctor", arguments={})["result"]
        self.assertIn("wait for one", second["structuredContent"]["said"])
        self.assertFalse(self.client.wait(first)["result"]["isError"])


class Reading(Base):
    def test_knowledge_and_prompts(self):
        uris = [one["uri"] for one in self.client.ask("resources/list")["result"]["resources"]]
        page = next(uri for uri in uris if uri.startswith("ridge://knowledge/"))
        self.assertIn("#", self.client.ask("resources/read", uri=page)["result"]["contents"][0]["text"])
        names = [prompt["name"] for prompt in self.client.ask("prompts/list")["result"]["prompts"]]
        self.assertEqual(names, ["optimise_kernel", "round", "handoff_project"])
        got = self.client.ask("prompts/get", name="round", arguments={"directory": "c"})["result"]
        self.assertIn("campaign_propose", got["messages"][0]["content"]["text"])
        self.assertEqual(self.client.ask("prompts/get", name="round", arguments={})["error"]["code"], -32602)

    def test_knowledge_pages_of_ones_own_go_before_those_that_are_shipped(self):
        own = self.folder / "pages"
        (own / "ops").mkdir(parents=True)
        (own / "ops/gemm.md").write_text("our own")
        (own / "ours.md").write_text("ours")
        client = Client(RIDGE, self.folder, {**self.environment, "RIDGE_KNOWLEDGE_PATH": str(own)})
        self.addCleanup(client.close)
        uris = [one["uri"] for one in client.ask("resources/list")["result"]["resources"]]
        self.assertEqual(uris.count("ridge://knowledge/ops/gemm"), 1)
        for name, text in (("ours", "ours"), ("ops/gemm", "our own"), ("ops/norm", "##")):
            self.assertIn(text, client.ask("resources/read", uri=f"ridge://knowledge/{name}")["result"]["contents"][0]["text"])

    def test_every_tool_that_a_prompt_names_exists(self):
        names = {tool["name"] for tool in self.client.ask("tools/list")["result"]["tools"]}
        for prompt in self.client.ask("prompts/list")["result"]["prompts"]:
            argument = prompt["arguments"][0]["name"]
            text = self.client.ask("prompts/get", name=prompt["name"], arguments={argument: "x"})["result"]["messages"][0]["content"]["text"]
            for word in text.split("`")[1::2]:
                self.assertIn(word, names | {"round"}, text)


class Campaign(Base):
    """An agent with no command line: from a draft to a verified campaign. Its client dies in the middle of a round."""

    def test_a_whole_campaign(self):
        drafted = self.client.call("optimize", operator="gemm", case=["m=96", "n=96", "k=96"], proposer="manual", budget="240s", directory="c",
                                   max_foreign_load="1", max_steal="1", no_git=True)
        self.assertFalse(drafted["isError"], drafted)
        self.assertFalse(self.client.call("campaign_confirm", directory="c")["isError"])
        started = self.client.call("campaign_resume", directory="c", wait_for_quiet="1s")
        self.assertEqual(started["structuredContent"]["exit_code"], 8, started)
        stated = {"directory": "c", "wait_for_quiet": "1s", "title": "wider vectors", "reason": "the inner loop is scalar", "expect": "2%"}
        self.client.ask("tools/call", wait=False, name="campaign_propose", arguments={**stated, "define": ["VECTOR=8"]})
        time.sleep(1)
        self.client.close()  # the round ends all the same
        self.client = Client(RIDGE, self.folder, self.environment)
        status = self.client.call("campaign_status", directory="c")["structuredContent"]["result"]
        self.assertEqual(len(status["rounds"]), 1, status)
        self.assertIn(status["rounds"][0]["state"], ("accepted", "rolled back"))
        broken = self.client.call("campaign_propose", **{**stated, "title": "a kernel that does not build"}, source=(ROOT / "src/ops/gemm/cpu_plain.cpp").read_text() + "\nthis does not compile\n")
        self.assertTrue(broken["isError"])
        self.assertIn("COMPILE", broken["structuredContent"]["said"])
        self.client.call("campaign_propose", directory="c", give_up=True)
        self.client.call("campaign_stop", directory="c")
        for read in ("campaign_status", "campaign_rules"):
            self.assertIn("result", self.client.call(read, directory="c")["structuredContent"])
        self.assertIn("result", self.client.call("memory_summary", workspace="c")["structuredContent"])
        for check in ("campaign_verify", "campaign_replay"):
            self.assertEqual(self.client.call(check, directory="c")["structuredContent"]["exit_code"], 0)
        uris = [one["uri"] for one in self.client.ask("resources/list")["result"]["resources"]]
        self.assertIn("ridge://campaign/c/journal/1", uris)
        events = self.client.ask("resources/read", uri="ridge://campaign/c/journal/1")["result"]["contents"][0]["text"].splitlines()
        self.assertGreater(len([json.loads(event) for event in events]), 5)


class OfficialClient(Base):
    """The client of the protocol's own Python package, in the Python that runs this, where it has it."""

    @unittest.skipUnless(importlib.util.find_spec("mcp"), "no package mcp here")
    def test_it_lists_and_calls(self):
        import asyncio

        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import stdio_client

        async def talk():
            server = StdioServerParameters(command=str(RIDGE), args=["mcp", "--root", str(self.folder)], env=self.environment)
            async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                tools = await session.list_tools()
                answer = await session.call_tool("ops_explain", {"operator": "gemm", "case": ["m=8", "n=8", "k=8"]})
                return [tool.name for tool in tools.tools], answer

        names, answer = asyncio.run(talk())
        self.assertIn("campaign_propose", names)
        self.assertFalse(getattr(answer, "isError", getattr(answer, "is_error", None)))

    @unittest.skipUnless(importlib.util.find_spec("mcp"), "no package mcp here")
    def test_it_speaks_the_newest_revision(self):
        import asyncio

        import mcp
        if not hasattr(mcp, "Client"):
            self.skipTest("this version of mcp speaks the older revisions only")

        async def talk():
            server = mcp.StdioServerParameters(command=str(RIDGE), args=["mcp", "--root", str(self.folder)], env=self.environment)
            async with mcp.Client(mcp.stdio_client(server), mode="2026-07-28") as client:
                answer = await client.call_tool("ops_explain", {"operator": "gemm", "case": ["m=8", "n=8", "k=8"]})
                resources = await client.list_resources()
                return client.protocol_version, answer.is_error, len(resources.resources)

        version, failed, count = asyncio.run(talk())
        self.assertEqual((version, failed), ("2026-07-28", False))
        self.assertGreater(count, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
