"""simple-apns: httpx, a claim `exp` in its token, and three more attempts after an answer it doesn't know."""

import json
import os

from sender import answer, arguments, report


def main():
    options = arguments(__doc__)
    # Read by httpx when the client is made.
    os.environ["SSL_CERT_FILE"] = options.ca
    from simple_apns import APNSClient, APNSException

    client = APNSClient(
        team_id=options.team,
        auth_key_id=options.key_id,
        auth_key_path=options.key,
        bundle_id=options.app,
        apns_topic=options.topic,
    )
    client.endpoint = f"https://{options.host}:{options.port}"
    answers = []
    for token in options.tokens:
        try:
            client.send_notification(token, json.loads(options.payload.read_text()), push_type="liveactivity")
            answers.append(answer())
        except APNSException as refusal:
            # It tells reasons apart by its own sentences, and those name the token.
            answers.append(answer(None, str(refusal).replace(token, "").rstrip(": ")))
    client.close()
    report(answers)


main()
