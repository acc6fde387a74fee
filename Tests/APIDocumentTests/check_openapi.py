"""Checks docs/openapi.yaml against running servers, both ways: every answer has to fit the document, and every
documented operation, status, reason and header has to be seen. What is refused over HTTP/1.1 is asked again over HTTP/2.

Usage: check_openapi.py DOCUMENT PORT TROUBLED-PORT ACCESS

The troubled server's store fails to write; it holds 10,000 channels of com.example.full and a policy-1 channel with
the alias "stored" of com.example.scores. It is shut down when this program prints "shut down". ACCESS is a file about a
third, strict server that checks tokens and client certificates (guarded.py).
"""
import asyncio
import sys
import time
import uuid
from urllib.parse import quote

import websockets

import documents
from documents import *
from guarded import *

APP = "com.example.scores"
CHANNELS = f"/1/apps/{APP}/channels"
BROADCAST = f"/4/broadcasts/apps/{APP}"
# Added by the HTTP layer to every answer, or described by `content` (OpenAPI: a content-type header is ignored).
GENERAL_HEADERS = {"content-length", "content-type", "date", "connection"}
# HTTP/2 has no headers of a connection (RFC 9113, section 8.2.2).
CONNECTION_HEADERS = {"connection", "upgrade"}
# In the code, but no answer to a request: a definition file that contradicts the store stops the start, and a key that is
# withdrawn closes connections with 4003.
NOT_ANSWERED = {"ChannelDiffers", "KeyWithdrawn"}
# Documented things that can't be provoked, with the reason.
EXCEPTIONS = {}

path, port, troubled = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
guarded = Guarded(sys.argv[4])
document = Document(path, jsonschema.Draft202012Validator)
report = Report()


# What is documented: (operation, status, what) with what = a reason, "header NAME", or None for the status itself.

def reasons(schema):
    schema = document.resolve(schema) if "properties" not in schema else schema
    for alternative in schema.get("oneOf", []):
        yield from reasons(alternative)
    yield from schema.get("properties", {}).get("reason", {}).get("enum", [])


def parts(operation, status, response):
    yield operation, status, None
    for media in response.get("content", {}).values():
        for reason in reasons(media["schema"]):
            yield operation, status, reason
    for name in response.get("headers", {}):
        yield operation, status, f"header {name}"


operations = {
    operation["operationId"]: operation
    for item in document.root["paths"].values()
    for method, operation in item.items()
    if method != "parameters"
}
responses = {
    (name, status): document.resolve(response)
    for name, operation in operations.items()
    for status, response in operation["responses"].items()
}
responses |= {(name, ""): document.resolve(response) for name, response in document.root["x-unmatched"].items()}
local_operations = {name for name, operation in operations.items() if operation.get("tags") == ["Local API"]}
local_operations |= {"local-path", "local-method"}
documented = {part for (name, status), response in responses.items() for part in parts(name, status, response)}


# Fitting an answer to the document.

def fit(where, operation, status, answer):
    response = responses.get((operation, status))
    if response is None:
        return report.fail(where, f"the status {status} is not documented")
    report.seen.add((operation, status, None))
    headers = response.get("headers", {})
    if operation in local_operations:
        headers = headers | document.root["x-local-headers"]
    fit_headers(where, operation, status, headers, answer)
    content = response.get("content")
    media = answer.header("content-type")
    if content is None:
        report.check(not answer.body and media is None, where, "an undocumented body")
    elif media not in content:
        report.fail(where, f"the content-type is {media}")
    elif media == "application/json":
        for error in document.errors(content[media]["schema"], answer.json):
            report.fail(where, f"body: {error} in {answer.body[:300]}")
        if answer.status >= 400:
            report.seen.add((operation, status, answer.json.get("reason")))


def fit_headers(where, operation, status, headers, answer):
    names = [name for name, _ in answer.headers]
    report.check(len(names) == len(set(names)), where, f"a header came twice: {names}")
    for name, text in answer.headers:
        if name in GENERAL_HEADERS:
            continue
        if name not in headers:
            report.fail(where, f"the header {name} is not documented")
            continue
        report.seen.add((operation, status, f"header {name}"))
        schema = document.resolve(headers[name])["schema"]
        is_number = schema.get("type") == "integer" or isinstance(schema.get("const"), int)
        for error in document.errors(schema, int(text) if is_number and text.isdigit() else text):
            report.fail(where, f"header {name}: {error}")
    for name, header in headers.items():
        if document.resolve(header).get("required"):
            report.check(name in names, where, f"the header {name} is missing")


def expect(operation, status, reason, answer):
    """The answer has this status and reason, and fits the document."""
    where = f"{operation} {status} {reason or ''}".strip()
    if answer.status != status:
        report.fail(where, f"answered {answer.status} {getattr(answer, 'body', b'')[:300]}")
        return answer
    fit(where, operation, str(status), answer)
    if reason:
        report.check(answer.json.get("reason") == reason, where, f"answered {answer.body}")
    return answer


def expect_unmatched(kind, status, reason, answer):
    where = f"{kind} {status} {reason}"
    report.check(answer.status == status, where, f"answered {answer.status}")
    fit(where, kind, "", answer)
    report.check(answer.json.get("reason") == reason, where, f"answered {answer.body}")


def exchange(on, method, target, headers=None, body=b"", endless=False):
    """Asks over HTTP/1.1; a refusal is the same over HTTP/2."""
    answer = documents.exchange(on, method, target, headers, body, endless)
    # A WebSocket's handshake is HTTP/1.1's alone. After a short time a limit of rates lets the next request through.
    is_lasting = answer.status >= 400 and "upgrade" not in (headers or {}) and answer.header("retry-after") != "1"
    if not endless and is_lasting and method != "HEAD":
        again = over_http2(f"http://127.0.0.1:{on}", [(method, target, headers, body)])
        for got in (answer, again):
            got.same = (got.status, {name for name, _ in got.headers} - CONNECTION_HEADERS, got.json.get("reason"))
        report.check(answer.same == again.same, f"{method} {target} over HTTP/2", f"{again.same}, not {answer.same}")
    return answer


