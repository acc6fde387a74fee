# Sourced by deploy/bench: what the path of a delivery calls, allocates and executes, counted and not timed. Two runs that
# differ in 100 messages cancel out everything else; 1 and many subscribers tell a message's share from a delivery's.

# difference COUNT-FUNCTION N: what 100 messages more cost.
difference() { echo $(($("$1" "$2" 200) - $("$1" "$2" 100))); }

# share OF-ONE OF-MANY MANY: what a delivery has of what 100 messages cost.
share() { sum "($2 - $1) / 100 / ($3 - 1)" "${4:-2}"; }

# ---- system calls ----

# traced N MESSAGES: leaves strace's table in $work/calls.N.MESSAGES
traced() {
  local table=$work/calls.$1.$2
  rm -f "$table"
  # With -D the server is this shell's child, and strace its own.
  start touchline strace -c -f -D -o "$table"
  load touchline "$1" 1 "$2x" 200 >/dev/null
  stop
  for _ in $(seq 50); do grep -q ' total$' "$table" 2>/dev/null && return; sleep 0.1; done
  echo "deploy/bench: strace has told nothing" >&2
  exit 1
}
# calls NAME N MESSAGES; "total" for all
calls() { awk -v name="$1" '$NF == name { print $4 }' "$work/calls.$2.$3" | grep . || echo 0; }
more_calls() { echo $(($(calls "$1" "$2" 200) - $(calls "$1" "$2" 100))); }

count_calls() {
  local n=$1 name=sendto all sends watches
  command -v strace >/dev/null || { echo "system calls: skipped, strace isn't installed (deploy/setup --bench)"; return; }
  strace -o /dev/null true 2>/dev/null || { echo "system calls: skipped, strace may not trace here"; return; }
  [ -z "$tls" ] || name=write
  local size messages
  for size in 1 "$n"; do for messages in 100 200; do traced "$size" "$messages"; done; done
  sends=$(share "$(more_calls $name 1)" "$(more_calls $name "$n")" "$n")
  watches=$(share "$(more_calls epoll_ctl 1)" "$(more_calls epoll_ctl "$n")" "$n")
  # Of a message alone: with many subscribers strace makes the slices many.
  all=$(sum "($(more_calls total 1) - $(more_calls $name 1)) / 100" 0)
  echo "system calls: $sends $name and $watches epoll_ctl for each of $n subscribers, and $all others a message"
  expect "$name a delivery" "$sends" 1.00
  expect "epoll_ctl a delivery" "$watches" 0.00
}

# ---- allocations ----

allocations() {
  start touchline env ALLOCATIONS="$work/allocated" LD_PRELOAD="$work/allocations.so"
  load touchline "$1" 1 "$2x" 200 >/dev/null
  od -An -td8 "$work/allocated"
  stop
}

count_allocations() {
  local n=$1 one many each
  "$compiler" -O2 -shared -fPIC -o "$work/allocations.so" Tests/Benchmarks/allocations.c
  one=$(difference allocations 1) many=$(difference allocations "$n")
  each=$(share "$one" "$many" "$n")
  echo "allocations: $(sum "$one / 100" 0) a message with 1 subscriber, $(sum "$many / 100" 0) with $n, which is $each a subscriber"
  [ -n "$tls" ] || expect "allocations a subscriber" "$each" 0.05
}

# ---- instructions ----

instructions() {
  # Hashes without a seed of their own each time: the same work takes the same instructions.
  start "$kind" env SWIFT_DETERMINISTIC_HASHING=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$work/callgrind"
  if [ "$kind" = touchline ]; then
    load touchline "$1" 1 "$2x" 200 >/dev/null
  else
    load floor "$1" 1 "$2x" $((frame_bytes - 14)) >/dev/null
  fi
  stop
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$work/callgrind"
}

count_instructions() {
  local n=$1 kind one many
  command -v valgrind >/dev/null && command -v strip >/dev/null ||
    { echo "instructions: skipped, valgrind isn't installed (deploy/setup --bench)"; return; }
  # Valgrind 3.19 can't read Swift's debug information and ends.
  strip --strip-debug -o "$work/stripped" "$TOUCHLINE"
  local TOUCHLINE=$work/stripped
  local each
  for kind in touchline $([ -n "$check" ] || echo floor); do
    one=$(difference instructions 1) many=$(difference instructions "$n")
    each=$(share "$one" "$many" "$n" 0)
    echo "instructions of the ${kind/touchline/server}, the kernel's left out: $each a delivery, $(sum "$one / 100" 0) a message"
    [ "$kind$tls" != touchline ] || expect "instructions a delivery" "$each" 1000
  done
}
