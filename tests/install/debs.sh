#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# debs.sh SOURCE FOLDER [MIRROR]: tests the packages that ./dev deb has made in FOLDER, in a separate Debian that
# debootstrap makes under /tmp. Checks that they install, that programs in Python, C, C++ and Fortran can use them, and
# that removal leaves nothing. Needs root.
set -euo pipefail
source=$1 folder=$2 mirror=${3:-http://deb.debian.org/debian}
fail() { echo "FAILED: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "expected root, for chroot; found user $(id -un): run it as root, or with sudo"
ls "$folder"/tremula_*.deb >/dev/null || fail "expected packages in $folder, found none: make them with ./dev deb"
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
inside() {  # inside COMMAND...: runs it inside that Debian, without the caller's variables
  exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive TREMULA_SERVER=file:/trial/port TREMULA_TIMEOUT=60 \
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 "$@"
}
run() { (inside "$@"); }
ours() {  # ours NAME...: prints the files of these packages, with their paths inside that Debian
  local name file
  for name in "$@"; do
    file=$(cd "$root/debs" && ls "${name}"_*.deb) || fail "expected $name in $folder, found none"
    echo "/debs/$file"
  done
}
install() {  # install NAME...: installs Debian packages, and files, with their dependencies
  run apt-get install -q -y --no-install-recommends "$@" >"$root.log" 2>&1 || { tail -30 "$root.log"; fail "cannot install $*"; }
}
background() {  # background NAME COMMAND...: runs COMMAND in the background; its output goes to /trial/NAME.log
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
  # cpack calls ldconfig in scripts, whereas Debian's own tools set a trigger; the packages are not uploaded to Debian.
  lintian --allow-root --fail-on error,warning --suppress-tags \
    lacks-ldconfig-trigger,maintscript-calls-ldconfig,initial-upload-closes-no-bugs "$folder"/*.deb || fail "lintian"
fi

echo "== a separate Debian, made with debootstrap"
debootstrap --variant=minbase bookworm "$root" "$mirror" >"$root.log" 2>&1 || { tail "$root.log"; fail "debootstrap"; }
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"  # where Open MPI finds the cores
mount -t tmpfs tmpfs "$root/dev/shm"
mkdir "$root/debs" "$root/trial"
cp "$folder"/*.deb "$root/debs"

echo "== Python, the server and the command line need no -dev"
# shellcheck disable=SC2046
install $(ours "libtremula$interface" tremula python3-tremula)
[ ! -e "$root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)/libtremula.so" ] || fail "libtremula.so is installed without -dev"
! run dpkg-query --show libopenmpi3 >/dev/null 2>&1 || fail "the library, the tools or the Python package need MPI"
run tremula version
for page in tremula tremula-bench tremula-plan tremula-serve tremula-status tremula-version; do
  # Debian's small images leave manual pages out; the package has them.
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

echo "== the quick start in C++, C, Fortran and Python"
# shellcheck disable=SC2046
install $(ours "libtremula-mpi$interface" "libtremula-scalapack$interface" "libtremula-weights$interface" "libtremula-oasis$interface" \
  libtremula-dev tremula-mpi) \
  g++ gfortran make cmake pkg-config libopenmpi-dev libscalapack-openmpi2.2 python3-mpi4py
cp -r "$source/examples/00_quick_start" "$root/trial/quick_start"
run cmake -S /trial/quick_start -B /trial/quick_start/build >"$root.log" || { cat "$root.log"; fail "the quick start does not configure"; }
run cmake --build /trial/quick_start/build >"$root.log" 2>&1 || { cat "$root.log"; fail "the quick start does not build"; }
job() {  # job NAME RANKS COMMAND...: starts it with mpirun, with its own TMPDIR
  local name=$1 ranks=$2
  shift 2
  mkdir -p "$root/trial/$name.tmp"
  background "$name" env TMPDIR="/trial/$name.tmp" timeout 120 mpirun --oversubscribe --bind-to none -n "$ranks" "$@"
  jobs+=($!)
}
command_in() {  # command_in LANGUAGE PROGRAM
  case $1 in
    python) echo "python3 /trial/quick_start/$2.py" ;;
    cpp) echo "/trial/quick_start/build/quick_start_$2" ;;
    *) echo "/trial/quick_start/build/quick_start_$2_$1" ;;
  esac
}
for pair in "cpp c" "c fortran" "fortran python" "python cpp"; do
  read -r from to <<<"$pair"
  # shellcheck disable=SC2046
  job producer 2 $(command_in "$from" producer)
  # shellcheck disable=SC2046
  job consumer 3 $(command_in "$to" consumer)
  ends_well producer "${jobs[0]}"
  ends_well consumer "${jobs[1]}"
  jobs=()
  # The mean of 0 1 2 ... 799999 is 399999.5; a step adds a million.
  for step in $(seq 0 9); do echo "step $step: mean $((step * 1000000 + 399999)).5"; done |
    diff - <(sed 's/^ *//; s/  */ /g' "$root/trial/consumer.log") || fail "the consumer in $to has other numbers than the producer in $from"
done
run tremula status >/dev/null || fail "tremula status"

echo "== coupled models by tremula_oasis, and by pkg-config"
cat >"$root/trial/alone.f90" <<'FORTRAN'
program alone
  use tremula_oasis
  use tremula_regridding
  implicit none
  integer :: component, comm, ierr
  type(tremula_weights) :: weights
  call oasis_init_comp(component, 'alone', ierr)
  call oasis_get_localcomm(comm, ierr)
  call weights%free()
  call oasis_terminate(ierr)
  print '(a)', 'right'
end program
FORTRAN
printf 'runtime: 60\nfields: []\n' >"$root/trial/tremula_oasis.yaml"
run sh -c 'mpif90 /trial/alone.f90 -o /trial/alone $(pkg-config --cflags --libs tremula_oasis) -ltremula_fortran_weights -ltremula_weights \
  $(pkg-config --libs tremula_fortran)' >"$root.log" 2>&1 || { cat "$root.log"; fail "a program of tremula_oasis does not build"; }

echo "== the examples, by the commands of their pages"
install cdo ferret-datasets liblammps-dev python3-scipy python3-matplotlib
mkdir "$root/trial/source"
cp -r "$source/examples" "$root/trial/source"
for example in ocean_atmosphere lammps; do
  awk -v name="$example" '/^```sh$/ {block = ""; inside = 1; next} /^```$/ {if (inside && block ~ "cmake -S examples/" name) printf "%s", block; inside = 0}
    inside {block = block $0 "\n"}' "$source/examples/$example/README.md" >"$root/trial/$example.sh"
  [ -s "$root/trial/$example.sh" ] || fail "examples/$example/README.md has no commands"
  run env -u TREMULA_SERVER OCEAN_DAYS=4 LAMMPS_TIMESTEPS=100 sh -ec "cd /trial/source && . /trial/$example.sh" >"$root.log" 2>&1 ||
    { tail -30 "$root.log"; fail "examples/$example"; }
  grep '^right' "$root.log" || fail "examples/$example does not say that it is right"
done

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
