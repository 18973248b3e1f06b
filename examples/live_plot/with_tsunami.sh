# SPDX-License-Identifier: Apache-2.0
# Sourced by the run.sh of examples that watch the tsunami (bash only). Finds a Python that has the package, and starts
# a server and the producer. Reads the variables name, build, output, minutes, deadline and needs.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../jobs.sh"
find_programs tremula tsunami_producer

# Uses the installed package, or else the package in the source tree with the library of the build.
python=${TREMULA_PYTHON:-/usr/bin/python3}
export PYTHONDONTWRITEBYTECODE=1
if ! (cd / && "$python" -c "import tremula; tremula.version()") 2>/dev/null; then
  export PYTHONPATH=$here/../../bindings/python${PYTHONPATH:+:$PYTHONPATH}
  export TREMULA_LIBRARY=${TREMULA_LIBRARY:-$(cd "$build/lib" && pwd)/libtremula.so}
fi
"$python" -c "import $needs" 2>"$output/packages.log" ||
  fail "expected a Python with $needs, found $(tail -n 1 "$output/packages.log"); name another in TREMULA_PYTHON"

start_tsunami() {
  start_server
  start "$output/producer.log" "${launch[@]}" -n 4 "${bin[tsunami_producer]}" \
    --cell-minutes "$minutes" --summary "$output/producer.json"
  producer=$!
}
