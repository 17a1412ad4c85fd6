#!/usr/bin/env python3
"""A complete agent: any model behind an OpenAI-compatible endpoint drives `ridge` through `ridge mcp`.

    export OPENAI_API_KEY=...                    # what the endpoint wants; a local one may want none
    python3 examples/agents/loop.py --endpoint https://api.example.com/v1 --model NAME --root ~/kernels gemm

The model gets the tools of `ridge mcp` and the prompt `optimise_kernel` (or `--task`), calls tools until it has nothing left to do, and cannot
set a verdict: every gain in its last words stands in a journal that `ridge campaign verify` checks. Needs Python 3.9 and nothing else.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

REVISION = "2026-07-28"
MOST_LIST, MOST_TEXT = 24, 20_000  # items of a list and characters of a text that a model is shown of a tool's result


class Ridge:
    """`ridge mcp` as a child process: one request at a time, each standing for itself."""

    def __init__(self, program, root):
        self.process = subprocess.Popen([program, "mcp", "--root", root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.requests = 0

    def ask(self, method, **parameters):
        self.requests += 1
        meta = {"io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientCapabilities": {}}
        message = {"jsonrpc": "2.0", "id": self.requests, "method": method, "params": {**parameters, "_meta": meta}}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.requests:
                if "error" in answer:
                    raise RuntimeError(answer["error"]["message"])
                return answer["result"]
        raise SystemExit("loop: ridge mcp has ended; run it by hand to see why")

    def close(self):
        self.process.stdin.close()  # a round that runs is still decided
        self.process.wait()


class Model:
    """One conversation with an endpoint, and what it has taken so far."""

    def __init__(self, options):
        self.options = options
        self.turns = self.input_tokens = self.output_tokens = 0

    def usd(self, input_tokens, output_tokens):
        return (input_tokens * self.options.price_in + output_tokens * self.options.price_out) / 1e6

    def spent(self):
        return self.usd(self.input_tokens, self.output_tokens)

    def answer(self, messages, tools):
        body = json.dumps({"model": self.options.model, "messages": messages, "tools": tools}).encode()
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(self.options.key_variable):
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self.options.endpoint.rstrip("/") + "/chat/completions", body, headers)
        for attempt in range(6):
            try:
                with urllib.request.urlopen(request, timeout=self.options.timeout) as response:
                    answer = json.load(response)
                break
            except urllib.error.HTTPError as error:
                said = error.read().decode(errors="replace")[:500]
                if error.code not in (408, 409, 429) and error.code < 500 or attempt == 5:
                    raise SystemExit(f"loop: the endpoint answered {error.code}: {said}") from error
                wait = error.headers.get("Retry-After", "")
                time.sleep(float(wait) if wait.isdigit() else 2**attempt)
            except (urllib.error.URLError, TimeoutError) as error:
                if attempt == 5:
                    raise SystemExit(f"loop: {self.options.endpoint} cannot be reached: {error}") from error
                time.sleep(2**attempt)
        usage = answer.get("usage") or {}
        self.turns += 1
        self.input_tokens += usage.get("prompt_tokens", 0)
        self.output_tokens += usage.get("completion_tokens", 0)
        return answer["choices"][0]["message"]


def tools_for(listed):
    return [{"type": "function", "function": {"name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"]}} for tool in listed]


def with_usage(arguments, model, before):
    """The round's cost, for the campaign's cost log: what the model has taken since the last round."""
    turns, sent, got = model.turns - before[0], model.input_tokens - before[1], model.output_tokens - before[2]
    own = {"model": model.options.model, "turns": turns, "input_tokens": sent, "output_tokens": got}
    if model.options.price_in or model.options.price_out:
        own["usd"] = round(model.usd(sent, got), 6)
    return {**arguments, **own}


def shortened(value):
    """The same with long lists (raw samples) and long texts cut, which says so."""
    if isinstance(value, dict):
        return {key: shortened(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shortened(one) for one in value[:MOST_LIST]] + ([f"... and {len(value) - MOST_LIST} more"] if len(value) > MOST_LIST else [])
    if isinstance(value, str) and len(value) > MOST_TEXT:
        return value[:MOST_TEXT] + f" ... ({len(value)} characters)"
    return value


def call(ridge, model, name, text, before):
    """The result as the model sees it. A misuse is the model's to mend, so it is told and the loop goes on."""
    try:
        arguments = json.loads(text or "{}")
        if not isinstance(arguments, dict):
            raise ValueError("the arguments are no object")
        if name == "campaign_propose":
            arguments = with_usage(arguments, model, before)
        result = ridge.ask("tools/call", name=name, arguments=arguments)["structuredContent"]
    except (ValueError, RuntimeError) as error:
        result = {"exit_code": 2, "meaning": "the call could not be made", "said": str(error)}
    return result, json.dumps(shortened(result))


