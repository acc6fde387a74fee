"""Checks docs/asyncapi.yaml against running servers, both ways: every frame and event has to fit the document, and
every documented message, error reason and close code has to be seen.

Usage: check_asyncapi.py DOCUMENT PORT TROUBLED-PORT ACCESS

For the servers see check_openapi.py; the one of ACCESS withdraws a key when this program prints "withdraw". The ordinary one pings after half a second; the troubled one drops who is silent
or reads nothing for three, and has a channel "unlimited" without limits.
"""
import asyncio
import sys
import threading
import time
import uuid

import websockets

from documents import *
from guarded import *

APP = "com.example.scores"
FRAME_LIMIT = 16_384
# Documented things that can't be provoked, with the reason.
EXCEPTIONS = {}
# The provider API and the local API alone give these (check_openapi.py); a closing connection is told nothing more,
# so `Shutdown` never becomes a frame.
NO_FRAME = {"Shutdown", "CannotCreateChannelConfig", "MethodNotAllowed", "BadPath", "TopicDisallowed",
            "MissingPushType", "InvalidPushType", "BadDeviceToken", "DeviceTokenNotForTopic", "MissingTopic", "BadTopic",
            "BadCollapseId", "ExpiredToken", "Unregistered", "ExpiredProviderToken", "BadCertificate",
            "BadCertificateEnvironment", "TooManyProviderTokenUpdates"}

path, port, troubled = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
guarded = Guarded(sys.argv[4])
document = Document(path, jsonschema.Draft7Validator)
report = Report()
channels = document.root["channels"]


# What is documented.

def message(channel, name):
    return document.resolve(channels[channel]["messages"][name])


def type_of(channel, name):
    return document.resolve(message(channel, name)["payload"])["properties"]["type"]["const"]


documented = {(channel, name) for channel, item in channels.items() for name in item["messages"]}
documented |= {(channel, f"close {code}") for channel, item in channels.items() for code in item.get("x-close-codes", {})}
schemas = document.root["components"]["schemas"]
for where, key in (("Error", "reason"), ("Unsubscribed", "reason"), ("Published", "outcome"),
                   ("Unregistered", "reason")):
    documented |= {(where, value) for value in schemas[where]["properties"][key]["enum"]}
for where in ("Subscribed", "Unsubscribed", "Acknowledged", "Published", "Message", "Error", "Quota", "Listening",
              "IntentAccepted", "Intent", "Subscribe", "Unsubscribe", "Ack", "Publish", "SendIntent", "Listen",
              "Register", "Rotate", "Unregister", "AckPush", "Registered", "Unregistered", "PushAcknowledged", "Push",
              "Goodbye"):
    documented |= {(where, f"has {name}") for name in schemas[where]["properties"]}


def note(where, value):
    report.seen |= {(where, f"has {name}") for name in value}


def schema_name(kind):
    """`intent-accepted` is IntentAccepted."""
    return "".join(word[:1].upper() + word[1:] for word in kind.split("-"))


def fit(channel, value, headers=None):
    """What the server said fits the message of its type, and that one is noted as seen."""
    name = value.get("type")
    if name not in channels[channel]["messages"] or type_of(channel, name) != name:
        return report.fail(channel, f"the message {name} is not documented: {value}")
    item = message(channel, name)
    errors = document.errors(item["payload"], value)
    if headers is not None:
        errors += document.errors(item["headers"], headers)
    for error in errors:
        report.fail(f"{channel} {name}", f"{error} in {str(value)[:300]}")
    report.seen.add((channel, name))
    note(schema_name(name), value)
    for key in ("reason", "outcome"):
        if key in value:
            report.seen.add((schema_name(name), value[key]))
    for quota in (value.get("budget") or {}).values():
        note("Quota", quota or {})


# Talking to the server.

