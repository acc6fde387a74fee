"""pyapns-client: httpx, one connection without keep-alive, `iat` with a fraction."""

import json
import uuid

from pyapns_client import APNSClient, APNSException, IOSNotification, IOSPayload
from sender import answer, arguments, report


def main():
    options = arguments(__doc__)

    class Client(APNSClient):
        BASE_URLS = {"touchline": f"https://{options.host}:{options.port}"}

    client = Client(
        mode="touchline",
        root_cert_path=options.ca,
        auth_key_path=options.key,
        auth_key_id=options.key_id,
        team_id=options.team,
    )
    answers = []
    for token in options.tokens:
        given = str(uuid.uuid4()).upper()
        notification = IOSNotification(
            # Its payload class knows no live activities: the whole aps object goes in as custom data.
            payload=IOSPayload(custom=json.loads(options.payload.read_text())),
            topic=options.topic,
            apns_id=given,
            priority="10",
            push_type="liveactivity",
        )
        try:
            client.push(notification=notification, device_token=token)
            answers.append(answer())
        except APNSException as refusal:
            reason = type(refusal).__name__.removesuffix("Exception")
            answers.append(answer(refusal.status_code, reason, given, refusal.apns_id))
        except NotImplementedError as unknown:
            # Version 2.0.6 ends before ExpiredToken.
            answers.append(answer(None, str(unknown).removeprefix("Reason not implemented: ")))
    client.close()
    report(answers)


main()
