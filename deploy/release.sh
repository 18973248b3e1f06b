#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# release.sh [trial]: makes the files of a release, in build/release-VERSION, from the current commit. Packages, wheel
# and manual are made in the unpacked source archive, which is not a git repository, and its fast tests run there. With
# `trial` the changelog may still call the version unreleased.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
say() { printf '\n== %s\n' "$*"; }
fail() { printf 'release: %s\n' "$*" >&2; exit 1; }
case "${1:-}" in
  "") kind=released ;;
  trial) kind=trial ;;
  *) fail "expected nothing or trial, found '$1'" ;;
esac

[ -e .git ] || fail "expected a clone, found a tree without .git: the archive is made from a commit"
dirt=$(git status --porcelain)
[ -z "$dirt" ] || fail "expected a clean tree; found uncommitted changes, or files that git does not track:
$dirt"
version=$(deploy/versions.py "$kind") || fail "expected all files to agree on the version"
interface=${version%.*}
name=tremula-$version
out=$PWD/build/release-$version
work=$PWD/build/release-work
# All files get the time of the commit, so that their bytes do not depend on when and where they are made.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
unset CCACHE_BASEDIR

say "Source archive of $(git rev-parse --short HEAD)"
rm -rf "$out" "$work"
mkdir -p "$out" "$work"
git archive --format=tar --prefix="$name/" HEAD | gzip --no-name -9 >"$out/$name.tar.gz"
tar --extract --gzip --file "$out/$name.tar.gz" --directory "$work"
tree=$work/$name
unpacked() { (cd "$tree" && "$@"); }  # unpacked COMMAND...: runs it in the unpacked archive

unpacked ./dev deb
cp "$tree"/build/deb/*.deb "$out"
for package in "$out"/*.deb; do
  found=$(dpkg-deb --field "$package" Version)
  [ "${found%-*}" = "$version" ] || fail "$(basename "$package"): expected the version $version, found $found"
done
for package in "libtremula$interface" libtremula-dev tremula python3-tremula; do
  ls "$out/${package}_$version"-*.deb >/dev/null || fail "expected the package $package, found none"
done

unpacked ./dev wheel
cp "$tree"/build/wheel/*.whl "$out"
wheels=("$out"/*.whl)
[[ "${wheels[*]}" =~ ^[^\ ]*/$name-py3-none-manylinux_2_36_[a-z0-9_]+\.whl$ ]] ||
  fail "expected one wheel of $name for manylinux_2_36, found ${wheels[*]}: is patchelf installed?"

unpacked ./dev docs
tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w \
  --directory "$tree/build/docs" --transform "s,^site,$name-manual," site |
  gzip --no-name -9 >"$out/$name-manual.tar.gz"

say "Fast tests of the unpacked archive"
unpacked ./dev test released

(cd "$out" && sha256sum -- *.tar.gz *.deb *.whl >SHA256SUMS && sha256sum --quiet --check SHA256SUMS)

say "build/release-$version"
cd "$out"
size() { du --apparent-size --block-size=1k "$1" | awk '{printf "%d kB", $1}'; }
for file in *.tar.gz; do
  printf '%-52s %9s, %d files\n' "$file" "$(size "$file")" "$(tar --list --gzip --file "$file" | grep -vc '/$')"
done
for file in *.deb; do
  printf '%-52s %9s, %d files: %s\n' "$file" "$(size "$file")" "$(dpkg-deb --contents "$file" | grep -vc '/$')" \
    "$(dpkg-deb --field "$file" Description | sed -n 1p)"
done
for file in *.whl; do
  printf '%-52s %9s, %s\n' "$file" "$(size "$file")" \
    "$(/usr/bin/python3 -m zipfile --list "$file" | awk '/\/_native\// {sub(".*/", "", $1); print $1}' | paste -sd ' ')"
done
printf '%-52s %9s, checked\n' SHA256SUMS "$(size SHA256SUMS)"
rm -rf "$work"