class Client:
    """A WebSocket to one of the two documented channels."""

    def __init__(self, channel, web_socket):
        self.channel, self.web_socket = channel, web_socket

    @classmethod
    async def open(cls, channel, name="plain", on=None, query="", subprotocols=(), **options):
        address = channels[channel]["address"].replace("{channel}", name)
        scheme = "wss" if "ssl" in options else "ws"
        web_socket = await websockets.connect(
            f"{scheme}://127.0.0.1:{on or port}{address}{query}", subprotocols=["touchline.v1", *subprotocols],
            compression=None, **options)
        report.check(web_socket.subprotocol == "touchline.v1", channel, "no subprotocol")
        client = cls(channel, web_socket)
        if channel == "channel":
            await client.expect("subscribed")
        return client

    async def receive(self):
        text = await asyncio.wait_for(self.web_socket.recv(), TIMEOUT)
        value = json.loads(text)
        fit(self.channel, value)
        return value

    async def expect(self, kind, /, **wanted):
        """The next frame has this type and these values."""
        value = await self.receive()
        wanted["type"] = kind
        wanted = {name.replace("_", "-"): item for name, item in wanted.items()}
        got = {name: value.get(name) for name in wanted}
        report.check(got == wanted, self.channel, f"wanted {wanted}, got {value}")
        return value

    async def say(self, kind, /, **fields):
        """Sends a frame that the document allows."""
        frame = {"type": kind} | {name.replace("_", "-"): value for name, value in fields.items()}
        # Both sides have an `intent`.
        name = "sendIntent" if kind == "intent" else kind
        for error in document.errors(message(self.channel, name)["payload"], frame):
            report.fail(f"{self.channel} {name}", f"the checker sent a frame that doesn't fit: {error}")
        report.seen.add((self.channel, name))
        note(schema_name(name), frame)
        await self.web_socket.send(json.dumps(frame))

    async def refused(self, reason, frame, /, **wanted):
        await self.web_socket.send(frame if isinstance(frame, str) else json.dumps(frame))
        return await self.expect("error", reason=reason, **wanted)

    async def closes(self, code):
        try:
            while True:
                await self.receive()
        except websockets.ConnectionClosed as closed:
            report.check(closed.rcvd and closed.rcvd.code == code, self.channel, f"wanted {code}, got {closed}")
            report.seen.add((self.channel, f"close {closed.rcvd.code if closed.rcvd else None}"))

    async def close(self):
        await self.web_socket.close()


class EventStream:
    """A text/event-stream, event by event."""

    def __init__(self, name="plain", on=None, query="", headers=None):
        self.answer = exchange(on or port, "GET", f"/v1/channels/{name}/events{query}", headers, endless=True)
        report.check(self.block() == ["retry: 1000"], "eventStream", "it doesn't begin with retry")

    def block(self):
        """The lines up to an empty one; [] at the end."""
        lines = []
        while (line := self.answer.stream.readline().decode().rstrip("\n")):
            lines.append(line)
        return lines

    def expect(self, kind):
        """The next event has this name; comments are passed over."""
        while (lines := self.block()) == [": keep-alive"]:
            pass
        data = "\n".join(line[6:] for line in lines if line.startswith("data: "))
        headers = dict(line.split(": ", 1) for line in lines if not line.startswith("data: "))
        value = json.loads(data) if data else {}
        fit("eventStream", value, headers)
        report.check(value.get("type") == headers.get("event") == kind, "eventStream", f"wanted {kind}, got {lines}")
        return value, headers, data


def aps(**more):
    return {"timestamp": int(time.time()), "event": "update", "content-state": {"home": 1}, **more}


def define(alias, **rules):
    answer = exchange(port, "POST", "/v1/channels", body={"alias": alias, "definition": {"app": APP, **rules}})
    report.check(answer.status == 201, f"creating {alias}", answer.body)
    return answer.json["id"]


# The scenario.

async def conversation(channel):
    """Every frame of a client and its answer; `channel` is how the WebSocket was opened."""
    alias = f"plain-{channel}"
    name = define(alias, windows={"5": 60, "1": 60})
    client = await Client.open(channel, alias)
    request = str(uuid.uuid4()).upper()
    await client.say("subscribe", channel=alias, request_id=request)
    begin = await client.expect("subscribed", channel=name, alias=alias, seq=0, request_id=request)
    await client.say("publish", channel=alias, aps=aps(), request_id=request)
    delivered = await client.expect("message", channel=name, epoch=begin["epoch"], seq=1, priority=10)
    report.check(abs(delivered["sent"] - time.time()) < 5, "sent", delivered)
    first = await client.expect("published", outcome="delivered", request_id=request, unique_id=delivered["unique-id"])
    report.check("repeated" not in first, "published", "the first is no repetition")
    await client.say("publish", channel=name, aps=aps(), request_id=request)
    await client.expect("published", repeated=True, unique_id=first["unique-id"], outcome="delivered")
    await client.say("ack", channel=alias, seq=1)
    await client.expect("acknowledged", channel=name, seq=1)
    await client.say("ack", channel=alias, seq=1, request_id=request)
    await client.expect("acknowledged", channel=name, seq=1, request_id=request)
    counts = exchange(port, "GET", f"/v1/channels/{alias}").json["counts"]
    report.check(counts["acknowledged"] == 1, "ack", f"is not cumulative: {counts}")
    await client.say("publish", channel=alias, aps=aps(), priority=5, expiration=0)
    await client.expect("published", outcome="windowed")
    await client.say("publish", channel=alias, aps=aps(timestamp=1), priority=1)
    await client.expect("published", outcome="superseded")
    await client.say("unsubscribe", channel=alias, request_id=request)
    await client.expect("unsubscribed", channel=name, reason="requested", request_id=request)
    await client.close()

    # Two clients, of which one sees the other's channel deleted; only that of the address ends the connection.
    client, multiplexed = await Client.open(channel, alias), await Client.open("session")
    await multiplexed.say("subscribe", channel=alias)
    await multiplexed.expect("subscribed")
    exchange(port, "DELETE", f"/v1/channels/{alias}")
    # What waits in the window goes out first: deleting a channel recalls no message.
    await multiplexed.expect("message", channel=name, seq=2)
    await multiplexed.expect("unsubscribed", channel=name, reason="deleted")
    if channel == "channel":
        await client.expect("message", channel=name, seq=2)
        await client.expect("unsubscribed", channel=name, reason="deleted")
        await client.closes(4004)
    await multiplexed.refused("ChannelNotRegistered", {"type": "subscribe", "channel": name})
    await multiplexed.close()
    await client.close()


