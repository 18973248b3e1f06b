#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# debs.sh SOURCE FOLDER [MIRROR]: the packages of ./dev deb, in FOLDER, in a Debian of their own that debootstrap makes
# under /tmp: they install, programs in Python, C and C++ use them, and nothing stays when they are removed. As root.
set -euo pipefail
source=$1 folder=$2 mirror=${3:-http://deb.debian.org/debian}
fail() { echo "FAILED: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "expected root, for chroot; found user $(id -un): run it as root, or with sudo"
ls "$folder"/tremula_*.deb >/dev/null || fail "expected packages in $folder, found none: make them by ./dev deb"
version=$(dpkg-deb --field "$folder"/tremula_*.deb Version)
interface=${version%.*}
root=$(mktemp -d /tmp/tremula_debs.XXXXXX)
server='' jobs=()
finish() {
  local process place
  for process in "${jobs[@]}" $server; do kill "$process" 2>/dev/null || true; done
  for place in dev/shm sys proc; do
    ! mountpoint -q "$root/$place" || umount "$root/$place" || umount --lazy "$root/$place"
  done
  rm -rf --one-file-system "$root" "$root.log"
}
trap finish EXIT
trap 'exit 1' INT TERM
inside() {  # inside COMMAND...: in the folder, with no variable of the caller's
  exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive TREMULA_SERVER=file:/trial/port TREMULA_TIMEOUT=60 \
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 "$@"
}
run() { (inside "$@"); }
ours() {  # ours NAME...: the files of these packages, as they are seen inside
  local name file
  for name in "$@"; do
    file=$(cd "$root/debs" && ls "${name}"_*.deb) || fail "expected $name in $folder, found none"
    echo "/debs/$file"
  done
}
install() {  # install NAME...: packages of Debian's, and files, with what they need
  run apt-get install -q -y --no-install-recommends "$@" >"$root.log" 2>&1 || { tail -30 "$root.log"; fail "cannot install $*"; }
}
background() {  # background NAME COMMAND...: its words go to /trial/NAME.log
  local name=$1
  shift
  (inside "$@") >"$root/trial/$name.log" 2>&1 &
}
ends_well() {  # ends_well NAME PROCESS
  local status=0
  wait "$2" || status=$?
  [ $status = 0 ] || { cat "$root/trial/$1.log"; fail "$1 ended with $status"; }
}

if command -v lintian >/dev/null; then
  echo "== lintian"
  # cpack calls ldconfig in scripts, where Debian's own tools set a trigger; and nothing is uploaded to Debian.
  lintian --allow-root --fail-on error,warning --suppress-tags \
    lacks-ldconfig-trigger,maintscript-calls-ldconfig,initial-upload-closes-no-bugs "$folder"/*.deb || fail "lintian"
fi

echo "== a Debian of its own, by debootstrap"
debootstrap --variant=minbase bookworm "$root" "$mirror" >"$root.log" 2>&1 || { tail "$root.log"; fail "debootstrap"; }
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"  # of which Open MPI learns the cores
mount -t tmpfs tmpfs "$root/dev/shm"
mkdir "$root/debs" "$root/trial"
cp "$folder"/*.deb "$root/debs"

echo "== Python, the server and the command line need no -dev"
# shellcheck disable=SC2046
install $(ours "libtremula$interface" tremula python3-tremula)
[ ! -e "$root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)/libtremula.so" ] || fail "libtremula.so is there without -dev"
! run dpkg-query --show libopenmpi3 >/dev/null 2>&1 || fail "the library, the tools or the Python package need MPI"
run tremula version
for page in tremula tremula-bench tremula-plan tremula-serve tremula-status tremula-version; do
  # Debian's small images leave pages out; the package has them.
  dpkg-deb --contents "$folder"/tremula_*.deb | grep "/man1/$page.1.gz" >/dev/null || fail "the package tremula has no page $page"
done
[ "$(run python3 -c 'import importlib.metadata as m; print(m.version("tremula"))')" = "${version%-*}" ] || fail "Python has no metadata of tremula"
background server tremula serve --port 0 --port-file /trial/port
server=$!
for _ in $(seq 300); do [ ! -s "$root/trial/port" ] || break; sleep 0.1; done
[ -s "$root/trial/port" ] || { cat "$root/trial/server.log"; fail "the server does not listen"; }
cat >"$root/trial/producer.py" <<'PYTHON'
import numpy, tremula
layout = tremula.Layout.block(shape=(1000, 800), grid=(1, 1))
with tremula.Session("python_producer") as session, session.out_stream("squares") as stream:
    value = stream.field("value", "f64", layout)
    for step in range(5):
        with stream.step() as out:
            out[value] = numpy.full((1000, 800), float(step * step))
PYTHON
cat >"$root/trial/consumer.py" <<'PYTHON'
import tremula
with tremula.Session("python_consumer") as session, session.in_stream("squares") as stream:
    layout = tremula.Layout.block(shape=(1000, 800), grid=(1, session.size))
    value = stream.field("value", "f32", layout)
    assert [float(step[value].mean()) for step in stream] == [0, 1, 4, 9, 16]
PYTHON
background python_producer python3 /trial/producer.py
jobs=($!)
for rank in 0 1; do
  background "python_consumer_$rank" env RANK=$rank WORLD_SIZE=2 python3 /trial/consumer.py
  jobs+=($!)
done
ends_well python_producer "${jobs[0]}"
ends_well python_consumer_0 "${jobs[1]}"
ends_well python_consumer_1 "${jobs[2]}"
jobs=()
run python3 -m tremula doctor --quick >"$root.log" 2>&1 || { cat "$root.log"; fail "python3 -m tremula doctor --quick"; }
grep -E '^(library|ofi|local|tcp) ' "$root.log" || cat "$root.log"

echo "== what is built: C and C++"
# shellcheck disable=SC2046
install $(ours "libtremula-mpi$interface" "libtremula-scalapack$interface" "libtremula-weights$interface" "libtremula-oasis$interface" \
  libtremula-dev tremula-mpi) \
  g++ make cmake pkg-config libopenmpi-dev libscalapack-openmpi2.2
cp -r "$source/examples/00_quick_start" "$root/trial/quick_start"
sed -i 's/"matrix")/"matrix", {.wait_for_consumers = 2})/' "$root/trial/quick_start/producer.cpp"
run cmake -S /trial/quick_start -B /trial/quick_start/build >"$root.log" || { cat "$root.log"; fail "the quick start does not configure"; }
run cmake --build /trial/quick_start/build >"$root.log" 2>&1 || { cat "$root.log"; fail "the quick start does not build"; }
cat >"$root/trial/consumer.c" <<'C'
/* One process that gets all of the quick start's matrix. */
#include <stdio.h>
#include <tremula/tremula.h>
#define TRY(call) if ((call) < 0) return printf("%s\n", tremula_last_error()), 1
static double matrix[1000][800];
int main(void) {
  tremula_session* session;
  tremula_layout* layout;
  tremula_in_stream* in;
  int field, status;
  TRY(tremula_session_open("c_consumer", 0, 1, NULL, &session));
  TRY(tremula_layout_parse("shape=1000x800 grid=1x1", &layout));
  TRY(tremula_in_open(session, "matrix", NULL, &in));
  TRY(tremula_in_field(in, "value", TREMULA_F64, layout, &field));
  while ((status = tremula_in_begin_step(in)) == TREMULA_OK) {
    TRY(tremula_in_get(in, field, matrix, sizeof matrix));
    TRY(tremula_in_end_step(in));
    printf("%.0f\n", matrix[999][799]);
  }
  TRY(status);
  TRY(tremula_in_close(in));
  tremula_in_free(in);
  tremula_layout_free(layout);
  TRY(tremula_session_close(session));
  return 0;
}
C
run sh -c 'cc -Wall -Werror /trial/consumer.c -o /trial/c_consumer $(pkg-config --cflags --libs tremula)' || fail "the C program does not build"
job() {  # job NAME RANKS: the quick start's, with a folder of its own for what mpirun makes
  mkdir "$root/trial/$1.tmp"
  background "$1" env TMPDIR="/trial/$1.tmp" timeout 120 mpirun --oversubscribe --bind-to none -n "$2" \
    "/trial/quick_start/build/quick_start_$1"
  jobs+=($!)
}
job producer 2
job consumer 3
background c_consumer timeout 120 /trial/c_consumer
jobs+=($!)
ends_well producer "${jobs[0]}"
ends_well consumer "${jobs[1]}"
ends_well c_consumer "${jobs[2]}"
jobs=()
# The mean of 0 1 2 ... 799999 is 399999.5, the last of them 799999; a step adds a million.
for step in $(seq 0 9); do echo "step $step: mean $((step * 1000000 + 399999)).5"; done |
  diff - "$root/trial/consumer.log" || fail "the C++ consumer has other numbers than the producer"
for step in $(seq 0 9); do echo $((step * 1000000 + 799999)); done |
  diff - "$root/trial/c_consumer.log" || fail "the C consumer has other numbers than the producer"
run tremula status >/dev/null || fail "tremula status"

echo "== a program that calls ScaLAPACK"
cp "$source/tests/scalapack/relink.c" "$root/trial"
run mpicc /trial/relink.c -o /trial/relink -ltremula_scalapack -l:libscalapack-openmpi.so.2.2 -ltremula || fail "relink.c does not link"
run timeout 120 mpirun --oversubscribe --bind-to none -n 4 /trial/relink || fail "relink"

echo "== tremula-mpi, libtremula_ofi.so: bench by transport"
for transport in mpi ofi; do
  run timeout 120 tremula bench --from "shape=1000x80 grid=2x1" --to "shape=1000x80 grid=1x1" --steps 2 --transport $transport \
    >"$root.log" 2>&1 || { cat "$root.log"; fail "tremula bench --transport $transport"; }
done

echo "== removed: nothing stays"
kill "$server"
wait "$server" || fail "the server ended with $?"
server=''
run sh -c 'apt-get purge -q -y "*tremula*"' >"$root.log" 2>&1 || { tail -30 "$root.log"; fail "the packages cannot be removed"; }
left=$(find "$root/usr" "$root/etc" "$root/lib/" -iname '*tremula*' -not -path "$root/usr/share/doc-base/*")
[ -z "$left" ] || fail "left behind: $left"
echo "== the packages work"
