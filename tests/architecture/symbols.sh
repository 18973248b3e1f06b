#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# symbols.sh LIBRARY SONAME LIST...: checks that the library exports the symbols of the lists and no others, and that
# SONAME is the name under which programs look for it.
set -euo pipefail
library=$1 soname=$2
shift 2
failed=0

if ! differences=$(diff <(sort -- "$@") <(nm --dynamic --defined-only "$library" | awk '{print $3}' | sort)); then
  echo "FAILED: $library: expected exactly the symbols of $*; found (< listed only, > exported only):" >&2
  grep '^[<>]' <<<"$differences" >&2
  echo "A new function is added to the list; one that was installed is removed only with a new SOVERSION." >&2
  failed=1
fi
found=$(readelf --dynamic "$library" | sed -n 's/.*Library soname: \[\(.*\)\]/\1/p')
if [ "$found" != "$soname" ]; then
  echo "FAILED: $library: expected the soname $soname, found $found" >&2
  failed=1
fi
exit $failed