async def intents(channel):
    """Pressed buttons go to every publisher that listens, once, and wait for one that comes later."""
    alias = f"pressed-{channel}"
    name = define(alias, **{"content-state": {"followed": "Bool", "team": "String?"}, "actions": {
        "follow": {"title": "Follow", "sets": {"followed": True}}, "leave": {"sets": {"team": None}}}})
    first, second = str(uuid.uuid4()).upper(), str(uuid.uuid4())
    follow = {"channel": name, "action": "follow", "sets": {"followed": True}, "request_id": first}
    leave = {"channel": name, "action": "leave", "sets": {"team": None}, "request_id": second}
    publisher, phone = await Client.open(channel, "quiet"), await Client.open(channel, "quiet")
    await publisher.say("listen", channel=alias, request_id=first)
    await publisher.expect("listening", channel=name, request_id=first)
    await phone.say("intent", channel=alias, action="follow", request_id=first)
    got = await phone.expect("intent-accepted", channel=name, request_id=first)
    report.check("repeated" not in got, "intent-accepted", got)
    await phone.say("intent", channel=name, action="follow", request_id=first)
    await phone.expect("intent-accepted", request_id=first, repeated=True)
    await phone.say("intent", channel=alias, action="leave", request_id=second)
    await phone.expect("intent-accepted", request_id=second)
    late = await Client.open(channel, "quiet")
    await late.say("listen", channel=name)
    await late.expect("listening", channel=name)
    for client in (publisher, late):
        await client.expect("intent", **follow)
        await client.expect("intent", **leave)
    frame = {"type": "intent", "channel": alias, "request-id": str(uuid.uuid4())}
    error = await phone.refused("UnknownAction", frame | {"action": "folow"}, request_id=frame["request-id"])
    report.check("follow" in error["message"], "UnknownAction", error)
    await phone.refused("UnknownAction", frame | {"action": "follow", "channel": "quiet"})
    await phone.refused("BadRequestParams", frame)
    await phone.refused("BadMessageId", {"type": "intent", "channel": alias, "action": "follow"})
    await phone.refused("ChannelNotRegistered", {"type": "listen", "channel": "nobody"})
    # Who also subscribes is told once; for the others it is the end of listening.
    await late.say("subscribe", channel=alias)
    await late.expect("subscribed")
    exchange(port, "DELETE", f"/v1/channels/{alias}")
    for client in (publisher, late):
        await client.expect("unsubscribed", channel=name, reason="deleted")
        await client.refused("ChannelNotRegistered", {"type": "listen", "channel": alias})
    for client in (publisher, late, phone):
        await client.close()


def push(token, aps, **headers):
    standard = {"apns-topic": f"{APP}.push-type.liveactivity", "apns-push-type": "liveactivity"}
    answer = exchange(port, "POST", f"/3/device/{token}", standard | headers, {"aps": aps})
    report.check(answer.status == 200, "a push", answer.body)
    return answer.header("apns-unique-id")


