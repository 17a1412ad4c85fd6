"""A client of `ridge mcp` on standard input and output."""
import json
import re
import subprocess
import threading

MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def misfit(value, schema, at="result"):
    """Where a document does not fit a schema of the kinds that the server writes; empty: it fits."""
    if "anyOf" in schema:
        found = [misfit(value, one, at) for one in schema["anyOf"]]
        return "" if "" in found else found[0]
    if "enum" in schema:
        return "" if value in schema["enum"] else f"{at}: {value!r} is not one of {schema['enum']}"
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    wanted = schema.get("type", [])
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if wanted and not any(isinstance(value, kinds[one]) and (one == "boolean" or not isinstance(value, bool)) for one in wanted):
        return f"{at}: {str(value)[:80]!r} is no {' or '.join(wanted)}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        return f"{at}: {value!r} does not match {schema['pattern']}"
    if isinstance(value, list):
        return next((wrong for i, one in enumerate(value) if (wrong := misfit(one, schema.get("items", {}), f"{at}[{i}]"))), "")
    if isinstance(value, dict):
        for name in schema.get("required", []):
            if name not in value:
                return f"{at}: {name} is missing"
        for name, one in value.items():
            more = schema.get("additionalProperties", True)
            inner = schema.get("properties", {}).get(name, more)
            if inner is False:
                return f"{at}: {name} is unknown"
            if isinstance(inner, dict) and (wrong := misfit(one, inner, f"{at}.{name}")):
                return wrong
    return ""


class Client:
    """A client of a few lines: one reader, answers by id."""

    def __init__(self, program, folder, environment, *words):
        self.process = subprocess.Popen([program, "mcp", "--root", folder, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=environment)
        self.next = 0
        self.schemas = {}
        self.answers, self.notes, self.arrived = {}, [], threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            with self.arrived:
                if "method" in message:
                    self.notes.append(message)
                else:
                    self.answers.setdefault(message.get("id"), []).append(message)
                self.arrived.notify_all()

    def send(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def wait(self, identifier, timeout=120):
        with self.arrived:
            self.arrived.wait_for(lambda: self.answers.get(identifier), timeout)
            return self.answers[identifier].pop(0)

    def ask(self, method, modern=True, wait=True, token=None, **parameters):
        self.next += 1
        if modern:
            parameters["_meta"] = dict(MODERN)
        if token is not None:
            parameters.setdefault("_meta", {})["progressToken"] = token
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.next, "method": method, "params": parameters}))
        return self.wait(self.next) if wait else self.next

    def call(self, name, **arguments):
        result = self.ask("tools/call", name=name, arguments=arguments)["result"]
        if not self.schemas:
            self.schemas = {tool["name"]: tool["outputSchema"] for tool in self.ask("tools/list")["result"]["tools"]}
        wrong = misfit(result["structuredContent"], self.schemas[name], name)
        assert not wrong, wrong
        return result

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(timeout=120)
        self.reader.join()
        self.process.stdout.close()
        return code
