"""kalyke-apns: httpx2, a connection and a new token for each push, `iat` in quotes, an expiration a month away."""

import asyncio
import json
import os
import uuid
from dataclasses import dataclass

import kalyke
from kalyke.exceptions import ApnsProviderException
from sender import answer, arguments, report


@dataclass(frozen=True)
class Client(kalyke.LiveActivityClient):
    base_url: str = ""

    @property
    def _base_url(self):
        return self.base_url


async def main():
    options = arguments(__doc__)
    # Read by httpx2 whenever it opens a connection.
    os.environ["SSL_CERT_FILE"] = options.ca
    client = Client(
        use_sandbox=True,
        team_id=options.team,
        auth_key_id=options.key_id,
        auth_key_filepath=options.key,
        base_url=f"https://{options.host}:{options.port}",
    )
    answers = []
    for token in options.tokens:
        given = str(uuid.uuid4()).upper()
        config = kalyke.LiveActivityApnsConfig(topic=options.topic, identifier=given)
        try:
            payload = json.loads(options.payload.read_text())
            echoed = await client.send_message(device_token=token, payload=payload, apns_config=config)
            answers.append(answer(sent=given, echoed=echoed))
        except ApnsProviderException as refusal:
            answers.append(answer(None, type(refusal).__name__))
    report(answers)


asyncio.run(main())