async def pushes(channel):
    """A device's tokens: registered, rotated, taken up again, taken away and given up; and what is pushed to them."""
    phone = await Client.open(channel, "quiet")
    name = str(uuid.uuid4())
    activity = {"kind": "update", "app": APP, "activity": "final"}
    await phone.say("register", **activity, attributes_type="MatchAttributes", frequent_updates=True, request_id=name)
    first = await phone.expect("registered", kind="update", app=APP, activity="final", request_id=name, replaces=None)
    await phone.say("register", kind="start", app=APP)
    start = await phone.expect("registered", kind="start", activity=None, request_id=None)
    sent = push(first["token"], aps(), **{"apns-id": name, "apns-collapse-id": "goal"})
    await phone.expect("push", token=first["token"], unique_id=sent, apns_id=name, collapse_id="goal", priority=10)
    await phone.say("ack-push", token=first["token"], unique_id=sent, displayed=True, request_id=name)
    await phone.expect("push-acknowledged", token=first["token"], unique_id=sent, request_id=name)
    begins = {"event": "start", "attributes-type": "MatchAttributes", "attributes": {}, "alert": {"title": "Kick-off"}}
    push(start["token"], aps(**begins))
    await phone.expect("push", token=start["token"], apns_id=None, collapse_id=None)

    await phone.say("rotate", token=first["token"], request_id=name)
    second = await phone.expect("registered", replaces=first["token"], secret=first["secret"], request_id=name)
    report.check(second["token"] != first["token"], "rotate", second)

    # What nobody has acknowledged comes again, over the connection that proves to be the device's.
    sent = push(second["token"], aps(), **{"apns-expiration": str(int(time.time()) + 100)})
    await phone.expect("push", unique_id=sent)
    other = await Client.open(channel, "quiet")
    kept = {"token": second["token"], "secret": second["secret"]}
    await other.refused("WrongSecret", {"type": "register", **activity, **kept, "secret": start["secret"]})
    await other.refused("BadRequestParams", {"type": "register", **activity, **kept, "app": "com.example.other"})
    await other.refused("UnknownToken", {"type": "rotate", "token": second["token"]})
    await other.say("register", **activity, **kept)
    await other.expect("registered", token=second["token"], replaces=None)
    await other.expect("push", unique_id=sent)
    await phone.expect("unregistered", token=second["token"], reason="elsewhere")
    await other.say("unregister", token=second["token"], reason="ended", request_id=name)
    await other.expect("unregistered", token=second["token"], reason="requested", request_id=name)
    await other.say("register", **activity, **kept)
    await other.expect("registered", replaces=second["token"])

    for wrong in ({"kind": "both"}, {"app": "no_bundle"}, {"activity": ""}, {"kind": "start"}, {"token": "ab"},
                  {"token": "x", "secret": "y"}, {"frequent-updates": 1}):
        await other.refused("BadRequestParams", {"type": "register", **activity, **wrong})
    for frame in ({"type": "rotate"}, {"type": "unregister", "token": "ab"}, {"type": "ack-push", "token": "ab"},
                  {"type": "ack-push", "token": start["token"], "unique-id": sent, "displayed": "yes"}):
        await other.refused("BadRequestParams", frame)
    await phone.refused("BadRequestParams", {"type": "ack-push", "token": start["token"], "unique-id": name})
    for number in range(255):
        await other.say("register", **activity | {"activity": f"match {number}"})
        await other.expect("registered")
    await other.refused("TooManyTokens", {"type": "register", **activity})
    for client in (phone, other):
        await client.close()


async def receipts(channel):
    """What clients acknowledge and display is counted for the message, also of a stored one."""
    alias = f"counted-{channel}"
    define(alias, **{"message-storage-policy": 1})
    clients = [await Client.open("session"), await Client.open(channel, "quiet")]
    publisher = await Client.open("session")
    ids = []

    async def publish():
        await publisher.say("publish", channel=alias, aps=aps(), expiration=int(time.time()) + 3_600)
        ids.append((await publisher.expect("published", outcome="delivered"))["unique-id"])

    def counts(number):
        record = exchange(port, "GET", f"/v1/channels/{alias}/messages/{ids[number - 1]}").json
        return [record[name] for name in ("seq", "subscribers", "written", "acknowledged", "displayed")]

    def check(*wanted):
        got = [counts(number) for number in range(1, len(ids) + 1)]
        report.check(got == [[number + 1, *item] for number, item in enumerate(wanted)], "counts", got)
    await publish()
    check([0, 0, 0, 0])
    for client in clients:
        await client.say("subscribe", channel=alias)
        await client.expect("subscribed", seq=1)
        await client.expect("message", seq=1)
    check([0, 2, 0, 0])
    await publish()
    for client in clients:
        await client.expect("message", seq=2)
    check([0, 2, 0, 0], [2, 2, 0, 0])
    for client, shown in ((clients[0], [1, 2, 9]), (clients[0], [1, 2]), (clients[1], [])):
        await client.say("ack", channel=alias, seq=2, displayed=shown)
        await client.expect("acknowledged", seq=2)
    check([0, 2, 2, 1], [2, 2, 2, 1])
    await clients[1].say("ack", channel=alias, seq=2, displayed=[2])
    await clients[1].expect("acknowledged", seq=2)
    check([0, 2, 2, 1], [2, 2, 2, 2])
    # What was displayed becomes stale, once; what was not displayed doesn't.
    stale = re.compile(r"^touchline_stale_total (\d+)$", re.MULTILINE)
    before = int(stale.search(exchange(port, "GET", "/metrics").body.decode()).group(1))
    for number in (2, 2, 1, 3):
        await clients[1].say("ack", channel=alias, seq=2, stale=number)
        await clients[1].expect("acknowledged", seq=2)
    after = int(stale.search(exchange(port, "GET", "/metrics").body.decode()).group(1))
    report.check(after - before == 1, "stale", after - before)
    for wrong in ("2", -1, 1.5):
        await clients[0].refused("BadRequestParams", {"type": "ack", "channel": alias, "seq": 2, "stale": wrong})
    for wrong in (7, ["1"], [1.5], list(range(257))):
        await clients[0].refused("BadRequestParams", {"type": "ack", "channel": alias, "seq": 2, "displayed": wrong})
    total = exchange(port, "GET", f"/v1/channels/{alias}").json["counts"]
    report.check(total["acknowledged"] == 4, "counts", total)
    for client in clients + [publisher]:
        await client.close()


