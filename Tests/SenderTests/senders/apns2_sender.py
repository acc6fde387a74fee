"""apns2, as apns2-up keeps it going: hyper's HTTP/2 connection, no apns-id, no apns-priority when that is 10."""

import enum
import json

from apns2.client import APNsClient
from apns2.credentials import TokenCredentials
from apns2.payload import Payload
from hyper import HTTP20Connection
from hyper.tls import init_context
from sender import answer, arguments, report


class PushType(enum.Enum):
    """apns2's own enumeration ends before live activities."""

    LIVE_ACTIVITY = "liveactivity"


def main():
    options = arguments(__doc__)

    class Credentials(TokenCredentials):
        def create_connection(self, server, port, proto, proxy_host=None, proxy_port=None):
            context = init_context(cert_path=options.ca)
            return HTTP20Connection(options.host, options.port, ssl_context=context, force_proto="h2", secure=True)

    client = APNsClient(Credentials(options.key, options.key_id, options.team))
    answers = []
    for token in options.tokens:
        payload = Payload(custom=json.loads(options.payload.read_text()))
        stream = client.send_notification_async(token, payload, options.topic, push_type=PushType.LIVE_ACTIVITY)
        result = client.get_notification_result(stream)
        if result == "Success":
            answers.append(answer())
        else:
            # 410's answer is a pair: the reason and since when.
            answers.append(answer(None, result if isinstance(result, str) else result[0]))
    report(answers)


main()
