# Sourced by deploy/bench: connections, and the processor time of a delivery against the floor's.

# What a connection costs. Each measurement has a server of its own.
measure_connections() {
  local n=$1 kind how
  for kind in touchline floor; do
    for how in full ${tls:+resumed}; do
      for _ in $(seq "$repeat"); do
        start "$kind"
        # A first connection has costs of the process itself.
        load "$kind" 1 0 0 0 >/dev/null
        load "$kind" "$n" 0 0 0 ${tls:+$([ "$how" = full ] || echo --resume)}
        stop
      done >"$work/$kind.$how"
    done
  done
  local speed what=full
  speed() { fields "$2" <"$work/$1" | median; }
  printf '%s subscribers: %.0f connections a second (floor %.0f), %.0f µs of server CPU each (floor %.0f), ' "$n" \
    "$(speed touchline.full connects_per_s)" "$(speed floor.full connects_per_s)" \
    "$(speed touchline.full us_per_connect)" "$(speed floor.full us_per_connect)"
  printf '%.0f bytes of RSS a resting connection (floor %.0f)\n' \
    "$(speed touchline.full rss_per_connection)" "$(speed floor.full rss_per_connection)"
  if [ -n "$tls" ]; then
    printf '%s subscribers that resume a session: %.0f connections a second (floor %.0f), %.0f µs of server CPU each (floor %.0f)\n' \
      "$n" "$(speed touchline.resumed connects_per_s)" "$(speed floor.resumed connects_per_s)" \
      "$(speed touchline.resumed us_per_connect)" "$(speed floor.resumed us_per_connect)"
  elif [ "$n" -ge 5000 ]; then
    expect "RSS a connection" "$(speed touchline.full rss_per_connection)" 1536
  fi
}

# measure_deliveries N W: both servers take turns, and turns at being first. A ratio is of two runs next to each other: a virtual
# processor has faster and slower minutes, which are a quarter apart.
measure_deliveries() {
  local n=$1 w=$2 turn kind order ours floor ratio
  : >"$work/touchline.cpu" >"$work/floor.cpu"
  for turn in $(seq "$repeat"); do
    if ((turn % 2)); then order="touchline floor"; else order="floor touchline"; fi
    for kind in $order; do
      start "$kind"
      if [ "$kind" = touchline ]; then
        load touchline "$n" "$w" "$seconds" 200 >"$work/run"
      else
        load floor "$n" "$w" "$seconds" $((frame_bytes - 14)) >"$work/run"
      fi
      stop
      fields us_per_delivery <"$work/run" >>"$work/$kind.cpu"
    done
  done
  ours=$(median <"$work/touchline.cpu") floor=$(median <"$work/floor.cpu")
  paste "$work/touchline.cpu" "$work/floor.cpu" | awk '{ printf "%.3f\n", $1 / $2 }' | sort -n >"$work/pairs"
  ratio=$(sum "$(middle <"$work/pairs")")
  echo "$n subscribers, $w under way: $ours µs of server CPU a delivery, the floor $floor; ratio $ratio" \
    "($(head -1 "$work/pairs") to $(tail -1 "$work/pairs")); none lost"
  # Somebody else's process on one of the processors makes 1.04 and 0.52 up to 1.4 and 0.6.
  if [ "$w" = 1 ]; then expect "the ratio" "$ratio" 1.6; else expect "the ratio" "$ratio" 0.9; fi
}

# The floor's frames are as long as the server's.
measure_frame() {
  start touchline
  frame_bytes=$(field "$(load touchline 1 1 1x 200)" frame_bytes)
  stop
}

# measure_answers N: a busy channel, and another one's publisher.
measure_answers() {
  local n=$1 loader probe
  start touchline
  load touchline "$n" -10 12 200 >"$work/paced" &
  loader=$!
  sleep 4
  probe=$("$work/fanout" probe "$port" other 300 20)
  wait "$loader"
  stop
  echo "$n subscribers, published at 10/s: another channel's publish is answered in $(field "$probe" p50_ms) ms (p99 $(field "$probe" p99_ms), max $(field "$probe" max_ms))"
}