async def refusals(channel):
    client = await Client.open(channel, "quiet")
    other = "plain"
    for reason, frame in (
        ("MissingType", {}), ("UnknownType", {"type": "sing"}), ("UnknownType", {"type": 1}),
        ("BadRequestParams", {"type": "subscribe", "channel": other, "colour": "red"}),
        ("BadRequestParams", {"type": "subscribe", "channel": other, "seq": 1}),
        ("BadRequestParams", {"type": "subscribe", "channel": other, "epoch": "x"}),
        ("MissingChannelId", {"type": "subscribe"}),
        ("BadChannelId", {"type": "subscribe", "channel": "-"}),
        ("ChannelNotRegistered", {"type": "subscribe", "channel": "nobody"}),
        ("NotSubscribed", {"type": "ack", "channel": other, "seq": 0}),
        ("NotSubscribed", {"type": "unsubscribe", "channel": other}),
        ("BadExpirationDate", {"type": "publish", "channel": other, "aps": aps(), "expiration": 1_900_000_000}),
        ("BadExpirationDate", {"type": "publish", "channel": other, "aps": aps(), "expiration": -1}),
        ("BadPriority", {"type": "publish", "channel": other, "aps": aps(), "priority": 7}),
        ("PayloadEmpty", {"type": "publish", "channel": other}),
        ("PayloadTooLarge", {"type": "publish", "channel": other, "aps": aps(more="x" * 5_120)}),
        ("BadRequestPayload", {"type": "publish", "channel": other, "aps": {}}),
        ("TooManyRequests", {"type": "publish", "channel": "spent", "aps": aps()}),
    ):
        await client.refused(reason, frame, channel=frame.get("channel"))
    await client.refused("BadMessageId", {"type": "subscribe", "channel": other, "request-id": "7"}, request_id="7")
    await client.say("subscribe", channel="quiet")
    await client.expect("subscribed")
    await client.refused("BadRequestParams", {"type": "ack", "channel": "quiet", "seq": 7})
    for outcome in ("demoted", "dropped"):
        await client.say("publish", channel=outcome, aps=aps())
        await client.expect("published", outcome=outcome)
    # The reply is the broken frame's error, then the end.
    for frame in ("{", "[]"):
        await client.refused("BrokenFrame", frame)
        await client.closes(1007)
        client = await Client.open(channel, "quiet")
    await client.web_socket.send(b"bytes")
    await client.closes(1003)
    client = await Client.open(channel, "quiet")
    frame = json.dumps({"type": "unsubscribe", "channel": "nobody"})
    await client.refused("ChannelNotRegistered", frame + " " * (FRAME_LIMIT - len(frame)))
    await client.web_socket.send(frame + " " * (FRAME_LIMIT + 1 - len(frame)))
    await client.closes(1009)


async def preserved_bytes():
    """A WebSocket gets the published bytes; an event stream gets a line feed for each line break between tokens."""
    client, events = await Client.open("channel"), EventStream()
    events.expect("subscribed")
    text = '{ "timestamp":1796043600,\r\n"event" :"update",\r"content-state":{"b":1.50e0,\n"a":"\\u00e9\\/é"}}'
    headers = {"apns-channel-id": "plain", "apns-push-type": "liveactivity"}
    answer = exchange(port, "POST", f"/4/broadcasts/apps/{APP}", headers, f'{{"aps":{text},"more":1}}'.encode())
    report.check(answer.status == 200, "preserved bytes", answer.body)
    frame = await asyncio.wait_for(client.web_socket.recv(), TIMEOUT)
    report.check(frame.endswith(f'"aps":{text}}}'), "the frame's bytes", frame)
    _, _, data = events.expect("message")
    expected = text.replace("\r\n", "\n").replace("\r", "\n")
    report.check(data.endswith(f'"aps":{expected}}}'), "the event's bytes", data)
    report.check(events.block() == [": keep-alive"], "eventStream", "no keep-alive comment")
    await client.close()