def aps(**more):
    return {"aps": {"timestamp": int(time.time()), "event": "update", "content-state": {"home": 1}, **more}}


def broadcast(channel, body, on=None, app=APP, **headers):
    """Broadcasts; `apns_priority=…` adds a header, None takes one away."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    standard = {"apns-channel-id": channel, "apns-push-type": "liveactivity", "apns-priority": "10",
                "apns-expiration": "0"}
    return exchange(on or port, "POST", f"/4/broadcasts/apps/{app}", standard | headers, body)


def define(alias=None, on=None, **rules):
    return exchange(on or port, "POST", "/v1/channels", body={"alias": alias, "definition": {"app": APP, **rules}})


NEW_CHANNEL = {"message-storage-policy": 1, "push-type": "LiveActivity"}


# The scenario.

def provider_management():
    # What every operation of the provider API refuses.
    for operation, method, channels in (
        ("createChannel", "POST", "channels"), ("readChannel", "GET", "channels"),
        ("deleteChannel", "DELETE", "channels"), ("listChannels", "GET", "all-channels"), ("broadcast", "POST", None),
    ):
        def target(app):
            return f"/1/apps/{app}/{channels}" if channels else f"/4/broadcasts/apps/{app}"
        expect(operation, 400, "BadMessageId", exchange(port, method, target(APP), {"apns-request-id": "7"}))
        topic = target(APP + ".push-type.liveactivity")
        expect(operation, 400, "TopicDisallowed", exchange(port, method, topic))
        expect(operation, 404, "BadPath", exchange(port, method, target("no_bundle")))

    for operation, method, target in (
        ("readChannel", "GET", CHANNELS), ("deleteChannel", "DELETE", CHANNELS), ("broadcast", "POST", BROADCAST),
    ):
        def with_channel(name):
            return exchange(port, method, target, {"apns-channel-id": name, "apns-push-type": "liveactivity"})
        expect(operation, 400, "MissingChannelId", with_channel(None))
        expect(operation, 400, "BadChannelId", with_channel("no base64"))
        expect(operation, 400, "ChannelNotRegistered", with_channel("AAAAAAAAAAAAAAAAAAAAAA=="))

    def create(body):
        return exchange(port, "POST", CHANNELS, body=body)
    expect("createChannel", 400, "PayloadEmpty", create(b""))
    expect("createChannel", 400, "BadRequestPayload", create(b"{"))
    expect("createChannel", 400, "BadRequestParams", create(NEW_CHANNEL | {"colour": "red"}))
    expect("createChannel", 400, "BadRequestParams", create({"push-type": "LiveActivity"}))
    expect("createChannel", 400, "MissingPushType", create({"message-storage-policy": 1}))
    expect("createChannel", 400, "InvalidPushType", create(NEW_CHANNEL | {"push-type": "alert"}))
    expect("createChannel", 413, "PayloadTooLarge", create(b" " * 5_121))

    request = str(uuid.uuid4()).upper()
    answer = exchange(port, "POST", CHANNELS, {"apns-request-id": request}, NEW_CHANNEL)
    expect("createChannel", 201, None, answer)
    report.check(answer.header("apns-request-id") == request, "createChannel", "the request id is not echoed")
    channel = answer.header("apns-channel-id")
    answer = expect("readChannel", 200, None, exchange(port, "GET", CHANNELS, {"apns-channel-id": channel}))
    report.check(answer.json == NEW_CHANNEL, "readChannel", f"answered {answer.body}")
    answer = expect("listChannels", 200, None, exchange(port, "GET", f"/1/apps/{APP}/all-channels"))
    report.check(answer.json == {"channels": [channel]}, "listChannels", f"answered {answer.body}")
    answer = expect("listChannels", 200, None, exchange(port, "GET", "/1/apps/com.example.none/all-channels"))
    report.check(answer.json == {"channels": []}, "listChannels", f"answered {answer.body}")
    expect("deleteChannel", 204, None, exchange(port, "DELETE", CHANNELS, {"apns-channel-id": channel}))
    expect("createChannel", 201, None, create(NEW_CHANNEL | {"push-type": "liveactivity"}))


def provider_broadcast():
    define("plain", windows={"5": 60, "1": 60})
    tomorrow = str(int(time.time()) + 86_400)

    def refused(status, reason, body, **headers):
        expect("broadcast", status, reason, broadcast("plain", body, **headers))
    refused(400, "MissingPushType", aps(), apns_push_type=None)
    refused(400, "InvalidPushType", aps(), apns_push_type="alert")
    refused(400, "BadExpirationDate", aps(), apns_expiration="soon")
    refused(400, "BadExpirationDate", aps(), apns_expiration=tomorrow)
    refused(400, "BadPriority", aps(), apns_priority="7")
    refused(400, "PayloadEmpty", b"")
    refused(413, "PayloadTooLarge", b" " * 5_121)
    refused(413, "PayloadTooLarge", b" " * 65_537)
    refused(400, "BadRequestPayload", b"{")
    refused(400, "BadRequestPayload", aps(event="start"))

    # The order of the checks: each request is also wrong in all that comes later.
    wrong = {"apns_push_type": "alert", "apns_expiration": "soon", "apns_priority": "7"}
    steps = [("apns_push_type", "InvalidPushType", "liveactivity"), ("apns_expiration", "BadExpirationDate", tomorrow),
             ("apns_priority", "BadPriority", "10")]
    for name, reason, right in steps:
        expect("broadcast", 400, reason, broadcast("AAAA", b"{", **wrong))
        wrong[name] = right
    expect("broadcast", 400, "ChannelNotRegistered", broadcast("AAAA", b"{", **wrong))

    answer = expect("broadcast", 200, None, broadcast("plain", aps(), apns_priority=None, apns_expiration=None))
    report.check(answer.header("touchline-outcome") == "delivered", "broadcast", answer.headers)
    request = {"apns_request_id": str(uuid.uuid4())}
    first = expect("broadcast", 200, None, broadcast("plain", aps(), apns_priority="5", **request))
    again = expect("broadcast", 200, None, broadcast("plain", aps(), apns_priority="5", **request))
    for name in ("apns-unique-id", "touchline-outcome", "apns-request-id"):
        report.check(first.header(name) == again.header(name), "a repetition", f"{name} differs")
    report.check(first.header("touchline-repeated") is None, "broadcast", "the first is no repetition")
    report.check(again.header("touchline-repeated") == "true", "a repetition", again.headers)

    expect("createLocalChannel", 201, None, define("stores", **{"message-storage-policy": 1}))
    expect("broadcast", 200, None, broadcast("stores", aps(), apns_expiration=tomorrow))

    outcomes = {first.header("touchline-outcome"), answer.header("touchline-outcome")}
    old = broadcast("plain", aps(timestamp=1), apns_priority="5")
    outcomes.add(expect("broadcast", 200, None, old).header("touchline-outcome"))
    for policy in ("demote", "drop", "reject"):
        define(policy, budget={"capacity": 0, "refill-per-hour": 0, "over-budget": policy})
        answer = broadcast(policy, aps())
        if policy == "reject":
            expect("broadcast", 429, "TooManyRequests", answer)
            report.check(answer.header("retry-after") is None, "no refill", "has a retry-after")
        else:
            outcomes.add(expect("broadcast", 200, None, answer).header("touchline-outcome"))
    wanted = set(document.root["components"]["schemas"]["Outcome"]["enum"])
    report.check(outcomes == wanted, "touchline-outcome", f"seen: {outcomes}, documented: {wanted}")

    define("slow", **{"publish-rate": {"per-second": 0.01, "burst": 1}})
    broadcast("slow", aps())
    answer = expect("broadcast", 429, "TooManyRequests", broadcast("slow", aps()))
    report.check(int(answer.header("retry-after")) in range(99, 101), "retry-after", answer.header("retry-after"))
    define("free", budget={"capacity": None}, **{"publish-rate": {"per-second": None}})
    answer = expect("broadcast", 200, None, broadcast("free", aps()))
    report.check(answer.header("ratelimit") is None, "a channel without limits", answer.headers)


TOPIC = APP + ".push-type.liveactivity"
START = {"event": "start", "attributes-type": "MatchAttributes", "attributes": {}, "alert": {"title": "Kick-off"}}


class Phone:
    """A device: a WebSocket that registers push tokens."""

    def __init__(self, on=None):
        self.loop = asyncio.new_event_loop()
        self.open(on)

    def run(self, coroutine):
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, TIMEOUT))

    def open(self, on=None):
        async def connect():
            return await websockets.connect(f"ws://127.0.0.1:{on or port}/v1/events")
        self.web_socket = self.run(connect())

    def close(self):
        self.run(self.web_socket.close())

    def ask(self, kind, /, **fields):
        self.run(self.web_socket.send(json.dumps({"type": kind, **fields})))
        return self.receive()

    def receive(self):
        return json.loads(self.run(self.web_socket.recv()))

    def register(self, kind="update", **more):
        activity = {"activity": "final"} if kind == "update" else {}
        return self.ask("register", kind=kind, app=APP, **activity, **more)


def push(token, body, on=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    standard = {"apns-topic": TOPIC, "apns-push-type": "liveactivity"}
    return exchange(on or port, "POST", f"/3/device/{token}", standard | headers, body)


def pushes():
    """Pushes to one device: what is refused, what is done, and what became of it."""
    phone = Phone()
    token, start = phone.register()["token"], phone.register("start")["token"]
    define("followed")

    def refused(status, reason, to=token, body=aps(), **headers):
        return expect("pushToDevice", status, reason, push(to, body, **headers))
    expect("pushToDevice", 405, "MethodNotAllowed", exchange(port, "GET", f"/3/device/{token}"))
    refused(400, "BadMessageId", apns_id="7")
    details = {}
    for wrong in ("", "abc", "abcd", "ab" * 32, "eyJhbGciOiJFUzI1NiJ9.e30.c2ln", quote("NM2Pkgbowhu92K7e9R4esQ==", safe=""),
                  "followed"):
        details[wrong] = refused(400, "BadDeviceToken", to=wrong).header("touchline-detail")
    report.check(len(set(details.values())) == len(details), "BadDeviceToken", f"mistakes look alike: {details}")
    refused(400, "MissingTopic", apns_topic=None)
    refused(400, "BadTopic", apns_topic=APP)
    refused(400, "DeviceTokenNotForTopic", apns_topic="com.example.other.push-type.liveactivity")
    refused(400, "MissingPushType", apns_push_type=None)
    refused(400, "InvalidPushType", apns_push_type="alert")
    refused(400, "BadExpirationDate", apns_expiration="soon")
    refused(400, "BadPriority", apns_priority="1")
    refused(400, "BadCollapseId", apns_collapse_id="x" * 65)
    refused(400, "PayloadEmpty", body=b"")
    refused(413, "PayloadTooLarge", body=b" " * 4_097)
    refused(413, "PayloadTooLarge", body=b" " * 65_537)
    refused(400, "BadRequestPayload", body=b"{")
    for missing in ("attributes-type", "attributes", "alert", "content-state"):
        body = aps(**START)
        del body["aps"][missing]
        refused(400, "BadRequestPayload", to=start, body=body)
    refused(400, "BadRequestPayload", to=start, body=aps(**START, **{"input-push-channel": token + "x"}))
    refused(400, "BadRequestPayload", to=start, body=aps(**START, **{"input-push-token": 2}))
    both = {"input-push-token": 1, "input-push-channel": "followed"}
    refused(400, "BadRequestPayload", to=start, body=aps(**START, **both))
    refused(400, "BadDeviceToken", body=aps(**START))
    refused(400, "BadDeviceToken", to=start)

    outcomes = set()

    def accepted(to, body, **headers):
        answer = expect("pushToDevice", 200, None, push(to, body, **headers))
        outcomes.add(answer.header("touchline-outcome"))
        return answer

    def record(answer):
        name = answer.header("apns-unique-id")
        return expect("readPush", 200, None, exchange(port, "GET", f"/v1/pushes/{name.upper()}")).json
    name = str(uuid.uuid4()).upper()
    example = operations["pushToDevice"]["requestBody"]["content"]["application/json"]["example"]
    first = accepted(start.upper(), example, apns_id=name, apns_collapse_id="kick-off")
    again = accepted(start, example, apns_id=name, apns_collapse_id="kick-off")
    report.check(first.header("apns-id") == again.header("apns-id") == name, "apns-id", first.headers)
    report.check(again.header("touchline-repeated") == "true", "a repeated push", again.headers)
    report.check(first.header("apns-unique-id") == again.header("apns-unique-id"), "a repeated push", again.headers)
    got = phone.receive()
    report.check(got["apns-id"] == name and got["aps"] == example["aps"], "push", got)
    phone.ask("ack-push", token=start, displayed=True, **{"unique-id": got["unique-id"]})
    got = record(first)
    report.check(got["acknowledged"] and got["displayed"] and got["written"], "readPush", got)
    report.check(set(got) == set(document.root["components"]["schemas"]["PushRecord"]["properties"]), "readPush", got)
    expect("readPush", 404, "PushNotKnown", exchange(port, "GET", f"/v1/pushes/{uuid.uuid4()}"))

    accepted(token, aps(), apns_priority="5")
    accepted(token, aps(timestamp=1), apns_priority="5")
    while "demoted" not in outcomes:
        while (answer := push(token, aps())).status == 429:
            expect("pushToDevice", 429, "TooManyRequests", answer)
            time.sleep(0.05)
        outcomes.add(answer.header("touchline-outcome"))
    phone.close()
    waitfor = time.time() + TIMEOUT
    while time.time() < waitfor and "undeliverable" not in outcomes:
        accepted(start, aps(**START))
    accepted(start, aps(**START), apns_expiration=str(int(time.time()) + 100))
    wanted = set(document.root["components"]["schemas"]["PushOutcome"]["enum"])
    report.check(outcomes == wanted, "touchline-outcome", f"seen: {outcomes}, documented: {wanted}")

    phone.open()
    token, other = phone.register()["token"], phone.register()["token"]
    phone.ask("unregister", token=token, reason="ended")
    phone.ask("unregister", token=other, reason="switched-off")
    answer = refused(410, "ExpiredToken", to=token)
    report.check(abs(answer.json["timestamp"] / 1_000 - time.time()) < TIMEOUT, "410", answer.body)
    refused(410, "Unregistered", to=other)
    phone.close()


def local():
    def create(body):
        return exchange(port, "POST", "/v1/channels", body=body)
    expect("createLocalChannel", 400, "BadRequestPayload", create(b"{"))
    expect("createLocalChannel", 400, "BadRequestParams", create({"alias": "x"}))
    expect("createLocalChannel", 400, "BadRequestParams", create({"alias": "-", "definition": {"app": APP}}))
    expect("createLocalChannel", 400, "BadDefinition", create({"definition": {"app": 1, "colour": "red"}}))
    expect("createLocalChannel", 413, "PayloadTooLarge", create(b" " * 65_537))
    example = operations["createLocalChannel"]["requestBody"]["content"]["application/json"]["example"]
    answer = expect("createLocalChannel", 201, None, create(example))
    expect("createLocalChannel", 409, "AliasTaken", create(example))
    expect("createLocalChannel", 201, None, create({"definition": {
        "app": APP, "attributes-type": "A", "attributes": {"a": 1}, "budget": {"capacity": None},
        "publish-rate": {"per-second": None, "burst": None}, "content-state": {"a": "[String: Int]?", "b": {"c": "Bool"}},
    }}))
    expect("listLocalChannels", 200, None, exchange(port, "GET", "/v1/channels"))
    expect("readLocalChannel", 200, None, exchange(port, "GET", "/v1/channels/plain"))
    expect("readLocalChannel", 200, None, exchange(port, "GET", answer.header("location")))
    for operation, method, end in (
        ("readLocalChannel", "GET", ""), ("deleteLocalChannel", "DELETE", ""), ("streamChannel", "GET", "/events"),
        ("readMessage", "GET", f"/messages/{uuid.uuid4()}"),
    ):
        expect(operation, 400, "BadChannelId", exchange(port, method, f"/v1/channels/-{end}"))
        expect(operation, 404, "ChannelNotRegistered", exchange(port, method, f"/v1/channels/nobody{end}"))
        expect(operation, 404, "BadPath", exchange(port, method, f"/v1/channels/%ff{end}"))
    expect("deleteLocalChannel", 204, None, exchange(port, "DELETE", answer.header("location")))
    expect("welcome", 200, None, exchange(port, "GET", "/"))
    expect("health", 200, None, exchange(port, "GET", "/healthz"))
    expect("ready", 200, None, exchange(port, "GET", "/readyz"))
    expect("metrics", 200, None, exchange(port, "GET", "/metrics"))
    for proxy in ("forwarded", "x-forwarded-for", "x-real-ip", "via"):
        expect("metrics", 403, "MetricsForbidden", exchange(port, "GET", "/metrics", {proxy: "192.0.2.1"}))

    # HEAD is GET without the body.
    for target in ("/", "/healthz", "/readyz", "/metrics", "/v1/channels", "/v1/channels/plain", "/v1/channels/nobody", "/v1/events",
                   "/v1/requests", "/v1/requests?x", "/v1/channels/plain/messages/7", "/v1/pushes/7"):
        head, get = exchange(port, "HEAD", target), exchange(port, "GET", target)
        same = [(a.status, [name for name, _ in a.headers]) for a in (head, get)]
        report.check(same[0] == same[1] and not head.body, f"HEAD {target}", same)


def definitions():
    """Every member of a definition comes back as it went in, with the rules that it left out."""
    given = {
        "message-storage-policy": 1, "frequent-updates": True, "attributes-type": "A", "attributes": {"home": "Spain"},
        "content-state": {"home": "Int", "clock": "String?", "followed": "Bool?", "nested": {"deep": "[Date]"}},
        "presentations": {"minimal": "{home}", "lock-screen": "{home} {clock}"},
        "accessibility": {"minimal": "Spain has {home}"},
        "actions": {"follow": {"title": "Follow", "sets": {"followed": True}},
                    "mark": {"sets": {"nested": {"deep": []}}}},
        "subscribe": "open", "sensitive": ["clock", "home"], "strings": {"en": {"GOAL": "Goal!"}, "es": {"GOAL": "¡Gol!"}, "de": {}},
    }
    members = set(document.root["components"]["schemas"]["Definition"]["properties"])
    rules = {"app", "budget", "windows", "publish-rate"}
    report.check(members == set(given) | rules, "Definition", f"members: {members}")
    got = expect("createLocalChannel", 201, None, define("whole", **given)).json["definition"]
    report.check(got == expect("readLocalChannel", 200, None, exchange(port, "GET", "/v1/channels/whole")).json["definition"],
                 "Definition", "differs when read again")
    given["actions"]["mark"]["title"] = "mark"
    del given["strings"]["de"]
    for name, value in given.items():
        report.check(got.get(name) == value, f"Definition {name}", f"{value} came back as {got.get(name)}")
    for wrong in ({"actions": []}, {"actions": {"a": {}}}, {"actions": {"a": {"sets": {}}}},
                  {"actions": {"a": {"sets": {"x": 1}}}, "content-state": {"y": "Int"}}, {"sensitive": "clock"},
                  {"sensitive": ["x"], "content-state": {"y": "Int"}}, {"strings": {"en": {"GOAL": 1}}},
                  {"accessibility": {"watch": "x"}}):
        expect("createLocalChannel", 400, "BadDefinition", define(**wrong))


def messages():
    """What became of a message, as its publisher can ask."""
    define("told", windows={"5": 60, "1": 60})

    def record(answer, method="GET"):
        name = answer.header("apns-unique-id")
        got = expect("readMessage", 200, None, exchange(port, method, f"/v1/channels/told/messages/{name.upper()}")).json
        report.check(got["unique-id"] == name and abs(got["accepted"] - time.time()) < 5, "readMessage", got)
        return got
    first, second, old = (broadcast("told", aps(**more), apns_priority="5") for more in ({}, {}, {"timestamp": 1}))
    outcomes = [record(answer)["outcome"] for answer in (first, second, old)]
    report.check(outcomes == ["superseded", "windowed", "superseded"], "readMessage", outcomes)
    report.check("seq" not in record(second), "readMessage", "what waits has a number")
    stream = exchange(port, "GET", "/v1/channels/told/events", endless=True)
    last = broadcast("told", aps())
    got = record(last)
    counts = [got[name] for name in ("subscribers", "written", "acknowledged", "displayed")]
    report.check(got["seq"] == 1 and counts == [1, 1, 0, 0], "readMessage", got)
    report.check(record(second)["outcome"] == "superseded", "readMessage", record(second))
    stream.socket.close()
    expect("readMessage", 404, "MessageNotKnown", exchange(port, "GET", f"/v1/channels/told/messages/{uuid.uuid4()}"))
    expect("readMessage", 404, "MessageNotKnown", exchange(port, "GET", "/v1/channels/told/messages/7"))


def requests():
    """The request log: what the requests before left there, every member of an entry, and a stream of it."""
    def read(query=""):
        return expect("readRequests", 200, None, exchange(port, "GET", "/v1/requests" + query)).json
    stream = exchange(port, "GET", "/v1/requests?limit=1", {"accept": "text/event-stream"}, endless=True)
    stream.body = stream.stream.readline()
    expect("readRequests", 200, None, stream)
    define("logged")
    follower = exchange(port, "GET", "/v1/channels/logged/events", endless=True)
    token = "bearer eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyMzRERUYifQ.eyJpc3MiOiJURUFNMTIzNDU2In0.c2ln"
    sent = broadcast("logged", aps(**{"state-date": 1}), apns_priority=None, authorization=token, user_agent="checker")
    # Once: asked again over HTTP/2 it would be in the log twice.
    wrong = {"apns-channel-id": "logged", "apns-push-type": "liveactivity", "apns-priority": "7"}
    documents.exchange(port, "POST", BROADCAST, wrong, aps())
    seen = {name for entry in read("?limit=1000")["requests"] for name in entry}
    wanted = set(document.root["components"]["schemas"]["RequestEntry"]["properties"])
    report.check(seen == wanted, "RequestEntry", f"seen: {seen}, documented: {wanted}")
    got = read("?channel=logged")
    first, second = got["requests"]
    report.check(first["apns-unique-id"] == sent.header("apns-unique-id") and second["reason"] == "BadPriority"
                 and got["next"] == second["id"], "readRequests", got)
    report.check(first["authorization"] == "bearer, key ABC1234DEF", "authorization", first)
    report.check(read("?after=" + first["id"])["requests"] == [second], "after", first["id"])
    report.check(len(read("?limit=3")["requests"]) == 3, "limit", "isn't kept")
    for status, entry in (("200", first), ("4xx,5xx", second)):
        report.check(read(f"?channel=logged&status={status}")["requests"] == [entry], "status", status)
    report.check(read("?app=com.example.nobody") == {"requests": [], "next": got["next"]}, "app", "is not looked at")
    while "BadPriority" not in (line := stream.stream.readline().decode()):
        report.check(line, "readRequests", "the stream ended")
    errors = document.errors({"$ref": "#/components/schemas/RequestEntry"}, json.loads(line.removeprefix("data: ")))
    report.check(not errors, "a stream's entry", errors)
    stream.socket.close()
    follower.socket.close()
    for query in ("?limt=1", "?limit=-1", "?limit=1001", "?limit=1&limit=1", "?after=7", "?status=2x", "?status="):
        expect("readRequests", 400, "BadRequestParams", exchange(port, "GET", "/v1/requests" + query))


# What a client shows, and the reason for which it is refused wherever the document has that reason: headers, an argument,
# a certificate.
BAD = {
    "MissingProviderToken": ({}, "", None),
    "InvalidProviderToken": ({"authorization": "bearer x.y.z"}, "", None),
    "ExpiredProviderToken": (guarded.bearer("oldProvider"), "", None),
    "TopicMismatch": (guarded.bearer("news"), "", None),
    "BadCertificate": ({}, "", "nobody"),
    "BadCertificateEnvironment": ({}, "", "production"),
    "MissingSubscriberToken": ({}, "", None),
    "InvalidSubscriberToken": ({}, "?token=x", None),
    "ExpiredSubscriberToken": (guarded.bearer("oldSubscriber"), "", None),
    "ChannelNotAllowed": (guarded.bearer("other"), "", None),
    "OriginNotAllowed": (guarded.bearer("provider") | {"origin": "https://evil.example.com"}, "", None),
}
# What a client shows for each of the security schemes.
GOOD = {
    "providerToken": (guarded.bearer("provider"), "", None),
    "clientCertificate": ({}, "", "scores"),
    "subscriberToken": (guarded.bearer("subscriber"), "", None),
    "subscriberTokenArgument": ({}, "?token=" + guarded.given["subscriber"], None),
    "subscriberTokenSubprotocol": (
        {"sec-websocket-protocol": f"touchline.v1, touchline.token.{guarded.given['subscriber']}"}, "", None),
}


def access():
    """Who may do what: each operation, with each thing that a client can show, over both versions of HTTP."""
    provider = guarded.bearer("provider")

    def define(alias, **rules):
        body = {"alias": alias, "definition": {"app": APP, **rules}}
        return exchange(guarded.port, "POST", "/v1/channels", provider, body)
    for alias in ("vip", "box"):
        got = expect("createLocalChannel", 201, None, define(alias, subscribe="token")).json["definition"]
        report.check(got["subscribe"] == "token", "Definition", got)
    expect("createLocalChannel", 400, "BadDefinition", exchange(
        port, "POST", "/v1/channels", body={"definition": {"app": APP, "subscribe": "token"}}))
    phone = Phone(guarded.port)
    token = phone.register()["token"]
    to_device = {"apns-topic": TOPIC, "apns-push-type": "liveactivity"}
    pushed = exchange(guarded.port, "POST", f"/3/device/{token}", provider | to_device, aps())
    message = {"apns-channel-id": "vip", "apns-push-type": "liveactivity", "apns-priority": "10", "apns-expiration": "0"}
    asked = {
        "createChannel": ("POST", CHANNELS, {}, NEW_CHANNEL),
        "readChannel": ("GET", CHANNELS, {"apns-channel-id": "vip"}, b""),
        "deleteChannel": ("DELETE", CHANNELS, {"apns-channel-id": "AAAAAAAAAAAAAAAAAAAAAA=="}, b""),
        "listChannels": ("GET", f"/1/apps/{APP}/all-channels", {}, b""),
        "broadcast": ("POST", BROADCAST, message, aps()),
        "pushToDevice": ("POST", f"/3/device/{token}", to_device, aps()),
        "welcome": ("GET", "/", {}, b""),
        "health": ("GET", "/healthz", {}, b""),
        "ready": ("GET", "/readyz", {}, b""),
        "metrics": ("GET", "/metrics", {}, b""),
        "listLocalChannels": ("GET", "/v1/channels", {}, b""),
        "createLocalChannel": ("POST", "/v1/channels", {}, {"definition": {"app": APP}}),
        "readRequests": ("GET", "/v1/requests", {}, b""),
        "readLocalChannel": ("GET", "/v1/channels/vip", {}, b""),
        "deleteLocalChannel": ("DELETE", "/v1/channels/doomed", {}, b""),
        "readMessage": ("GET", f"/v1/channels/vip/messages/{uuid.uuid4()}", {}, b""),
        "streamChannel": ("GET", "/v1/channels/vip/events", {}, b""),
        "readPush": ("GET", "/v1/pushes/" + pushed.header("apns-unique-id"), {}, b""),
        "openSession": ("GET", "/v1/events", {}, b""),
    }
    report.check(set(asked) == set(operations), "access", f"not asked: {set(operations) ^ set(asked)}")
    statuses = {(name, what): int(status) for name, status, what in documented if what in BAD}

    def request(operation, shown):
        method, target, headers, body = asked[operation]
        page = {"origin": ORIGIN} if operation in local_operations else {}
        return method, target + shown[1], headers | page | shown[0], body

    def judge(operation, answer, status=None, reason=None):
        """An answer that fits the document, and that a page may read if it may ask."""
        expect(operation, status or answer.status, reason, answer)
        if operation in local_operations:
            own = None if reason == "OriginNotAllowed" else ORIGIN
            got = (answer.header("access-control-allow-origin"), answer.header("vary"))
            report.check(got == (own, "origin"), f"{operation} {reason or answer.status}", f"origin and vary are {got}")

    for operation in operations:
        define("doomed")
        for reason, shown in BAD.items():
            status = statuses.get((operation, reason))
            # What the document doesn't name may have any answer that it names.
            for ask in (guarded.http1, guarded.http2) if status else (guarded.http1,):
                judge(operation, ask([request(operation, shown)], shown[2]), status, status and reason)
        # Another provider token within 20 minutes.
        again = GOOD["providerToken"]
        if (operation, "TooManyProviderTokenUpdates") in {(name, what) for name, _, what in documented}:
            for ask in (guarded.http1, guarded.http2):
                first = ("GET", "/v1/requests?limit=0", guarded.bearer("another"), b"")
                judge(operation, ask([first, request(operation, again)]), 429, "TooManyProviderTokenUpdates")
        # What the document names lets in, and nothing else does.
        schemes = {name for item in operations[operation].get("security", []) for name in item}
        for scheme, shown in GOOD.items():
            if scheme == "subscriberTokenSubprotocol" and scheme not in schemes:
                continue
            define("doomed")
            answer = guarded.http1([request(operation, shown)], shown[2], endless=operation == "streamChannel")
            is_in = answer.status not in (401, 403, 429)
            # This is the provider port, where nobody counts as local: the metrics want a token of their own.
            wanted = scheme in schemes or operation in ("health", "ready")
            report.check(is_in == wanted, f"{operation} with {scheme}", f"answered {answer.status}")
            if operation == "streamChannel":
                answer.body = answer.stream.readline()
                answer.socket.close()
            judge(operation, answer)
            if is_in and operation != "streamChannel":
                define("doomed")
                judge(operation, guarded.http2([request(operation, shown)], shown[2]), answer.status)

    # A handshake is refused as the plain request is.
    for operation in ("streamChannel", "openSession"):
        for (name, reason), status in statuses.items():
            if name == operation:
                method, target, headers, body = request(operation, BAD[reason])
                judge(operation, guarded.http1([(method, target, headers | HANDSHAKE, body)], BAD[reason][2]),
                      status, reason)
        for scheme, shown in GOOD.items():
            method, target, headers, body = request(operation, shown)
            answer = guarded.http1([(method, target, HANDSHAKE | headers, body)], shown[2], endless=True)
            report.check(answer.status == 101, f"{operation} with {scheme}", f"answered {answer.status}")
            report.check(guarded.given["subscriber"] not in str(answer.headers), operation, "repeats the token")
            answer.socket.close()
    phone.close()

    # A strict server wants the headers that Apple's documents want, and a connection has one team.
    for name, reason in (("apns-priority", "BadPriority"), ("apns-expiration", "BadExpirationDate")):
        expect("broadcast", 400, reason, exchange(guarded.port, "POST", BROADCAST, message | provider | {name: None}, aps()))
    teams = [("GET", f"/1/apps/{APP}/all-channels", guarded.bearer(name), b"") for name in ("provider", "news")]
    for ask in (guarded.http1, guarded.http2):
        expect("listChannels", 403, "InvalidProviderToken", ask(teams))
    nothing = exchange(guarded.port, "GET", "/nothing", {"origin": ORIGIN})
    expect_unmatched("local-path", 404, "BadPath", nothing)
    report.check(nothing.header("access-control-allow-origin") == ORIGIN, "local-path", nothing.headers)


def secure():
    """A port with TLS, and what HTTP/2 can say wrong."""
    expect_unmatched("malformed", 400, "TLSRequired", documents.exchange(guarded.tls_port, "GET", "/healthz"))
    for status, reason, target, headers in (
        (400, "BadPath", "/%zz", {}), (400, "BadQuery", "/?%zz", {}), (431, "HeadersTooLarge", "/", {"a": "a" * 8_192}),
    ):
        answer = guarded.http2([("GET", target, headers, b"")])
        expect_unmatched("malformed", status, reason, answer)
    expect_unmatched("malformed", 405, "MethodNotAllowed", http2_tunnel(guarded.port))


def streams():
    target = "/v1/channels/plain/events"

    def stream(headers=None, query=""):
        return exchange(port, "GET", target + query, headers)
    answer = exchange(port, "GET", target, endless=True)
    answer.body = answer.stream.readline()
    expect("streamChannel", 200, None, answer)
    answer.socket.close()
    expect("streamChannel", 400, "BadRequestParams", stream({"last-event-id": "7"}))
    expect("streamChannel", 400, "BadRequestParams", stream(query="?epoch=x"))
    expect("streamChannel", 400, "BadRequestParams", stream(query="?epoch=x&seq=-1"))
    expect("streamChannel", 406, "NotAcceptable", stream({"accept": "text/html,*/*;q=0.8"}))
    expect("openSession", 426, "UpgradeRequired", exchange(port, "GET", "/v1/events"))

    for operation, target in (("streamChannel", target), ("openSession", "/v1/events")):
        def handshake(method="GET", body=b"", **headers):
            changed = HANDSHAKE | {name.replace("_", "-"): value for name, value in headers.items()}
            return exchange(port, method, target, changed, body)
        for protocol in ("touchline.v1", None):
            answer = handshake(sec_websocket_protocol=protocol)
            expect(operation, 101, None, answer)
        expect(operation, 426, "UnknownWebSocketVersion", handshake(sec_websocket_version="8"))
        expect(operation, 400, "BadHandshake", handshake(method="POST"))
        expect(operation, 400, "BadWebSocketKey", handshake(sec_websocket_key="x"))
        expect(operation, 400, "UnknownSubprotocol", handshake(sec_websocket_protocol="mqtt"))
        connection = connect(port)
        connection.sendall(request_text("GET", target, HANDSHAKE) + b"early")
        expect(operation, 400, "DataBeforeHandshake", Answer(connection))


def unmatched(slow):
    for target in ("/3/devices/abc", "/3/device", "/1/apps", CHANNELS + "/x"):
        expect_unmatched("provider-path", 404, "BadPath", exchange(port, "POST", target))
    for method, target in (("PUT", CHANNELS), ("HEAD", CHANNELS), ("GET", BROADCAST)):
        answer = exchange(port, method, target)
        if method == "HEAD":
            report.check(answer.status == 405, "HEAD", answer.status)
        else:
            expect_unmatched("provider-method", 405, "MethodNotAllowed", answer)
    for target in ("/nothing", "/v1", "/v1/channels/a/b", "/v1/channels/plain/messages"):
        expect_unmatched("local-path", 404, "BadPath", exchange(port, "GET", target))
    expect_unmatched("local-path", 404, "BadPath", exchange(port, "GET", "/healthz", HANDSHAKE))
    for target in ("/", "/healthz", "/readyz", "/metrics", "/v1/channels", "/v1/channels/plain",
                   "/v1/channels/plain/messages/7", "/v1/events", "/v1/requests", "/v1/pushes/7"):
        expect_unmatched("local-method", 405, "MethodNotAllowed", exchange(port, "PUT", target))

    start, host = b"POST / HTTP/1.1\r\n", b"host: x\r\n"
    for status, reason, text in (
        (400, "BadRequest", start + b"host: \0\r\n\r\n"), (400, "BadRequestLine", b"POST /\r\n\r\n"),
        (400, "BadTarget", b"POST x HTTP/1.1\r\n\r\n"), (400, "BadPath", b"POST /%zz HTTP/1.1\r\n\r\n"),
        (400, "BadQuery", b"POST /?%zz HTTP/1.1\r\n\r\n"), (400, "BadHeader", start + b"a b\r\n\r\n"),
        (400, "BadLineEnd", b"POST / HTTP/1.1\nhost: x\r\n\r\n"), (400, "BadHost", start + b"\r\n"),
        (400, "BadContentLength", start + host + b"content-length: x\r\n\r\n"),
        (400, "BadTransferEncoding", start + host + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n"),
        (400, "BadChunk", start + host + b"transfer-encoding: chunked\r\n\r\nx\r\n"),
        (417, "ExpectationFailed", start + host + b"expect: miracles\r\n\r\n"),
        (431, "HeadersTooLarge", start + host + b"a: " + b"a" * 8_192 + b"\r\n\r\n"),
        (501, "UnknownTransferEncoding", start + host + b"transfer-encoding: gzip\r\n\r\n"),
        (505, "HTTPVersionNotSupported", b"POST / HTTP/2.0\r\n" + host + b"\r\n"),
    ):
        connection = connect(port)
        connection.sendall(text)
        expect_unmatched("malformed", status, reason, Answer(connection))
    expect_unmatched("malformed", 408, "RequestTimeout", Answer(slow))


def trouble():
    full = {"alias": None, "definition": {"app": "com.example.full"}}
    expect("createChannel", 400, "CannotCreateChannelConfig",
           exchange(troubled, "POST", "/1/apps/com.example.full/channels", body=NEW_CHANNEL))
    expect("createLocalChannel", 400, "CannotCreateChannelConfig", exchange(troubled, "POST", "/v1/channels", body=full))
    expect("createChannel", 503, "ServiceUnavailable", exchange(troubled, "POST", CHANNELS, body=NEW_CHANNEL))
    expect("createLocalChannel", 503, "ServiceUnavailable", define(on=troubled))
    expect("deleteChannel", 503, "ServiceUnavailable",
           exchange(troubled, "DELETE", CHANNELS, {"apns-channel-id": "stored"}))
    expect("deleteLocalChannel", 503, "ServiceUnavailable", exchange(troubled, "DELETE", "/v1/channels/stored"))
    expect("broadcast", 503, "ServiceUnavailable", broadcast("stored", aps(), on=troubled))

    # Requests that began before the shutdown and end after it. A WebSocket that doesn't answer its close frame keeps
    # the server alive for a while.
    requests = {
        "createChannel": request_text("POST", CHANNELS, body=NEW_CHANNEL),
        "broadcast": request_text(
            "POST", BROADCAST, {"apns-channel-id": "stored", "apns-push-type": "liveactivity"}, aps()),
        "createLocalChannel": request_text("POST", "/v1/channels", body={"definition": {"app": APP}}),
        "health": request_text("GET", "/healthz", body=b"{}"),
        "ready": request_text("GET", "/readyz", body=b"{}"),
    }
    phone = Phone(troubled)
    token = phone.register("start")["token"]
    phone.close()
    headers = {"apns-topic": TOPIC, "apns-push-type": "liveactivity"}
    requests["pushToDevice"] = request_text("POST", f"/3/device/{token}", headers, aps(**START))
    pending = {operation: connect(troubled) for operation in requests}
    for operation, connection in pending.items():
        connection.sendall(requests[operation][:-1])
    web_socket = exchange(troubled, "GET", "/v1/events", HANDSHAKE, endless=True)
    shut_down()
    web_socket.socket.recv(100)
    for operation, connection in pending.items():
        connection.sendall(requests[operation][-1:])
        expect(operation, 503, None if operation in ("health", "ready") else "Shutdown", Answer(connection))


def examples(node=document.root):
    """The document's own examples fit its schemas, and answer examples are not made up of other reasons."""
    if isinstance(node, list):
        for item in node:
            examples(item)
    if isinstance(node, dict):
        if "schema" in node and "example" in node:
            for error in document.errors(node["schema"], node["example"]):
                report.fail("example", f"{error} in {node['example']}")
        for item in node.values():
            examples(item)


def all_reasons():
    """The reasons in the document are those in the code."""
    given = {what for _, _, what in documented if what and not what.startswith("header ")}
    own = {item["const"] for item in document.root["components"]["schemas"]["ProviderReason"]["oneOf"]}
    frames = {"BrokenFrame", "MissingType", "UnknownType", "NotSubscribed", "TooManySubscriptions", "UnknownAction",
              "UnknownToken", "WrongSecret", "TooManyTokens"}
    in_code = reasons_in_sources() - NOT_ANSWERED - frames
    report.check(own <= given, "ProviderReason", f"no operation gives {own - given}")
    report.check(given == in_code, "reasons", f"only documented: {given - in_code}, only in code: {in_code - given}")


slow = connect(port)
slow.sendall(b"POST / HTTP/1.1\r\n")
examples()
all_reasons()
provider_management()
provider_broadcast()
local()
definitions()
messages()
pushes()
requests()
access()
secure()
streams()
trouble()
unmatched(slow)
report.finish(documented, EXCEPTIONS)
