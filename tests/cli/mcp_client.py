"""A client of `ridge mcp` on standard input and output."""
import json
import subprocess
import threading

MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


class Client:
    """A client of a few lines: one reader, answers by id."""

    def __init__(self, program, folder, environment, *words):
        self.process = subprocess.Popen([program, "mcp", "--root", folder, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=environment)
        self.next = 0
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
        return self.ask("tools/call", name=name, arguments=arguments)["result"]

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(timeout=120)
        self.reader.join()
        self.process.stdout.close()
        return code
