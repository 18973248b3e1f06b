#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lint.sh BUILD_DIR [FILE...]: layout by clang-format, bugs and names by clang-tidy, directions of includes.
# BUILD_DIR holds compile_commands.json and the architecture test. Without files: all tracked ones.
set -euo pipefail
build=$1
shift
files=("$@")
[ $# -gt 0 ] || mapfile -t files < <(git ls-files '*.c' '*.h' '*.cpp' '*.hpp')

failed=0
say() { printf '\n== %s\n' "$*"; }

say "Layout: ${#files[@]} files"
clang-format --dry-run -Werror "${files[@]}" || { failed=1; echo "repair with: clang-format -i FILE"; }

# Headers are checked through the sources that include them. Flags that only GCC knows are removed for clang-tidy.
say "Bugs, performance, names"
mkdir -p "$build/lint"
sed 's/ -fno-tree-loop-distribute-patterns//' "$build/compile_commands.json" >"$build/lint/compile_commands.json"
printf '%s\n' "${files[@]}" | grep -E '\.cpp$' | while read -r file; do
  if grep -q "\"$PWD/$file\"" "$build/compile_commands.json"; then echo "$file"; fi
done | xargs -P "$(nproc)" -n 4 clang-tidy-19 --quiet -p "$build/lint" || failed=1

# Sentences that a native engineer would not write; see CONTRIBUTING.md. Folders that are to be rebuilt are left out.
say "English"
mapfile -t prose < <(git ls-files -- '*.cpp' '*.hpp' '*.h' '*.c' '*.md' '*.py' '*.f90' '*.in' '*.proto' '*.sh' '*.txt' '*.cmake' dev \
  ':!client/exchange' ':!client/stream' ':!client/redistribute' ':!server/rendezvous' ':!CHANGELOG.md' ':!deploy/lint.sh')
refuse() {  # refuse WHY PATTERN
  if grep -nE "$2" "${prose[@]}"; then
    echo "  ^ $1"
    failed=1
  fi
}
refuse "a comment that begins with a genitive: name its subject" '(^|[.:;] |/// |\* |// |# )Of [a-z]'
refuse "a clause without a head: name its subject" '(/// |// |\* )(That|Those|What|Whose) [a-z]+ '
refuse "'the same' as documentation: say what it is" '(/// |// |\* |[.] )The same( |\.|,|:)'
refuse "'as X' without a verb" '(/// |// |\* |[.] )As [a-z_A-Z:]+[,.]'
refuse "a program is no person: 'no rank', 'a client'" '\b([Nn]obody|[Ss]omebody|[Ww]hoever)\b'
refuse "programs send, report, announce, return and receive" '\b(tell|tells|told|telling|hear|hears|heard)\b'

say "Directions of includes"
"$build/bin/architecture_includes_test" --gtest_brief=1 || failed=1

[ $failed -eq 0 ] && say "Lint found nothing" || { say "Lint found the above"; exit 1; }
