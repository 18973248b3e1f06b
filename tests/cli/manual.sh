#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# manual.sh TREMULA FOLDER PAGE: checks that the man page has each command and option that --help shows, and that bash
# and zsh complete them. bash must also complete values from a list of choices. man, mandoc and zsh, if installed, must
# report no problem.
set -euo pipefail  # so no grep -q after a pipe: it ends early, which makes the command before it fail
tremula=$1 folder=$2 page_of_manual=$3
fail() { echo "FAILED: $*" >&2; exit 1; }
# shellcheck source=/dev/null
. "$folder/tremula.bash"
completed() {  # completed WORD...: prints the words that bash offers for the last one, one per line
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
  _tremula tremula "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
  printf '%s\n' "${COMPREPLY[@]}"
}
names_in_help() {  # prints the option names: the first word of each line that begins with an option
  "$tremula" "$@" --help | sed -nE 's/^  (-+[a-z][^ ]*).*/\1/p' | tr , '\n'
}
is_in_page() {  # is_in_page PAGE TEXT: checks that the page has the option or command
  sed 's/\\-/-/g' "$folder/$1" | grep -F -- "\\fB$2\\fR" >/dev/null || fail "$1 has no $2"
}

commands=$("$tremula" --help | sed -n '/^Subcommands:/,$ s/^  \([a-z]\+\) .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 5 ] || fail "expected at least five commands, found: $commands"
count=0
for name in $commands $(names_in_help); do
  is_in_page tremula.1 "$name"
  completed tremula "" | grep -xF -- "$name" >/dev/null || fail "bash does not complete: tremula $name"
  grep -qF -- "'$name" "$folder/tremula.zsh" || fail "zsh does not complete: tremula $name"
done
for command in $commands; do
  page=tremula-$command.1
  for name in $(names_in_help "$command"); do
    is_in_page "$page" "$name"
    completed tremula "$command" "-" | grep -xF -- "$name" >/dev/null ||
      fail "bash does not complete: tremula $command $name"
    sed -n "/^ *$command) _arguments/,/;;\$/p" "$folder/tremula.zsh" | grep -F -- "'${name}[" >/dev/null ||
      fail "zsh does not complete: tremula $command $name"
    count=$((count + 1))
  done
done
[ "$count" -gt 50 ] || fail "expected more than 50 options, found $count"
[ "$(find "$folder" -name 'tremula-*.1' | wc -l)" = "$(wc -w <<<"$commands")" ] || fail "a page belongs to no command"

echo "== examples"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for command in $commands; do
  known=$(names_in_help "$command")
  examples=$(sed -n '/^\.SH EXAMPLES/,/^\.SH SEE/ s/^\\fB\(tremula .*\)\\fR$/\1/p' "$folder/tremula-$command.1" |
    sed 's/\\-/-/g')
  [ -n "$examples" ] || fail "tremula-$command.1 has no examples"
  while read -r example; do
    [[ "$example " == "tremula $command "* ]] || fail "tremula-$command.1 has an example of another command: $example"
    unknown=$(grep -oE -- '--[a-z-]+' <<<"$example" | grep -vxF -- "$known") || true
    [ -z "$unknown" ] || fail "expected options of --help, found $unknown in: $example"
    if [ "$command" = plan ] || [ "$command" = version ]; then
      (cd "$work" && eval "'$tremula' ${example#tremula }") </dev/null >/dev/null || fail "$example"
    fi
  done <<<"$examples"
done

echo "== the page of the manual"
diff "$page_of_manual" "$folder/commands" ||
  fail "the manual shows other options than --help: cp $folder/commands $page_of_manual"

echo "== the server's keys in the page of configuration"
documented=$(sed -n '/^For the server/,$ s/^| `.*/&/p' "$(dirname "$page_of_manual")/configuration.md" |
  sed 's/^| //; s/ |.*//' | tr -d ',`' | tr ' ' '\n' | tr _ - | sort | xargs)
known=$(names_in_help serve | sed -n 's/^--//p' | grep -vxE 'help|config' | sort | xargs)
[ "$documented" = "$known" ] ||
  fail "the page of configuration has the keys '$documented', tremula serve the options '$known'"

echo "== values, and names of files"
[ "$(completed tremula plan --side p)" = producer ] || fail "bash does not complete: plan --side p"
[ "$(completed tremula plan --rel)" = --relabel ] || fail "bash does not complete: plan --rel"
[ -z "$(completed tremula serve --port-file "")" ] ||
  fail "expected names of files after serve --port-file, found options"

echo "== the tools that read them"
for page in "$folder"/*.1; do
  if command -v mandoc >/dev/null; then
    mandoc -T lint -W warning "$page" | grep -v 'missing date' && fail "mandoc: $page"
  fi
  if command -v man >/dev/null; then
    said=$(LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings --encoding=UTF-8 --local-file "$page" 2>&1 >/dev/null) || true
    [ -z "$said" ] || fail "man: $page: $said"
  fi
done
if command -v zsh >/dev/null; then
  zsh -n "$folder/tremula.zsh" || fail "zsh cannot read its completion"
fi
echo "$count options of $(wc -w <<<"$commands") commands"
