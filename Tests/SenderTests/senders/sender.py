"""What every Python sender is told on its command line, and how it tells what it saw.

A sender pushes one payload to each device token in turn and prints one JSON object: an answer a token, with what the
library lets its user see.
"""

import argparse
import json
import pathlib


def arguments(description, *more):
    """Reads the command line. `more` names options that only this sender has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ca", required=True, help="the certificate that signed the server's, PEM")
    parser.add_argument("--key", required=True, help="AuthKey_<key id>.p8")
    parser.add_argument("--key-id", required=True)
    parser.add_argument("--team", required=True)
    parser.add_argument("--app", required=True, help="the bundle id")
    parser.add_argument("--payload", type=pathlib.Path, help="a file with {\"aps\": {...}}")
    for option in more:
        parser.add_argument(option)
    parser.add_argument("tokens", nargs="*", help="the device tokens to push to, each in turn")
    options = parser.parse_args()
    options.topic = options.app + ".push-type.liveactivity"
    return options


def answer(status=200, reason=None, sent=None, echoed=None):
    """One push's outcome; None for what the library hides. `sent` and `echoed` are apns-ids."""
    return {"status": status, "reason": reason, "echo": None if echoed is None else echoed == sent}


def report(answers):
    print(json.dumps({"answers": answers}))
