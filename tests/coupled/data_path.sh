#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# data_path.sh BIN TRANSPORT: sets up two hosts as network namespaces, joined by two cables: one to the server, one for
# data. A cable is cut by sending its packets to an address that does not exist. Like a firewall that drops the packets,
# this causes no error and no reset. Both sides must notice the cut long before step_timeout, which is an hour. Needs
# root, or permission to create namespaces.
set -euo pipefail
bin=$1 transport=$2
[ "$(id -u)" = 0 ] || exec unshare --user --map-root-user --net "$0" "$@"

work=$(mktemp -d)
declare -A host=() job=()
finish() {
  for pid in "${job[@]}" "${host[@]}"; do
    kill -CONT "$pid" 2>/dev/null || true
    kill -KILL "$pid" 2>/dev/null || true
  done
  wait 2>/dev/null
  rm -rf "$work"
}
trap finish EXIT
fail() {
  echo "FAILED: $*" >&2
  tail -n 20 "$work"/*.log "$work"/*.0 >&2 || true
  exit 1
}
await() {  # await SECONDS WHAT COMMAND...
  local tenths=$(($1 * 10)) what=$2
  shift 2
  for _ in $(seq "$tenths"); do
    "$@" && return
    sleep 0.1
  done
  fail "expected $what"
}
on() {  # on HOST COMMAND...
  local name=$1
  shift
  nsenter --target "${host[$name]}" --net -- "$@"
}

for name in a b; do
  setpriv --pdeathsig KILL unshare --net sleep infinity &
  host[$name]=$!
done
is_apart() { [ "$(readlink "/proc/${host[$1]}/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
await 30 "to make network namespaces, which requires root" is_apart a
await 30 "to make network namespaces, which requires root" is_apart b
for cable in 0 1; do  # eth0: 10.1.0, to the server; eth1: 10.2.0, for data
  ip link add "eth$cable" netns "${host[a]}" type veth peer name "eth$cable" netns "${host[b]}"
  for end in a:1 b:2; do
    on ${end%:*} ip address add "10.$((cable + 1)).0.${end#*:}/24" dev "eth$cable"
    on ${end%:*} ip link set lo up
    on ${end%:*} ip link set "eth$cable" up
  done
done
is_up() { on "$1" ip -brief link show "$2" | grep -q ' UP '; }
for name in a b; do
  for cable in eth0 eth1; do await 30 "a carrier" is_up $name $cable; done
done
cut_cable() {  # cut_cable 0|1
  on a ip neigh replace "10.$(($1 + 1)).0.2" lladdr 02:00:00:00:00:99 dev "eth$1" nud permanent
  on b ip neigh replace "10.$(($1 + 1)).0.1" lladdr 02:00:00:00:00:99 dev "eth$1" nud permanent
}
mend_cable() {
  on a ip neigh del "10.$(($1 + 1)).0.2" dev "eth$1"
  on b ip neigh del "10.$(($1 + 1)).0.1" dev "eth$1"
}

start_server() {
  rm -f "$work/server.log"
  nsenter --target "${host[a]}" --net -- "$bin/tremula" serve --bind 0.0.0.0 --key-file none >"$work/server.log" 2>&1 &
  job[server]=$!
  await 30 "a server" grep -q listening "$work/server.log"
}
stop() {  # stop NAME: kills that job
  kill -KILL "${job[$1]}"
  wait "${job[$1]}" 2>/dev/null || true
}
# Starts one rank, which writes its events to NAME.0. `exec` makes it the process that stop() kills.
start() {  # start NAME HOST SIDE ADDRESS SESSION ACTOR_OPTIONS...
  local name=$1 at=$2 side=$3 address=$4 session=$5
  shift 5
  rm -f "$work/$name.0" "$work/$name.steps"
  (
    export RANK=0 WORLD_SIZE=1 TREMULA_JOB=$name
    exec nsenter --target "${host[$at]}" --net -- "$bin/coupled_actor" --notes "$work/$name" --side "$side" \
      --group "$name" --layout "shape=300000 grid=1" --pause 0.01 --step-file "$work/$name.steps" \
      --session "{server: 10.1.0.1:7423, transport: $transport, ofi_bind: $address, $session}" "$@"
  ) >"$work/$name.log" 2>&1 &
  job[$name]=$!
}
start_both() {  # start_both SESSION STEPS
  start producer a out 10.2.0.1 "$1" --steps "$2"
  start consumer b in 10.2.0.2 "$1"
}
has_ended() { grep -q doing=end "$work/$1.0" 2>/dev/null; }
expect_words() {  # expect_words NAME TEXT...
  local name=$1
  shift
  for text in "$@"; do
    grep -qF -- "$text" "$work/$name.0" || fail "expected $name to report: $text"
  done
}

start_server

echo "== a data path that is cut before the link is opened"
cut_cable 1
start_both "timeout: 4" 100
for name in producer consumer; do
  await 90 "the end of $name" has_ended $name
  expect_words $name "expected a first sign of life from rank 0 of group 'consumer' at 10.2.0.2"
done
mend_cable 1

echo "== a data path that is cut while the server reports that both sides are alive"
start_both "silence: 2" 100000
await 60 "a step" test -e "$work/consumer.steps"
cut_cable 1
for name in producer consumer; do
  await 90 "the end of $name" has_ended $name
  expect_words $name "expected a sign of life from rank 0 at 10.2.0." "while the server reports that it is alive"
done
mend_cable 1

echo "== a path to the server that is cut for 6 s"
start_both "timeout: 60" 1000
await 60 "a step" test -e "$work/consumer.steps"
cut_cable 0
sleep 6
mend_cable 0
for name in producer consumer; do
  await 90 "the end of $name" has_ended $name
  grep -q 'status=-' "$work/$name.0" && fail "$name has lost the stream"
done

echo "== a consumer that is stopped while there is no server"
start_both "silence: 2" 100000
await 60 "a step" test -e "$work/consumer.steps"
stop server
kill -STOP "${job[consumer]}"
await 90 "the end of producer" has_ended producer
expect_words producer "expected a sign of life from rank 0 at 10.2.0.2:" "no server knows of it"
stop consumer

echo "== a producer that is killed while there is no server"
start_server
start_both "silence: 2" 100000
await 60 "a step" test -e "$work/consumer.steps"
stop server
stop producer
await 90 "the end of consumer" has_ended consumer
expect_words consumer "producer group 'producer': "
echo "== every dead path was noticed"
