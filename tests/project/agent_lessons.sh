#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lessons 7, 8 and 10, built against an installed prefix by what pkg-config says, run beside the installed programs; what else
# the prefix has works there: example configurations, documents, and the programs of slime-bench rpc --baseline.
SLIME_BIN=${SLIME_BUILD:?}/bin
. "${SLIME_SOURCE:?}/tests/e2e/cluster.sh"

command -v pkg-config >/dev/null || skip "pkg-config is not installed"
cmake --install "$SLIME_BUILD" --prefix "$work/prefix" >/dev/null
bin=$work/prefix/bin
library=$(find "$work/prefix" -name 'libslime-agent.so')
documents=$work/prefix/share/doc/slime
export PKG_CONFIG_PATH=${library%/*}/pkgconfig

say "build"
lessons=$documents/peeragent/examples
read -ra cflags <<<"$(pkg-config --cflags slime-agent)"
read -ra libs <<<"$(pkg-config --libs slime-agent)"
cc -Wall -Wextra -Werror -o "$work/07-agent" "$lessons/07-agent.c" "${cflags[@]}" "${libs[@]}"
cc -Wall -Wextra -Werror -shared -fPIC -o "$work/08-plugin.so" "$lessons/08-plugin.c" "${cflags[@]}"

read -ra cflags <<<"$(pkg-config --cflags slime-pages)"
read -ra libs <<<"$(pkg-config --libs slime-pages)"
cc -Wall -Wextra -Werror -o "$work/10-pages" "$documents/pages/examples/10-pages.c" "${cflags[@]}" "${libs[@]}"

say "run"
start_control
sed "s|\./08-plugin.so|$work/08-plugin.so|" "$lessons/08-plugin.yaml" >"$work/bob.yaml"
start_agent bob
wait_ready bob
LD_LIBRARY_PATH=${library%/*} "$work/07-agent" "$url" >"$work/alice" || fail "lesson 7"
[ "$(cat "$work/alice")" = 'alice: on the board stands "alice was here"
alice: bob shouts HELLO!' ] || fail "$(cat "$work/alice")"

cp "$documents/pages/examples/10-pages.yaml" "$work/dora.yaml"
start_agent dora
wait_ready dora
LD_LIBRARY_PATH=${library%/*} "$work/10-pages" "$url" >"$work/carol" || fail "lesson 10"
[ "$(cat "$work/carol")" = 'carol: put 4 pages
carol: a prefix of 2 pages is there
carol: "the" is 65536 bytes of a
carol: "the cat" is 65536 bytes of b' ] || fail "$(cat "$work/carol")"
end dora

say "an option that the plugin does not know"
sed "s|mark:|makr:|" "$work/bob.yaml" >"$work/slip.yaml"
"$bin/peeragent" --config "$work/slip.yaml" --check 2>"$work/slip.err" && fail "it is accepted"
grep -q 'expected mark' "$work/slip.err" || fail "it does not say what it knows"
end bob

say "the example configurations"
for file in "$documents"/configs/node-*.yaml "$documents"/configs/quickstart/*.yaml; do
	"$bin/peeragent" --config "$file" --check >/dev/null || fail "$file"
done

say "what README refers to"
while read -r path; do
	[ -e "$documents/$path" ] || fail "README refers to $path, which is not installed"
done < <(grep -oE '\]\([A-Za-z][^):]*\)' "$documents/README.md" | tr -d ']()')

say "the programs of others' calls, which say that Ray is missing, and not that they are"
sed 's/bob, scope: lessons/bob, scope: test/; s/- { plugin.*/- { name: echo }/' "$work/bob.yaml" >"$work/echo.yaml"
start_agent echo
wait_ready echo
SLIME_BASELINES=$work/none "$bin/slime-bench" rpc --ctrl "$url" --scope test --peer bob --sizes 64 --iterations 10 \
	--baseline ray --results "$work/results" >"$work/bench.out" 2>"$work/bench.err" || true
grep -q 'slime-bench: Ray is not installed' "$work/bench.err" || fail "$(cat "$work/bench.err")"