async def resuming():
    """A stored message comes to whoever has not seen it, on all three ways to resume."""
    define("stored", **{"message-storage-policy": 1})
    client = await Client.open("session")
    await client.say("publish", channel="stored", aps=aps(), expiration=int(time.time()) + 3_600)
    await client.expect("published", outcome="delivered")
    await client.say("subscribe", channel="stored")
    epoch = (await client.expect("subscribed", seq=1))["epoch"]
    await client.expect("message", seq=1, epoch=epoch)

    async def session(position):
        await client.say("subscribe", channel="stored", **position)
        await client.expect("subscribed", seq=1)
        return await client.receive()

    async def channel(position):
        query = "?" + "&".join(f"{name}={value}" for name, value in position.items())
        other = await Client.open("channel", "stored", query=query)
        await other.say("ack", channel="stored", seq=1)
        got = await other.receive()
        await other.close()
        return got

    async def header(position):
        events = EventStream("stored", headers={"last-event-id": "{epoch}:{seq}".format(**position)})
        events.expect("subscribed")
        exchange(port, "POST", f"/4/broadcasts/apps/{APP}",
                 {"apns-channel-id": "stored", "apns-push-type": "liveactivity"}, {"aps": aps()})
        return events.expect("message")[0]

    for way in (session, channel):
        for position in ({"epoch": epoch, "seq": 0}, {"epoch": "another", "seq": 5}):
            got = await way(position)
            report.check(got["type"] == "message" and got["seq"] == 1, f"resuming {position}", got)
    got = await channel({"epoch": epoch, "seq": 1})
    report.check(got["type"] == "acknowledged", "resuming at the newest", got)
    got = await header({"epoch": epoch, "seq": 0})
    report.check(got["seq"] == 1, "resuming by header", got)
    got = await header({"epoch": epoch, "seq": 9})
    report.check(got["seq"] == 3, "resuming by header at the newest", got)
    await client.close()


async def deleted_event_stream():
    define("brief")
    events = EventStream("brief")
    events.expect("subscribed")
    exchange(port, "DELETE", "/v1/channels/brief")
    events.expect("unsubscribed")
    report.check(events.answer.stream.read() == b"", "eventStream", "goes on after the channel was deleted")


def raw_frames(connection):
    """Reads a raw WebSocket; gives each frame's opcode and payload."""
    stream = connection.makefile("rb")
    while head := stream.read(2):
        length = int.from_bytes(stream.read(2), "big") if head[1] == 126 else head[1]
        yield head[0] & 0x0F, stream.read(length)


# Masked, and not asked for, which RFC 6455 allows; libwebsockets doesn't report one without a payload.
PONG = bytes([0x8A, 0x81, 0, 0, 0, 0, 0x2E])


def close_code(connection):
    """Reads a raw WebSocket to its close frame."""
    return next((int.from_bytes(payload[:2], "big") for opcode, payload in raw_frames(connection) if opcode == 8), None)


def raw_web_socket(channel, name, on, receive_buffer=None):
    """A WebSocket whose client does nothing by itself, not even answer a ping."""
    connection = connect(on, receive_buffer)
    address = channels[channel]["address"].replace("{channel}", name)
    connection.sendall(request_text("GET", address, HANDSHAKE))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1)
    if channel == "session":
        text = json.dumps({"type": "subscribe", "channel": name}).encode()
        connection.sendall(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)
    return connection


async def slow_readers():
    """Plain updates are conflated for who doesn't read; alerts are not, and in the end the connection has to go."""
    define("busy", budget={"capacity": None}, **{"publish-rate": {"per-second": None}})
    slow = {channel: raw_web_socket(channel, "busy", port, 65_536) for channel in ("session", "channel")}
    late = raw_web_socket("channel", "busy", port, 65_536)
    publisher = await Client.open("session")
    note_text = "x" * 4_900

    async def publish(count, **more):
        frame = json.dumps({"type": "publish", "channel": "busy", "aps": aps(note=note_text, **more)})
        for _ in range(count):
            await publisher.web_socket.send(frame)
            await publisher.web_socket.recv()
    await publish(1_200)
    def read_late():
        numbers = []
        for _, payload in raw_frames(late):
            if payload.startswith(b"{"):
                numbers.append(json.loads(payload)["seq"])
            if numbers[-1:] == [1_200]:
                return [number for number in numbers if number]
        return numbers
    numbers = await in_thread(read_late)
    gaps = [second for first, second in zip(numbers, numbers[1:]) if second != first + 1]
    # The newest comes in any case. The one before it may, when another loop gets it just as the reader begins.
    newest = gaps in ([1_200], [1_199]) and numbers[-1:] == [1_200]
    report.check(newest, "conflation", f"a late reader has gaps before {gaps}")
    await publish(300, alert={"title": "Goal"})
    for channel, connection in slow.items():
        code = await in_thread(close_code, connection)
        report.check(code == 1013, channel, f"a slow reader got {code}")
        report.seen.add((channel, f"close {code}"))
    await publisher.close()


