#!/usr/bin/env python3
"""An MCP client takes the shipped plain kernel to ten times its speed on a processor, from the draft to the verified report, without a command line.
Some five minutes of a quiet machine, so no part of the usual tests:  tests/cli/mcp_tenfold.py build/bin/ridge"""
import json
import os
import pathlib
import sys
import tempfile

from mcp_client import Client

DRAFT = {"operator": "gemm", "case": ["m=384", "n=384", "k=384"], "proposer": "manual", "budget": "10m", "directory": "c", "no_git": True}
# Of the source's own tunables, in the order that its comments give.
ROUNDS = [("eight lanes", "one instruction does eight multiply-adds", {"VECTOR": 8}, "300%"),
          ("a register tile of 4 x 3", "twelve independent sums hide the latency of the multiply-add", {"MR": 4, "NV": 3}, "100%"),
          ("the panel of B packed", "its rows lie in different pages", {"PACK_B": 2}, "5%"),
          ("blocks of k", "a panel of B fits the first-level cache", {"KC": 192}, "3%")]


def main():
    ridge, best = pathlib.Path(sys.argv[1]).resolve(), None
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_CONFIG_HOME": folder + "/config"}
        client = Client(ridge, folder, environment)

        def call(name, **arguments):
            answer = client.ask("tools/call", wait=False, name=name, arguments=arguments)
            result = client.wait(answer, 3600)["result"]
            if result["isError"]:
                raise SystemExit(f"{name}: {result['structuredContent'].get('said', '')}")
            return result["structuredContent"]

        call("optimize", **DRAFT)
        call("campaign_confirm", directory="c")
        call("campaign_resume", directory="c")
        tunables = {one["name"] for one in call("campaign_context", directory="c")["result"]["space"]["tunables"]}
        for title, reason, values, expect in ROUNDS:
            assert values.keys() <= tunables, values
            round_ = call("campaign_propose", directory="c", title=title, reason=reason, define=[f"{name}={value}" for name, value in values.items()], expect=expect)
            told = round_["result"]
            print(f"round {told['round']}: {title}: {told['state']}, {told.get('suite_ratio') or 1:.3g}x ({told['reason']})", flush=True)
        call("campaign_stop", directory="c")
        call("campaign_resume", directory="c")
        report = call("campaign_report", directory="c")["result"]
        for check in ("campaign_verify", "campaign_replay"):
            assert call(check, directory="c")["exit_code"] == 0, check
        best = report["total"]
        assert client.close() == 0
    print(json.dumps({"speedup": best["ratio"], "low": best["low"], "high": best["high"], "accepted": report["accepted"], "seconds": report["active_seconds"]}))
    if best["low"] < 10:
        raise SystemExit("less than 10x")


main()
