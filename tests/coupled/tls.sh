#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tls.sh PAGE BIN: runs on this host the commands of the manual's page on TLS and several users, with jobs that
# verify every element. Also runs clients without TLS, and a program that answers in place of the server.
set -euo pipefail
page=$1 bin=$2
blocks=$(dirname "$(readlink -f "$0")")/../../docs/site/blocks.py
work=$(mktemp -d)
declare -A job=()
finish() {
  for name in "${!job[@]}"; do kill "${job[$name]}" 2>/dev/null || true; done
  wait 2>/dev/null
  rm -rf "$work"
}
trap finish EXIT
fail() {
  echo "FAILED: $*" >&2
  tail -n 40 "$work"/*.log >&2 || true
  exit 1
}
unset TREMULA_SERVER TREMULA_KEY TREMULA_TLS_CA TREMULA_TLS_NAME TREMULA_TRANSPORT
export HOME=$work TREMULA_KEY_FILE=$work/tremula.key

section=$(/usr/bin/python3 "$blocks" "$page" coupled.tls 1)
command_of() {  # command_of WORD: prints the one line of the code that contains WORD, with the address of this host
  local found
  found=$(sed -n "s|^\(.*$1.*[^ ]\) *# on .*\$|\1|p" <<<"$section")
  [ "$(grep -c . <<<"$found")" = 1 ] || fail "expected one command of the first block of the page with '$1'"
  sed "s|10\.1\.0\.1|127.0.0.1|; s|~/tremula/bin|$bin|" <<<"$found"
}
start() {  # start NAME COMMAND...: runs it in the background; its output goes to NAME.log
  local name=$1
  shift
  timeout 300 "$@" >"$work/$name.log" 2>&1 &
  job[$name]=$!
}
serve() {  # serve NAME COMMAND: starts a server, which writes its port to NAME.port
  start "$1" bash -c "exec $2 --port 0 --port-file '$work/$1.port'"
  for _ in $(seq 300); do
    [ -s "$work/$1.port" ] && return
    sleep 0.1
  done
  fail "no server after 30 s"
}
ranks_of() {  # ranks_of JOB SIZE PEERS
  for rank in $(seq 0 $(($2 - 1))); do
    start "$1.$rank" env TREMULA_SERVER="$server" RANK="$rank" WORLD_SIZE="$2" TREMULA_JOB="$1" \
      "$bin/coupled_$1" --seed "${TREMULA_TEST_SEED:-7}" --scenarios 6 --transport local --peers "$3"
  done
}
expect_refusal() {  # expect_refusal NAME TEXT: the job fails, and its log contains TEXT
  local status=0
  wait "${job[$1]}" || status=$?
  [ "$status" != 0 ] || fail "$1 was not refused"
  grep -qF -- "$2" "$work/$1.log" || fail "expected $1 to report: $2"
}

bash -c "$(command_of 'openssl req')" 2>"$work/openssl.log" || fail "openssl made no certificate"
serve server "$(command_of 'tremula serve')"
server=127.0.0.1:$(sed 's/.*://' "$work/server.port")

echo "== every element of every step"
trust=$(command_of 'TREMULA_TLS_CA')
eval "$trust"
ranks_of producer 2 3
ranks_of consumer 3 2
"$bin/tremula" status --server "$server" >"$work/status.log" 2>&1 || fail "no status"
for name in producer.0 producer.1 consumer.0 consumer.1 consumer.2; do
  wait "${job[$name]}" || fail "$name has ended with $?"
done

echo "== without TLS"
start plain env -u TREMULA_TLS_CA "$bin/tremula" status --server "$server"
expect_refusal plain "the server speaks TLS, and this process does not know how to check it"

echo "== another certificate, with the right key"
mkdir "$work/middle"
HOME=$work/middle bash -c "$(command_of 'openssl req')" 2>"$work/openssl.log"
serve middle "$(command_of 'tremula serve' | sed "s|~/tremula_tls|$work/middle/tremula_tls|g")"
server=127.0.0.1:$(sed 's/.*://' "$work/middle.port")
ranks_of producer 1 1
expect_refusal producer.0 "another program is answering in place of the server"
grep -q "connection" "$work/middle.log" && fail "the wrong server received something"

echo "== several users"
unset TREMULA_TLS_CA
code=$(/usr/bin/python3 "$blocks" "$page" coupled.tls 2)
[ "$(grep -c . <<<"$code")" = 3 ] || fail "expected three commands in the second block of the page, on several users"
bash -c "$(head -n 2 <<<"$code")" || fail "no keys"
serve users "$(tail -n 1 <<<"$code" | sed "s|~/tremula/bin|$bin|")"
server=127.0.0.1:$(sed 's/.*://' "$work/users.port")
status_of() { TREMULA_KEY_FILE=$work/$1.key "$bin/tremula" status --server "$server"; }
TREMULA_KEY_FILE=$work/alice.key ranks_of producer 1 2
for _ in $(seq 300); do
  status_of alice | grep -q producer && break
  sleep 0.1
done
status_of bob | grep -q producer && fail "bob sees alice's group"
status_of operator | grep -q producer || fail "the operator does not see alice's group"
start bob env TREMULA_KEY_FILE="$work/bob.key" TREMULA_SERVER="$server" RANK=0 WORLD_SIZE=1 TREMULA_JOB=producer \
  "$bin/coupled_producer" --transport local --peers 2
expect_refusal bob "the name is held by a job with a different key"
TREMULA_KEY_FILE=$work/alice.key ranks_of consumer 2 1
for name in producer.0 consumer.0 consumer.1; do
  wait "${job[$name]}" || fail "$name has ended with $?"
done
echo "== TLS and several users work"