def in_thread(function, *arguments):
    """What blocks goes on beside everything else, which has to answer pings."""
    return asyncio.get_running_loop().run_in_executor(None, function, *arguments)


def talk(connections, full):
    """Goes on talking without reading, until it has stalled for the silence time; gives the close codes."""
    end = None
    while end is None or time.monotonic() < end:
        for connection in connections.values():
            connection.sendall(PONG)
        if end is None and full.wait(0.2):
            end = time.monotonic() + 3.5
        time.sleep(0.1)
    return {channel: close_code(connection) for channel, connection in connections.items()}


async def stalled_readers(begun):
    """Who reads nothing for the silence time is let go, also if it goes on talking; others are not disturbed."""
    stalled = {channel: raw_web_socket(channel, "unlimited", troubled, 65_536) for channel in ("session", "channel")}
    full = threading.Event()
    codes = in_thread(talk, stalled, full)
    events = connect(troubled, 65_536)
    events.sendall(request_text("GET", "/v1/channels/unlimited/events"))
    publisher = await Client.open("session", on=troubled)
    frame = json.dumps({"type": "publish", "channel": "unlimited", "aps": aps(note="x" * 4_900)})
    for _ in range(1_200):
        await publisher.web_socket.send(frame)
        await publisher.web_socket.recv()
    await publisher.close()
    full.set()
    begun.set()
    for channel, code in (await codes).items():
        report.check(code == 1013, channel, f"who reads nothing got {code}")
    # Read only now: an event stream has no close code, it just ends.
    answer = await in_thread(Answer, events)
    report.check(b"event: message" in answer.body, "eventStream", "it had nothing to read")


async def silent_readers():
    """Who says nothing for the silence time, not even a pong, is let go."""
    silent = {channel: raw_web_socket(channel, "stored", troubled) for channel in ("session", "channel")}
    await asyncio.sleep(3)
    for channel, connection in silent.items():
        code = await in_thread(close_code, connection)
        report.check(code == 1001, channel, f"a silent client got {code}")
        report.seen.add((channel, f"close {code}"))


async def endless_frames():
    """A frame that is begun and never ends is not waited for."""
    begun = {channel: raw_web_socket(channel, "endless", port) for channel in ("session", "channel")}
    for connection in begun.values():
        connection.sendall(bytes([0x81, 0x85, 0, 0, 0, 0]) + b"{")
    for channel, connection in begun.items():
        code = await in_thread(close_code, connection)
        report.check(code == 1008, channel, f"half a frame got {code}")
        report.seen.add((channel, f"close {code}"))


def guarded_channels():
    """Two channels that want tokens, and one that is open."""
    for alias, rules in (("vip", {"subscribe": "token"}), ("box", {"subscribe": "token"}), ("open", {})):
        body = {"alias": alias, "definition": {"app": APP, **rules}}
        answer = exchange(guarded.port, "POST", "/v1/channels", guarded.bearer("provider"), body)
        report.check(answer.status == 201, f"creating {alias}", answer.body)


async def tokens(channel):
    """What each kind of client may do; over TLS as in the clear."""
    def publish(name):
        return {"type": "publish", "channel": name, "aps": aps()}

    async def open(name, secure=None, **options):
        if secure:
            return await Client.open(channel, name, on=guarded.tls_port, ssl=secure, **options)
        return await Client.open(channel, name, on=guarded.port, **options)

    def subprotocol(name):
        return {"subprotocols": ["touchline.token." + guarded.given[name]]}
    stranger = await open("open")
    intent = {"type": "intent", "channel": "vip", "action": "follow", "request-id": str(uuid.uuid4())}
    for frame in ({"type": "subscribe", "channel": "vip"}, intent):
        await stranger.refused("MissingSubscriberToken", frame)
    for frame in (publish("open"), {"type": "listen", "channel": "open"}):
        await stranger.refused("MissingProviderToken", frame)

    subscriber = await open("vip", **subprotocol("subscriber"))
    await subscriber.say("subscribe", channel="vip")
    await subscriber.expect("subscribed")
    await subscriber.refused("UnknownAction", intent)
    for frame in ({"type": "subscribe", "channel": "box"}, intent | {"channel": "box"}):
        await subscriber.refused("ChannelNotAllowed", frame)
    for frame in (publish("vip"), {"type": "listen", "channel": "vip"}):
        await subscriber.refused("InvalidProviderToken", frame)

    other = await open("open", guarded.context(), extra_headers=guarded.bearer("news"))
    await other.refused("ChannelNotAllowed", {"type": "subscribe", "channel": "vip"})
    for frame in (publish("vip"), {"type": "listen", "channel": "vip"}):
        await other.refused("TopicMismatch", frame)

    for shown in ({"extra_headers": guarded.bearer("provider")}, {"secure": guarded.context("scores")}):
        publisher = await open("vip", **shown)
        await publisher.say("listen", channel="vip")
        await publisher.expect("listening")
        await publisher.say("publish", channel="vip", aps=aps())
        await subscriber.expect("message")
        if channel == "channel":
            await publisher.expect("message")
        await publisher.expect("published", outcome="delivered")
        await publisher.close()
    for client in (stranger, subscriber, other):
        await client.close()

    # A handshake without the right token has no frame, and an answer that openapi.yaml tells.
    if channel == "channel":
        for status, options in ((401, {}), (401, subprotocol("oldSubscriber")), (403, subprotocol("other"))):
            try:
                await open("vip", **options)
                report.fail(channel, f"a handshake that {status} was wanted for is accepted")
            except websockets.InvalidStatusCode as refused:
                report.check(refused.status_code == status, channel, f"wanted {status}, got {refused.status_code}")


