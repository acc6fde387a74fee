"""What both checkers share: a document with its schemas, and requests that go over a plain socket.

Standard library, python3-yaml and python3-jsonschema only.
"""
import http.client
import json
import re
import socket
import sys
import warnings
from pathlib import Path

import jsonschema
import yaml

SOURCES = Path(__file__).resolve().parents[2] / "Sources"
TIMEOUT = 20


class Document:
    """A YAML document whose parts refer to each other."""

    def __init__(self, path, validator):
        self.root = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        self.validator = validator
        self.resolver = jsonschema.RefResolver("", self.root)

    def resolve(self, node):
        """The node itself, or what it refers to."""
        while isinstance(node, dict) and "$ref" in node:
            node = self.resolver.resolve(node["$ref"])[1]
        return node

    def errors(self, schema, value):
        """What is wrong with a value, in words."""
        checker = jsonschema.FormatChecker()
        found = self.validator(schema, resolver=self.resolver, format_checker=checker).iter_errors(value)
        return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in found]


class Report:
    """Collects failures, and what was seen of that which is documented."""

    def __init__(self):
        self.failures = []
        self.seen = set()

    def fail(self, where, problem):
        self.failures.append(f"{where}: {problem}")

    def check(self, condition, where, problem):
        if not condition:
            self.fail(where, problem)

    def finish(self, documented, exceptions):
        """Prints the failures and ends the program. `exceptions` gives a reason for each thing not to be seen."""
        for item in sorted(documented - self.seen - set(exceptions), key=str):
            self.fail("never seen", item)
        for item in sorted(set(exceptions) & self.seen, key=str):
            self.fail("an exception that is none", item)
        for failure in self.failures:
            print("FAILED", failure)
        print(f"{len(documented & self.seen)} of {len(documented)} documented things seen")
        sys.exit(1 if self.failures else 0)


class Answer:
    """An HTTP answer; `socket` stays open behind one without an end."""

    def __init__(self, connection, method="GET", endless=False):
        response = http.client.HTTPResponse(connection, method=method)
        response.begin()
        self.status = response.status
        self.headers = [(name.lower(), value) for name, value in response.getheaders()]
        self.socket = connection
        self.stream = response
        if not endless:
            self.body = response.read()
            connection.close()

    def header(self, name):
        return dict(self.headers).get(name)

    @property
    def json(self):
        return json.loads(self.body)


def connect(port, receive_buffer=None):
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(TIMEOUT)
    connection.connect(("127.0.0.1", port))
    return connection


def request_text(method, target, headers=None, body=b""):
    """A whole request. A header with the value None is left out."""
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    lines = [f"{method} {target} HTTP/1.1", "host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items() if value is not None]
    if body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines + ["", ""]).encode() + body


def exchange(port, method, target, headers=None, body=b"", endless=False):
    connection = connect(port)
    connection.sendall(request_text(method, target, headers, body))
    return Answer(connection, method, endless)


HANDSHAKE = {
    "connection": "upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-protocol": "touchline.v1",
}


def refusal_reasons():
    """The cases of RefusalReason: Swift name and code."""
    return dict(re.findall(r'case (\w+) = "(\w+)"', (SOURCES / "BroadcastChannels/Refusal.swift").read_text()))


def reasons_in_sources():
    """Every reason that the server's code has as a literal, or as a used case of RefusalReason."""
    literal = re.compile(r'(?:reason: |(?:refuse|refusal)\(\s*\d+, |refuse\(\s*)"([A-Z]\w+)"')
    # The reasons of a subscriber's token are a table of their own.
    table = (SOURCES / "Credentials/Tokens/SubscriberToken.swift").read_text()
    found = set(re.findall(r'case \.\w+: "([A-Z]\w+)"', table))
    for folder in ("BroadcastChannels", "SubscriberProtocol", "Credentials", "BroadcastServer", "EventLoop"):
        for path in (SOURCES / folder).rglob("*.swift"):
            if path.name == "Refusal.swift":
                continue
            text = path.read_text()
            found |= set(literal.findall(text))
            found |= {reason for name, reason in refusal_reasons().items() if re.search(rf"\.{name}\b", text)}
    return found


def withdraw():
    """Tells the test that runs this program to take the key of the token "lost" away."""
    print("withdraw", flush=True)


def shut_down():
    """Tells the test that runs this program to shut the troubled server down."""
    print("shut down", flush=True)


warnings.simplefilter("ignore", DeprecationWarning)
