# Sourced by deploy/bench: what further loops bring. Neither the server nor the load is pinned: while the server works, the load waits.

# measure_loops N LOOPS
measure_loops() {
  local n=$1 loops=$2 turn
  for turn in $(seq "$repeat"); do
    start_loops "$loops"
    "$work/spread" "$port" "$server" "$n" "$loops" 7 bench
    stop
  done >"$work/spread.$loops"
  start_loops "$loops"
  "$work/fanout" load "$port" "$server" 1 0 0 /v1/channels/bench/events /v1/events 1 0 >/dev/null
  "$work/fanout" load "$port" "$server" "$n" 0 0 /v1/channels/bench/events /v1/events 1 0 >"$work/rss"
  stop
  of() { fields "$1" <"$work/spread.$loops" | median; }
  printf '%s subscribers, %s loops: a message reaches everybody in %.1f ms (%.0f deliveries a second, %.2f µs of server CPU each); ' \
    "$n" "$loops" "$(of fanout_ms)" "$(of deliveries_per_s)" "$(of us_per_delivery)"
  printf "everybody's acknowledgement is taken in %.1f ms (%.0f a second, %.2f µs each); " \
    "$(of acks_ms)" "$(of acks_per_s)" "$(of us_per_ack)"
  printf '%.0f bytes of RSS a connection\n' "$(fields rss_per_connection <"$work/rss")"
}
