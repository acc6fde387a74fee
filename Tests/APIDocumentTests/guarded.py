"""The server that checks tokens and client certificates: what its clients show, and HTTP/1.1 and HTTP/2 over TLS.

HTTP/2 is Debian's curl's, a client that knows nothing of this code.
"""
import ssl
import subprocess
import time

from documents import *

# The one origin whose pages it lets in.
ORIGIN = "https://scores.example.com"


class Guarded:
    """What the Swift test has written into access.json: ports, tokens and the folder of certificates."""

    def __init__(self, path):
        self.given = json.loads(Path(path).read_text(encoding="utf-8"))
        self.port, self.tls_port = self.given["port"], self.given["tlsPort"]

    def bearer(self, name):
        return {"authorization": "bearer " + self.given[name]}

    def brief(self, seconds=4):
        """A token that ends soon, and not within these seconds."""
        return next(item["token"] for item in self.given["brief"] if item["ends"] > time.time() + seconds)

    def files(self, certificate):
        return [f"{self.given['certificates']}/{certificate}.{end}" for end in ("pem", "key")]

    def context(self, certificate=None):
        context = ssl.create_default_context(cafile=self.given["authority"])
        if certificate:
            context.load_cert_chain(*self.files(certificate))
        return context

    def connect(self, certificate=None):
        return self.context(certificate).wrap_socket(connect(self.tls_port), server_hostname="127.0.0.1")

    def http1(self, requests, certificate=None, endless=False):
        """Sends requests one after the other on one connection, and gives the last one's answer."""
        connection = self.connect(certificate)
        for method, target, headers, body in requests[:-1]:
            connection.sendall(request_text(method, target, headers, body))
            Answer(connection, method, endless=True).stream.read()
        method, target, headers, body = requests[-1]
        connection.sendall(request_text(method, target, headers, body))
        return Answer(connection, method, endless)

    def http2(self, requests, certificate=None):
        """The same with curl."""
        words = ["--cacert", self.given["authority"]]
        if certificate:
            words += [word for pair in zip(("--cert", "--key"), self.files(certificate)) for word in pair]
        return over_http2(f"https://127.0.0.1:{self.tls_port}", requests, ["--http2"] + words)


def over_http2(base, requests, words=("--http2-prior-knowledge",)):
    """Sends requests one after the other on one connection of curl's, and gives the last one's answer."""
    command, last = ["/usr/bin/curl"], len(requests) - 1
    for index, (method, target, headers, body) in enumerate(requests):
        command += ["--next"] if index else []
        command += ["-sS", "--max-time", str(TIMEOUT), *words, "-X", method]
        command += ["-i"] if index == last else ["-o", "/dev/null"]
        for name, value in (headers or {}).items():
            # An empty header has a semicolon on curl's command line.
            command += ["-H", f"{name}: {value}" if value else f"{name};"] if value is not None else []
        if body:
            command += ["-H", "content-type: application/json", "--data-binary", "@-"]
        # As it is: curl would take dots for folders, and encode what it thinks is wrong.
        command += ["--request-target", target, base]
    body = requests[-1][3]
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    done = subprocess.run(command, input=body, capture_output=True, check=False)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    version, status, *_ = head.decode().split("\r\n")[0].split(" ") + [""]
    if version != "HTTP/2":
        raise RuntimeError(f"{' '.join(command)}\nanswered {done.stdout[:300]} {done.stderr}")
    return ParsedAnswer(int(status), head.decode().split("\r\n")[1:], body)


class ParsedAnswer(Answer):
    """An answer that is whole."""

    def __init__(self, status, lines, body):
        self.status, self.body = status, body
        self.headers = [(name.lower(), value) for name, value in (line.split(": ", 1) for line in lines if line)]


def http2_tunnel(port):
    """The answer to CONNECT over HTTP/2, which curl only sends to proxies; by hand (RFC 9113, RFC 7541)."""
    def frame(kind, flags, stream, payload):
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    def field(name, value):
        return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
    connection = connect(port)
    head = field(b":method", b"CONNECT") + field(b":authority", b"127.0.0.1")
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 5, 1, head))
    stream, block = connection.makefile("rb"), b""
    while prefix := stream.read(9):
        payload = stream.read(int.from_bytes(prefix[:3], "big"))
        if prefix[3] == 1:
            block = payload
        if prefix[3] == 0:
            connection.close()
            # :status is number 8 of the static table; its three digits are shorter without Huffman's code.
            status = block[block.index(b"\x48\x03") + 2:][:3]
            return ParsedAnswer(int(status), ["content-type: application/json"], payload)
    raise RuntimeError("no answer to CONNECT")
