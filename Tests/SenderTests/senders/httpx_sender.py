"""httpx: what a broadcaster of its own makes of it: create, read, list, broadcast, push, delete on one connection."""

import json
import pathlib
import ssl
import time
import uuid

import httpx
import jwt
from sender import arguments


def main():
    options = arguments(__doc__, "--channel")
    token = jwt.encode(
        {"iss": options.team, "iat": int(time.time())},
        pathlib.Path(options.key).read_text(),
        algorithm="ES256",
        headers={"kid": options.key_id},
    )
    client = httpx.Client(
        base_url=f"https://{options.host}:{options.port}",
        verify=ssl.create_default_context(cafile=options.ca),
        headers={"authorization": f"bearer {token}"},
        http2=True,
    )
    channels = f"/1/apps/{options.app}/channels"
    live = {"apns-push-type": "liveactivity", "apns-priority": "10", "apns-expiration": "0"}
    seen = {}

    def send(step, method, path, body=None, **headers):
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        response = client.request(method, path, content=body, headers=given)
        seen[step] = {
            "http": response.http_version,
            "status": response.status_code,
            "headers": dict(response.headers),
            "body": response.text,
            "sent": given,
        }
        return response

    created = send("create", "POST", channels, b'{"message-storage-policy": 1, "push-type": "LiveActivity"}')
    own = created.headers["apns-channel-id"]
    send("read", "GET", channels, apns_channel_id=own, apns_request_id=str(uuid.uuid4()))
    send("list", "GET", f"/1/apps/{options.app}/all-channels")
    payload = options.payload.read_bytes()
    send("broadcast", "POST", f"/4/broadcasts/apps/{options.app}", payload,
         apns_channel_id=options.channel, apns_request_id=str(uuid.uuid4()), **live)
    for number, device in enumerate(options.tokens):
        send(f"push {number}", "POST", f"/3/device/{device}", payload,
             apns_topic=options.topic, apns_id=str(uuid.uuid4()).upper(), **live)
    send("delete", "DELETE", channels, apns_channel_id=own)
    send("read what is deleted", "GET", channels, apns_channel_id=own)
    print(json.dumps({"created": own, "seen": seen}))


main()
