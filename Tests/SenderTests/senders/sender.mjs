// A sender of Node's core modules alone: create, list, broadcast, delete, all on one HTTP/2 connection.
//
//   node sender.mjs --host H --port P --ca FILE --key FILE --key-id ID --team TEAM --app BUNDLE --payload FILE --channel ID

import { sign } from "node:crypto";
import { readFileSync } from "node:fs";
import { connect } from "node:http2";
import { parseArgs } from "node:util";

const names = ["host", "port", "ca", "key", "key-id", "team", "app", "payload", "channel"];
const { values: options } = parseArgs({ options: Object.fromEntries(names.map((name) => [name, { type: "string" }])) });

/// A provider token: a JWT signed with ES256, whose signature is r and s one after the other (RFC 7518, section 3.4).
function providerToken() {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = [
    part({ alg: "ES256", kid: options["key-id"] }),
    part({ iss: options.team, iat: Math.floor(Date.now() / 1000) }),
  ].join(".");
  const key = { key: readFileSync(options.key), dsaEncoding: "ieee-p1363" };
  return `${text}.${sign("sha256", Buffer.from(text), key).toString("base64url")}`;
}

const authorization = `bearer ${providerToken()}`;
const session = connect(`https://${options.host}:${options.port}`, { ca: readFileSync(options.ca) });

function send(method, path, headers = {}, body) {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ":method": method, ":path": path, authorization, ...headers });
    const answer = { sent: headers, body: "" };
    stream.on("response", ({ ":status": status, ...fields }) => Object.assign(answer, { status, headers: { ...fields } }));
    stream.setEncoding("utf8");
    stream.on("data", (text) => (answer.body += text));
    stream.on("end", () => resolve(answer));
    stream.on("error", reject);
    stream.end(body);
  });
}

const channels = `/1/apps/${options.app}/channels`;
const seen = {};
seen.create = await send("POST", channels, {}, '{"message-storage-policy":0,"push-type":"LiveActivity"}');
const created = seen.create.headers["apns-channel-id"];
seen.list = await send("GET", `/1/apps/${options.app}/all-channels`);
seen.broadcast = await send(
  "POST",
  `/4/broadcasts/apps/${options.app}`,
  {
    "apns-channel-id": options.channel,
    "apns-push-type": "liveactivity",
    "apns-priority": "10",
    "apns-expiration": "0",
    "apns-request-id": crypto.randomUUID(),
  },
  readFileSync(options.payload),
);
seen.delete = await send("DELETE", channels, { "apns-channel-id": created });
session.close();
console.log(JSON.stringify({ created, seen }));
