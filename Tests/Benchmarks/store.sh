#!/usr/bin/env bash
# What durability costs: publishes a second and their latency with 1, 10 and 100 in flight, syncs a message, the size of the store,
# and how long a start with 10,000 channels takes.
#
#   Tests/Benchmarks/store.sh [TOUCHLINE] [FOLDER]    FOLDER is on the disk that is meant (default: a temporary one)
#
# It needs h2load (nghttp2-client), strace and sqlite3. BENCHMARKS.md says how to read it.
set -euo pipefail

touchline=${1:-.build/release/touchline}
work=$(mktemp -d "${2:-/tmp}/touchline-store.XXXXXX")
server=
tidy() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap tidy EXIT
trap 'exit 130' INT TERM

mkdir "$work/channels"
for policy in 0 1; do
  printf '{"app":"com.example.scores","message-storage-policy":%s,"budget":{"capacity":1000000,"refill-per-hour":0},"publish-rate":{"per-second":null}}' \
    $policy >"$work/channels/policy-$policy.json"
done
printf '{"aps":{"timestamp":%s,"event":"update","content-state":{"home":2,"away":1,"clock":"67:12","scorers":["Messi 23","Di Maria 36","Mbappe 80"]}}}' \
  "$(date +%s)" >"$work/body"

start() {
  : >"$work/address"
  "$touchline" serve --listen 127.0.0.1:0 --provider-listen off --store "$@" --log-level error >"$work/address" &
  server=$!
  until grep -q listening "$work/address"; do
    kill -0 "$server" 2>/dev/null || { echo "the server does not start" >&2; exit 1; }
    sleep 0.005
  done
  address=$(sed 's/.* //' "$work/address")
}
stop() { kill "$server"; wait "$server" 2>/dev/null || true; server=; }

# load REQUESTS IN-FLIGHT POLICY
load() {
  expiration=0
  [ "$3" = 0 ] || expiration=$(($(date +%s) + 3600))
  h2load -n "$1" -c 1 -m "$2" -d "$work/body" -H "apns-channel-id: policy-$3" -H 'apns-push-type: liveactivity' \
    -H 'apns-priority: 10' -H "apns-expiration: $expiration" --log-file="$work/times" \
    "$address/4/broadcasts/apps/com.example.scores" >"$work/said"
  rate=$(sed -n 's/^finished in [^,]*, \([0-9.]*\) req.*/\1/p' "$work/said")
  good=$(sed -n 's/^status codes: \([0-9]*\) 2xx.*/\1/p' "$work/said")
  [ "$good" = "$1" ] || { echo "only $good of $1 were accepted" >&2; exit 1; }
  # The log has start, status and microseconds.
  sort -n -k3 "$work/times" | awk -v rate="$rate" -v n="$2" '{ t[NR] = $3 } END {
    printf "%s in flight: %.0f a second, p50 %.2f ms, p99 %.2f ms\n", n, rate, t[int(NR * 0.5)] / 1000, t[int(NR * 0.99)] / 1000 }'
  rm -f "$work/times"
}

for policy in 1 0; do
  for store in memory file; do
    path=$store
    [ $store = memory ] || path=$work/channels.sqlite
    rm -f "$work"/channels.sqlite*
    start "$path" --channels "$work/channels"
    echo "policy $policy, store $store:"
    load 500 1 $policy
    load 5000 10 $policy
    load 30000 100 $policy
    stop
  done
done

echo "syncs:"
for inflight in 1 10 100; do
  for policy in 1 0; do
    rm -f "$work"/channels.sqlite*
    start "$work/channels.sqlite" --channels "$work/channels"
    strace -f -q -c -e trace=fsync,fdatasync -o "$work/strace" -p "$server" &
    tracer=$!
    sleep 0.5
    load 3000 $inflight $policy >/dev/null
    kill "$tracer"; wait "$tracer" 2>/dev/null || true
    awk -v n=$inflight -v policy=$policy '$NF == "fsync" || $NF == "fdatasync" { calls += $4 }
      END { printf "policy %s, %s in flight: %.2f a message\n", policy, n, calls / 3000 }' "$work/strace"
    stop
  done
done

echo "size after 100,000 messages:"
rm -f "$work"/channels.sqlite*
start "$work/channels.sqlite" --channels "$work/channels"
load 100000 100 1
ls -l "$work"/channels.sqlite* | awk '{ print $5, $NF }' | sed "s|$work/||"
stop

echo "start with 10,000 channels:"
rm -f "$work"/channels.sqlite*
start "$work/channels.sqlite"
stop
definition='{"app":"com.example.scores","message-storage-policy":1,"attributes-type":"Match","attributes":{"home":"A","away":"B"},"content-state":{"home":"Int","away":"Int"}}'
sqlite3 "$work/channels.sqlite" "
  WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
    INSERT INTO channels (id, definition) SELECT 'AAAAAAAAAAAAAAA' || printf('%05d', i), '$definition' FROM n;
  INSERT INTO channel_states (channel, epoch, sequence) SELECT number, 'e', 7 FROM channels;
  INSERT INTO newest_messages SELECT id, 'u', 10, 4000000000, 'e', 7, 1700000000.0,
    CAST('{\"timestamp\":1700000000,\"event\":\"update\",\"content-state\":{\"text\":\"' || printf('%01000d', 0) || '\"}}' AS BLOB) FROM channels;"
ls -l "$work"/channels.sqlite | awk '{ print $5, "bytes" }'
before=$(date +%s%N)
start "$work/channels.sqlite"
after=$(date +%s%N)
echo "$(((after - before) / 1000000)) ms"
stop
