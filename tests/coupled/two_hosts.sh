#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# two_hosts.sh PAGE BIN MPIEXEC: sets up two hosts as separate namespaces (network, processes, host name), joined by a
# cable. Runs the commands of the manual's page on two hosts in all orders, then runs jobs that verify every element.
# Needs root, or permission to create namespaces.
set -euo pipefail
page=$1 bin=$2 mpiexec=$3
[ "$(id -u)" = 0 ] || exec unshare --user --map-root-user --net "$0" "$@"

# All orders in which the three commands of the page can be started.
orders=("serve producer consumer" "serve consumer producer" "producer serve consumer" "producer consumer serve"
  "consumer serve producer" "consumer producer serve")

work=$(mktemp -d)
declare -A host_of_process=() init=()
finish() {
  stop_hosts
  rm -rf "$work"
}
fail() {
  echo "FAILED: $*" >&2
  tail -n 40 "$work"/*.log >&2 || true
  exit 1
}

# When the first process of a host ends, so do all its other processes and its end of the cable. The first process ends
# with this script, however the script ends.
start_host() {  # start_host NAME
  rm -f "$work/$1.up"
  setpriv --pdeathsig KILL unshare --net --pid --uts --fork --mount-proc --kill-child \
    bash -c "hostname host-$1 && ip link set lo up && touch '$work/$1.up' && sleep infinity & wait" 2>"$work/host-$1.log" &
  host_of_process[$1]=$!
  for _ in $(seq 300); do
    [ -e "$work/$1.up" ] && break
    kill -0 "${host_of_process[$1]}" 2>/dev/null || break
    sleep 0.1
  done
  [ -e "$work/$1.up" ] || fail "expected to make a host of namespaces (unshare --net --pid --uts), which requires root"
  init[$1]=$(cat "/proc/${host_of_process[$1]}/task/${host_of_process[$1]}/children")
  init[$1]=${init[$1]// /}
}
start_hosts() {
  start_host a
  start_host b
  ip link add eth0 netns "${init[a]}" type veth peer name eth0 netns "${init[b]}"
  local last=1
  for name in a b; do
    on "$name" ip address add "10.1.0.$((last++))/24" dev eth0
    on "$name" ip link set eth0 up
  done
  # The kernel reports a carrier within a second; libfabric lists no interface before that.
  for name in a b; do
    for _ in $(seq 100); do
      on "$name" ip -brief link show eth0 | grep -q ' UP ' && break
      sleep 0.1
    done
  done
}
stop_hosts() {
  for name in "${!host_of_process[@]}"; do
    kill -KILL "${init[$name]:-${host_of_process[$name]}}" 2>/dev/null || true
  done
  wait 2>/dev/null
  host_of_process=() init=()
}
on() {  # on HOST COMMAND...
  local name=$1
  shift
  nsenter --target "${init[$name]}" --net --pid --uts --mount -- "$@"
}
trap finish EXIT

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
PATH=$(dirname "$mpiexec"):$PATH
unset TREMULA_SERVER TREMULA_OFI_BIND TREMULA_TRANSPORT TREMULA_KEY TREMULA_KEY_FILE

# start NAME HOST COMMAND...: starts it in the background; its output goes to NAME.log. Each mpirun has its own TMPDIR:
# two mpiruns that share a TMPDIR may both fail to create the same folder in it.
declare -A job=()
start() {
  local name=$1 host=$2
  shift 2
  mkdir -p "$work/$name.tmp"
  rm -f "$work/$name.log"  # an earlier log might be mistaken for the new one
  TMPDIR=$work/$name.tmp timeout 300 nsenter --target "${init[$host]}" --net --pid --uts --mount -- "$@" \
    >"$work/$name.log" 2>&1 &
  job[$name]=$!
}
expect_success() {
  for name in "$@"; do
    local status=0
    wait "${job[$name]}" || status=$?
    [ "$status" = 0 ] || fail "$name has ended with $status"
  done
}
await_server() {
  for _ in $(seq 300); do
    grep -q listening "$work/serve.log" && return
    sleep 0.1
  done
  fail "no server after 30 s"
}
await_words() {  # await_words NAME: waits for the first output of a job that finds no server
  for _ in $(seq 100); do
    [ -s "$work/$1.log" ] && break
    sleep 0.1
  done
}
start_server() {  # start_server KEY_FILE
  start serve a "$bin/tremula" serve --bind 0.0.0.0 --key-file "$1"
  await_server
}

# ---- the page ----
# The code of the page has lines "COMMAND   # on host A"; the programs are those of the build.
section=$(/usr/bin/python3 "$(dirname "$(readlink -f "$0")")/../../docs/site/blocks.py" "$page" coupled.two_hosts)
command_of() {  # command_of PROGRAM: prints host and command
  sed -n "s|^\(.*$1.*\) # on host \([AB]\)\$|\2 \1|p" <<<"$section" |
    sed -e "s|~/tremula/bin|$bin|; s|build/quick_start/|$bin/|; s|^A|a|; s|^B|b|"
}
key=$(sed -n 's|^\(export .*=~/tremula.key\) *# on both$|\1|p' <<<"$section")
[ -n "$key" ] || fail "expected the page to export the name of a key file"
for program in serve producer consumer; do
  [ "$(command_of $program | wc -l)" = 1 ] || fail "expected one command of the page to run '$program'"
done
for order in "${orders[@]}"; do
  echo "== the page: $order"
  start_hosts
  rm -rf "$work/home"
  mkdir -p "$work/home/a" "$work/home/b"  # the hosts share no home folder
  for program in $order; do
    read -r host command < <(command_of "$program")
    start "$program" "$host" env HOME="$work/home/$host" bash -c "$key; $command"
    if [ "$program" = serve ]; then
      await_server
      cp -p "$work/home/a/tremula.key" "$work/home/b/"
    elif [[ $order == *"$program"*serve* ]]; then
      await_words "$program"
    fi
  done
  expect_success producer consumer
  # The mean of 0 1 2 ... 799999 is 399999.5; a step adds a million.
  for step in $(seq 0 9); do
    echo "step $step: mean $((step * 1000000 + 399999)).5"
  done | diff - <(grep '^step' "$work/consumer.log") || fail "the consumer's numbers differ from the producer's"
  grep -q 'TREMULA_SERVER=10.1.0.1:7423' "$work/serve.log" || fail "the server's first line does not name its address"
  stop_hosts
done

# ---- every element ----
export TREMULA_KEY_FILE=$work/tremula.key
walk=(--seed "${TREMULA_TEST_SEED:-7}" --scenarios 12 --transport auto)

echo "== every element, the producer on the server's host, without TREMULA_SERVER"
start_hosts
start_server "$TREMULA_KEY_FILE"
start producer a env TREMULA_LOG=info "$mpiexec" -n 2 "$bin/coupled_producer" "${walk[@]}" --peers 3
start consumer b env TREMULA_LOG=info TREMULA_SERVER=10.1.0.1:7423 "$mpiexec" -n 3 "$bin/coupled_consumer" "${walk[@]}" --peers 2
expect_success producer consumer
grep -q 'listens_on interface=eth0 address=10.1.0.1' "$work/producer.log" || fail "the producer listens elsewhere"
grep -q 'listens_on interface=eth0 address=10.1.0.2' "$work/consumer.log" || fail "the consumer listens elsewhere"
grep '@' "$work"/*.log && fail "identifiers of hosts are shown"
stop_hosts

echo "== every element, both jobs with ranks on both hosts, without MPI"
start_hosts
start_server "$TREMULA_KEY_FILE"
rank_of() {  # rank_of JOB RANK SIZE HOST PEERS
  start "$1.$2" "$4" env TREMULA_SERVER=10.1.0.1:7423 RANK="$2" WORLD_SIZE="$3" TREMULA_JOB="$1" \
    "$bin/coupled_$1" "${walk[@]}" --peers "$5"
}
rank_of producer 0 2 a 3
rank_of producer 1 2 b 3
rank_of consumer 0 3 b 2
rank_of consumer 1 3 a 2
rank_of consumer 2 3 b 2
expect_success producer.0 producer.1 consumer.0 consumer.1 consumer.2

echo "== errors name their cause"
expect_refusal() {  # expect_refusal NAME TEXT...
  local name=$1 status=0
  shift
  wait "${job[$name]}" || status=$?
  [ "$status" != 0 ] || fail "$name was not refused"
  for text in "$@"; do
    grep -qF -- "$text" "$work/$name.log" || fail "expected $name to report: $text"
  done
}
start consumer b env TREMULA_SERVER=10.1.0.1:7423 TREMULA_OFI_BIND=eth9 "$bin/quick_start_consumer"
expect_refusal consumer "ofi_bind: expected an interface or an address of this host, which has" "eth0 (10.1.0.2)" "found 'eth9'"
start producer a "$bin/quick_start_producer"
start consumer b env TREMULA_SERVER=10.1.0.1:7423 TREMULA_OFI_BIND=lo "$bin/quick_start_consumer"
expect_refusal consumer "local: they are on different hosts, 'host-a' and 'host-b'" "consumer 'consumer' listens only on loopback" \
  "set ofi_bind (TREMULA_OFI_BIND) of consumer 'consumer'"
for rank in 0 1; do
  start "split.$rank" "$([ $rank = 0 ] && echo a || echo b)" env TREMULA_SERVER=10.1.0.1:7423 TREMULA_OFI_BIND=lo \
    RANK=$rank WORLD_SIZE=2 TREMULA_JOB=split "$bin/coupled_consumer" "${walk[@]}" --peers 1
done
for rank in 0 1; do
  expect_refusal "split.$rank" "expected a transport that all its 2 ranks have; found that rank 0 offers" \
    "rank 0 and rank 1 listen only on loopback" "set ofi_bind (TREMULA_OFI_BIND) of rank 0"
done
start stranger b env -u TREMULA_KEY_FILE "$bin/tremula" status --server 10.1.0.1:7423
expect_refusal stranger "server 10.1.0.1:7423: the server asks for a key, and this process has none" TREMULA_KEY_FILE
start stranger b env -u TREMULA_KEY_FILE TREMULA_SERVER=10.1.0.1:7423 "$bin/quick_start_consumer"
expect_refusal stranger "the server asks for a key, and this process has none" TREMULA_KEY_FILE
start stranger b env -u TREMULA_KEY_FILE TREMULA_KEY="the key of another server" TREMULA_SERVER=10.1.0.1:7423 \
  "$bin/quick_start_consumer"
expect_refusal stranger "the server has a different key than this process"
grep -qr "the key of another server" "$work"/*.log && fail "a key is shown"
grep -qrF "$(cat "$TREMULA_KEY_FILE")" "$work"/*.log && fail "the key is shown"
start open a env -u TREMULA_KEY_FILE "$bin/tremula" serve --bind 0.0.0.0 --port 0
expect_refusal open "cannot listen on 0.0.0.0:0 without a key" "--key-file PATH"
stop_hosts

echo "== without a key, when the server is started without one"
unset TREMULA_KEY_FILE
start_hosts
start_server none
grep -q "jobs need no key" "$work/serve.log" || fail "the server does not warn"
start producer a env TREMULA_SERVER=10.1.0.1:7423 "$bin/quick_start_producer"
start consumer b env TREMULA_SERVER=10.1.0.1:7423 "$bin/quick_start_consumer"
expect_success producer consumer
start mistaken b env TREMULA_KEY="a key that was never made" TREMULA_SERVER=10.1.0.1:7423 "$bin/quick_start_consumer"
expect_refusal mistaken "found one that was started with --key-file none"
stop_hosts
echo "== two hosts work"
