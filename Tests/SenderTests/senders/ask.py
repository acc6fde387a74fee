"""Sends the requests of ReasonTable, over HTTP/1.1 or HTTP/2, and prints each answer; it knows no rule.

Standard input: {"base", "ca", "http2", "keys": {key id: file}, "connections": [[request, ...], ...]}. The requests of one
list go over one connection, one after the other. Provider tokens are signed here, by a library that isn't ours.
"""

import json
import pathlib
import ssl
import sys
import time

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec

work = json.load(sys.stdin)


def authorization(recipe):
    if "text" in recipe:
        return recipe["text"]
    curves = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1}
    if recipe["algorithm"] not in curves:
        # Public, as an attacker has it: what a server would use as the secret if it believed the header.
        key = recipe["algorithm"] * 8 if recipe["algorithm"] != "none" else None
    elif recipe["algorithm"] == "ES256" and not recipe["stranger"]:
        key = pathlib.Path(work["keys"][recipe["keyID"]]).read_text()
    else:
        key = ec.generate_private_key(curves[recipe["algorithm"]]())
    claims = {"iss": recipe["team"], "iat": int(time.time()) - recipe["age"]}
    return "bearer " + jwt.encode(claims, key, recipe["algorithm"], headers={"kid": recipe["keyID"]})


def ask(client, request):
    headers = dict(request["headers"])
    if request.get("token"):
        headers["authorization"] = authorization(request["token"])
    body = request.get("body")
    answer = client.request(
        request["method"], request["path"], headers=headers, content=None if body is None else body.encode()
    )
    return {
        "http": answer.http_version,
        "status": answer.status_code,
        "headers": dict(answer.headers),
        "body": answer.text,
    }


def connection(requests):
    verify = ssl.create_default_context(cafile=work["ca"])
    one = httpx.Limits(max_connections=1)
    with httpx.Client(base_url=work["base"], verify=verify, http1=not work["http2"], http2=work["http2"],
                      limits=one, timeout=20, trust_env=False) as client:
        return [ask(client, request) for request in requests]


print(json.dumps([connection(requests) for requests in work["connections"]]))