def run(options):
    ridge = Ridge(options.ridge, options.root)
    model = Model(options)
    tools = tools_for(ridge.ask("tools/list")["tools"])
    task = options.task or ridge.ask("prompts/get", name="optimise_kernel", arguments={"operator": options.operator})["messages"][0]["content"]["text"]
    messages = [{"role": "system", "content": ridge.ask("server/discover")["instructions"]}, {"role": "user", "content": task}]
    log = open(options.log, "a", encoding="utf-8") if options.log else None

    def add(message):
        messages.append(message)
        if log:
            log.write(json.dumps(message) + "\n")
            log.flush()

    before, why = (0, 0, 0), ""
    while not why:
        message = model.answer(messages, tools)
        add({key: message[key] for key in ("role", "content", "tool_calls") if message.get(key) is not None})
        if message.get("content"):
            print(message["content"], flush=True)
        for one in message.get("tool_calls") or []:
            name = one["function"]["name"]
            result, shown = call(ridge, model, name, one["function"].get("arguments"), before)
            if name == "campaign_propose" and result["exit_code"] in (0, 1):
                before = (model.turns, model.input_tokens, model.output_tokens)
            print(f"  {name}: {result['meaning']}", file=sys.stderr, flush=True)
            add({"role": "tool", "tool_call_id": one["id"], "content": shown})
        if not message.get("tool_calls"):
            why = "the model has nothing left to do"
        elif model.turns >= options.max_turns:
            why = f"{options.max_turns} turns are used up (--max-turns)"
        elif options.max_usd and model.spent() >= options.max_usd:
            why = f"{options.max_usd} USD are used up (--max-usd)"
    ridge.close()
    print(f"Ended: {why}. {model.turns} turns, {model.input_tokens} tokens in, {model.output_tokens} out, {model.spent():.2f} USD.", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operator", nargs="?", default="gemm", help="what the prompt optimise_kernel is about (default: gemm)")
    parser.add_argument("--endpoint", required=True, help="base address, to which /chat/completions is added")
    parser.add_argument("--model", required=True)
    parser.add_argument("--task", help="instead of the prompt optimise_kernel")
    parser.add_argument("--root", default=".", help="the folder that campaigns and kernels lie in (default: here)")
    parser.add_argument("--ridge", default=shutil.which("ridge") or str(pathlib.Path(__file__).resolve().parents[2] / "build/bin/ridge"))
    parser.add_argument("--key-variable", default="OPENAI_API_KEY", help="environment variable that holds the key (default: OPENAI_API_KEY)")
    parser.add_argument("--price-in", type=float, default=0, help="USD for a million tokens in, for the cost log")
    parser.add_argument("--price-out", type=float, default=0, help="the same out")
    parser.add_argument("--max-turns", type=int, default=200)
    parser.add_argument("--max-usd", type=float, help="ends the loop; needs the prices")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one answer of the model")
    parser.add_argument("--log", help="file that every message is appended to, one JSON object a line")
    options = parser.parse_args()
    if options.max_usd and not (options.price_in or options.price_out):
        parser.error("--max-usd needs --price-in and --price-out")
    try:
        run(options)
    except KeyboardInterrupt:
        raise SystemExit("loop: stopped; `ridge campaign status` says where the campaign is, and it can be resumed")


if __name__ == "__main__":
    main()
