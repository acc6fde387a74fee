# Sourced by deploy/bench: builds the programs, starts servers, puts load on them, and does the sums.
# Wants: work (a folder), tls (empty, or 1 for wss), TOUCHLINE (the program).

need_compiler() {
  compiler=$(command -v gcc || command -v clang) || { echo "deploy/bench: neither gcc nor clang is on the PATH" >&2; exit 2; }
}

build_programs() {
  need_compiler
  local program libraries=()
  [ -z "$tls" ] || libraries=(-DFANOUT_TLS -lssl -lcrypto)
  for program in fanout floor spread; do
    "$compiler" -O2 -Wall -Wextra -o "$work/$program" "Tests/Benchmarks/$program.c" "${libraries[@]}"
  done
}

write_channels() {
  mkdir "$work/channels"
  local name
  for name in bench other; do
    cat >"$work/channels/$name.json" <<'JSON'
{ "app": "com.example.bench", "message-storage-policy": 0, "frequent-updates": true,
  "budget": { "capacity": null }, "publish-rate": { "per-second": null } }
JSON
  done
}

# Servers on one processor, the load on the other, as far as there are two.
pin() { local cpu=$1; shift; if [ "$(nproc)" -gt 1 ]; then exec taskset -c "$cpu" "$@"; else exec "$@"; fi; }

# start touchline|floor [COMMAND …]   COMMAND runs the server, such as strace with its options
server=
start() {
  local kind=$1
  shift
  port=$((20000 + RANDOM % 10000))
  if [ "$kind" = floor ]; then
    (pin 0 "$@" "$work/floor" "$port") &
  else
    (serve 1 pin 0 "$@") &
  fi
  wait_for_port "$kind" $!
}
# start_loops LOOPS: on all processors
start_loops() {
  port=$((20000 + RANDOM % 10000))
  (serve "$1" exec) &
  wait_for_port touchline $!
}
# serve LOOPS COMMAND …: the command runs the server
serve() {
  local loops=$1
  shift
  "$@" "$TOUCHLINE" serve --listen "127.0.0.1:$port" ${tls:+--tls --tls-dir "$work/tls"} --provider-listen off \
    --store memory --channels "$work/channels" --loops "$loops" --log-level error >"$work/address"
}
wait_for_port() {
  local kind=$1
  server=$2
  for _ in $(seq 300); do
    kill -0 "$server" 2>/dev/null || break
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
    sleep 0.1
  done
  echo "deploy/bench: the $kind server doesn't listen" >&2
  exit 1
}
stop() { kill "$server"; wait "$server" 2>/dev/null || true; server=; }

# load touchline|floor N W SECONDS SIZE [--resume]
load() {
  local path=/v1/channels/bench/events publish=/v1/events skip=1 channel=bench
  [ "$1" = touchline ] || { path=/sub publish=/pub skip=0 channel=; }
  (pin 1 "$work/fanout" ${6:+"$6"} load "$port" "$server" "$2" "$3" "$4" "$path" "$publish" "$skip" "$5" ${channel:+"$channel"})
}

field() { sed -n "s/.*\"$2\":\([-0-9.]*\).*/\1/p" <<<"$1"; }
fields() { sed -n "s/.*\"$1\":\([-0-9.]*\).*/\1/p"; }
median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
# Of repeated measurements: in a check the least, because whatever else runs only adds.
middle() { if [ -n "$check" ]; then sort -n | head -1; else median; fi; }
sum() { awk "BEGIN { printf \"%.${2:-2}f\", $1 }"; }

# expect WHAT VALUE MOST: with --check more than MOST is a failure.
verdict=0
expect() {
  [ -n "$check" ] || return 0
  awk -v value="$2" -v most="$3" 'BEGIN { exit !(value <= most) }' ||
    { echo "too much: $1 is $2, at most $3 was expected" >&2; verdict=1; }
}
