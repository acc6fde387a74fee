"""aioapns: its own HTTP/2 connection on asyncio; no ALPN, no :authority, and it finds an answer by its apns-id."""

import asyncio
import json
import pathlib
import ssl
import uuid

import aioapns
from aioapns.connection import APNsProductionClientProtocol
from sender import answer, arguments, report


async def main():
    options = arguments(__doc__)

    class Local(APNsProductionClientProtocol):
        APNS_SERVER = options.host
        APNS_PORT = options.port

    client = aioapns.APNs(
        key=pathlib.Path(options.key).read_text(),
        key_id=options.key_id,
        team_id=options.team,
        topic=options.topic,
        ssl_context=ssl.create_default_context(cafile=options.ca),
    )
    client.pool.protocol_class = Local
    answers = []
    for token in options.tokens:
        request = aioapns.NotificationRequest(
            device_token=token,
            message=json.loads(options.payload.read_text()),
            # In upper case: an answer with the id in another case is one to a stranger's request, and never arrives.
            notification_id=str(uuid.uuid4()).upper(),
            priority=10,
            push_type=aioapns.PushType.LIVEACTIVITY,
        )
        result = await asyncio.wait_for(client.send_notification(request), 20)
        answers.append(
            answer(int(result.status), result.description, request.notification_id, result.notification_id)
        )
    client.pool.close()
    report(answers)


asyncio.run(main())
