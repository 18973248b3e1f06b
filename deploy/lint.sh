#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lint.sh BUILD_DIR [--changed | FILE...]: checks layout (clang-format), bugs and names (clang-tidy), English, and the
# directions of includes. BUILD_DIR is that of the preset gate. Without files: all of the tree. --changed: those that
# differ from the last release, the newest tag v*; without a tag all of them, but not with clang-tidy, which takes
# more than half an hour for them.
set -euo pipefail
build=$1
shift
# listed REGEX: prints the files of the tree whose path matches: those that git tracks, or in an unpacked archive all
# files except those that builds make.
listed() {
  if [ -e .git ]; then
    git ls-files
  else
    find . -type f -not -path './build/*' -not -path './demo/*' -not -path '*/__pycache__/*' -printf '%P\n' | sort
  fi | grep -E "$1"
}
sources='\.(c|h|cpp|hpp)$'
since= tidies=true
if [ "${1:-}" = --changed ]; then
  shift
  [ ! -e .git ] || since=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)
  [ -n "$since" ] || tidies=false
fi
files=("$@")
if [ -n "$since" ]; then
  mapfile -t files < <(git diff --name-only --diff-filter=d "$since" | grep -E "$sources")
elif [ $# -eq 0 ]; then
  mapfile -t files < <(listed "$sources")
fi

failed=0
say() { printf '\n== %s\n' "$*"; }

say "Layout: ${#files[@]} files"
printf '%s\n' "${files[@]}" | xargs -r clang-format --dry-run -Werror ||
  { failed=1; echo "repair with: clang-format -i FILE"; }

# clang-tidy spends most of its time on headers of other projects, so it reads the units of the unity build. Headers are
# checked through the units that include them: for a changed header, through those of its own folder.
say "Bugs, performance, names"
if $tidies; then
  printf '%s\n' "${files[@]}" | /usr/bin/python3 deploy/lint_units.py "$build/compile_commands.json" |
    xargs -r -P "$(nproc)" -n 1 clang-tidy-19 --quiet -p "$build" || failed=1
else
  echo "left to ./dev lint: there is no release yet to compare with"
fi

# Sentences that a native engineer would not write; see CONTRIBUTING.md. Folders that are to be rebuilt are left out.
say "English"
mapfile -t prose < <(listed '\.(cpp|hpp|h|c|md|py|f90|in|proto|sh|txt|cmake)$|^dev$' |
  grep -vE '^client/(exchange|stream|redistribute)/|^server/rendezvous/|^deploy/lint\.sh$')
mapfile -t code < <(printf '%s\n' "${prose[@]}" | grep -v '\.md$')
refuse() {  # refuse WHY PATTERN [FILE...]: by default all of `prose`
  local why=$1 pattern=$2
  shift 2
  [ $# -gt 0 ] || set -- "${prose[@]}"
  if grep -nE "$pattern" "$@"; then
    echo "  ^ $why"
    failed=1
  fi
}
refuse "a comment that begins with a genitive: name its subject" '(^|[.:;] |/// |\* |// |# )Of [a-z]'
refuse "a clause without a head: name its subject" '(/// |// |\* )(That|Those|What|Whose) [a-z]+ '
refuse "a clause without a head: name its subject" '((^|[^#])# |""")(That|Those|What|Whose) [a-z]+ ' "${code[@]}"
refuse "'the same' as documentation: say what it is" '(/// |// |\* |[.] )The same( |\.|,|:)'
refuse "'as X' without a verb" '(/// |// |\* |[.] )As [a-z_A-Z:]+[,.]'
refuse "a program is no person: 'no rank', 'a client'" '(^|[^`"])\b([Nn]obody|[Ss]omebody|[Ww]hoever)\b'
refuse "programs send, report, announce, return and receive" '(^|[^`"])\b(tell|tells|told|telling|hear|hears|heard)\b'

say "Directions of includes"
"$build/bin/architecture_includes_test" --gtest_brief=1 || failed=1

[ $failed -eq 0 ] && say "Lint found nothing" || { say "Lint found the above"; exit 1; }
