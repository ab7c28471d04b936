#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The quickstart runs beside another copy of itself; --keep leaves a cluster that its own script stops; Ctrl-C leaves
# nothing.
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

[ -x "$bin/slime-bench" ] || skip "slime-bench is not built"
export TMPDIR=$work
quickstart=${SLIME_SOURCE:?}/deploy/quickstart.sh

# The processes of ours that speak of the test's directory.
ours() {
	pgrep -f -- "$work/slime-quickstart" || true
}

nothing_is_left() {
	[ -z "$(ours)" ]
}

say "one that is kept, and one that is interrupted beside it"
spawn kept "$quickstart" --no-build --keep
# A shell ignores SIGINT in what it starts in the background: env takes that back.
spawn interrupted env --default-signal=INT "$quickstart" --no-build
measuring() {
	grep -q 'slime-bench rpc over' "$work/interrupted.out"
}
wait_for 60 measuring || fail "it does not measure: $(cat "$work/interrupted.out")"
end interrupted INT
[ "$status" -eq 130 ] || fail "the interrupted one ended with $status"
reap kept
[ "$status" -eq 0 ] || fail "the kept one ended with $status: $(tail -n 5 "$work/kept.out")"
[ "$(grep -c verified "$work/kept.out")" -eq 2 ] || fail "no verified transfers: $(cat "$work/kept.out")"

say "the kept cluster is up, and stops"
url=$(sed -n 's/.*nanoctrl at \([^,]*\),.*/\1/p' "$work/kept.out")
"$bin/nanoctrl" obs links --address "$url" --scope quickstart --wait 5s >"$work/links.out" || fail "$(cat "$work/links.out")"
stop=$(sed -n 's/.*stop it: *//p' "$work/kept.out")
cp "$stop" "$work/again"
"$stop" || fail "$stop"
wait_for 10 nothing_is_left || fail "left: $(ours | xargs -r ps -fp)"
[ -z "$(ls -d "$work"/slime-quickstart.* 2>/dev/null)" ] || fail "left: $(ls -d "$work"/slime-quickstart.*)"

say "a pid that is another's by now is left alone"
spawn stranger sleep 600
[ "$(grep -c '^stop [0-9]' "$work/again")" -eq 2 ] || fail "$(cat "$work/again")"
sed -i "s/^stop [0-9]*/stop ${pids[stranger]}/" "$work/again"
"$work/again" >"$work/again.out" 2>&1 || true
end stranger USR1 # which ends it with another status than the script would have
[ "$status" -eq 138 ] || fail "it ended with $status: $(cat "$work/again")"

say "a failing step says why, and where the log is"
SLIME_BIN=$work spawn failing "$quickstart" --no-build
reap failing
[ "$status" -eq 1 ] || fail "it ended with $status"
grep -q 'FAILED: there is no ' "$work/failing.err" || fail "it does not say why"