async def ended_tokens():
    """Who came with a token that expires, or whose key is withdrawn, is let go; others are not disturbed."""
    def options(token):
        return {"on": guarded.port, "query": "?token=" + token}
    quiet = await Client.open("channel", "open", on=guarded.port)
    brief = [await Client.open(channel, "vip", **options(guarded.brief())) for channel in ("session", "channel")]
    stream = await in_thread(lambda: EventStream("vip", **options(guarded.brief())))
    lost = [await Client.open(channel, "vip", **options(guarded.given["lost"])) for channel in ("session", "channel")]
    withdraw()
    for client in lost:
        await client.closes(4003)
    for client in brief:
        await client.closes(4001)
    await in_thread(stream.expect, "subscribed")
    # It comes back at the end of the stream.
    await in_thread(stream.answer.stream.read)
    await quiet.say("ack", channel="open", seq=0)
    await quiet.expect("acknowledged")
    await quiet.close()


async def trouble(*waiting):
    """The store fails, sessions have a bound, and the server shuts down once nothing is waited for any more."""
    client = await Client.open("session", on=troubled)
    await client.refused("ServiceUnavailable", {"type": "publish", "channel": "stored", "aps": aps()}, retry_after=1)
    ids = exchange(troubled, "GET", "/1/apps/com.example.full/all-channels").json["channels"]
    for name in ids[:1_024]:
        await client.say("subscribe", channel=name)
        await client.expect("subscribed", channel=name)
    await client.refused("TooManySubscriptions", {"type": "subscribe", "channel": ids[1_024]})
    await asyncio.gather(*waiting)
    one = await Client.open("channel", "stored", on=troubled)
    events = EventStream("stored", on=troubled)
    shut_down()
    await client.closes(1012)
    await one.closes(1012)
    events.expect("subscribed")
    while events.block():
        pass


def all_reasons():
    """The reasons of frames are those in the code that reads and answers them."""
    own = set(schemas["Error"]["properties"]["reason"]["enum"])
    in_frames = {"BrokenFrame", "MissingType", "UnknownType", "NotSubscribed", "TooManySubscriptions", "UnknownAction",
                 "UnknownToken", "WrongSecret", "TooManyTokens"}
    report.check(own <= reasons_in_sources(), "reasons", f"only documented: {own - reasons_in_sources()}")
    of_provider = set(refusal_reasons().values()) & reasons_in_sources()
    missing = (of_provider | in_frames) - NO_FRAME - own
    report.check(not missing, "reasons", f"only in code: {missing}")


def examples():
    for name, schema in schemas.items():
        for example in schema.get("examples", []) if schema.get("type") == "object" else []:
            for error in document.errors(schema, example):
                report.fail(f"example of {name}", error)


async def main():
    examples()
    all_reasons()
    # These take seconds of waiting: meanwhile everything else happens.
    begun = asyncio.Event()
    guarded_channels()
    define("endless")
    waiting = [asyncio.create_task(endless_frames()), asyncio.create_task(stalled_readers(begun)), asyncio.create_task(silent_readers()),
               asyncio.create_task(ended_tokens())]
    await begun.wait()
    define("plain")
    define("quiet")
    for policy, alias in (("demote", "demoted"), ("drop", "dropped"), ("reject", "spent")):
        define(alias, budget={"capacity": 1, "refill-per-hour": 60, "over-budget": policy})
        exchange(port, "POST", f"/4/broadcasts/apps/{APP}",
                 {"apns-channel-id": alias, "apns-push-type": "liveactivity"}, {"aps": aps()})
    for channel in ("session", "channel"):
        await conversation(channel)
        await intents(channel)
        await pushes(channel)
        await receipts(channel)
        await refusals(channel)
        await tokens(channel)
    await preserved_bytes()
    await resuming()
    await deleted_event_stream()
    await slow_readers()
    await trouble(*waiting)


asyncio.run(main())
report.finish(documented, EXCEPTIONS)
