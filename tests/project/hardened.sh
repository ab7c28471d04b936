#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that is installed is hardened: each ELF file, read as it lies in the prefix, is position independent, has no
# executable stack, binds its symbols at start and maps them read-only afterwards, and was compiled with canaries, checked
# string functions, marked branch targets and probes of large stack frames (cmake/hardening.cmake).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

need readelf
need objdump
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$SLIME_BUILD" --prefix "$work/prefix" >/dev/null

failed=0
n_files=0
complain() {
	echo "$*"
	failed=1
}

# has FILE WHAT PATTERN <TEXT
has() {
	grep -qE -- "$3" || complain "$1: $2"
}

# Each public function in the code begins with an instruction that marks the target of an indirect branch.
check_marks() {
	local unmarked

	unmarked=$(awk -v mark="$2" '
		/^[0-9a-f]+ <slime_[a-z0-9_]+>:$/ { name = $2; next }
		name { if ($2 !~ mark) print name; name = "" }' "$work/code")
	[ -z "$unmarked" ] || complain "$1: functions without a marked entry: ${unmarked//$'\n'/ }"
}

check_code() {
	local file=$1 machine

	objdump -d --no-show-raw-insn "$file" >"$work/code"
	machine=$(sed -n 's/^ *Machine: *//p' "$work/head")
	case $machine in
	*X86-64*)
		check_marks "$file" '^endbr64$'
		has "$file" "does not probe large stack frames: -fstack-clash-protection" "\\borq +[$]0x0,\\(%rsp\\)" <"$work/code"
		;;
	*AArch64*)
		check_marks "$file" '^(bti|paciasp)$'
		;;
	*)
		skip "the test does not know the instructions of $machine"
		;;
	esac
}

check() {
	local file=$1

	readelf -hldW "$file" >"$work/head"
	has "$file" "is not position independent" '^ *Type: *DYN' <"$work/head"
	has "$file" "has an executable stack" '^ *GNU_STACK .* RW +0x' <"$work/head"
	has "$file" "leaves its table of addresses writable: -z relro" '^ *GNU_RELRO ' <"$work/head"
	has "$file" "binds symbols late: -z now" '\(FLAGS(_1)?\).*\b(BIND_)?NOW\b' <"$work/head"
	readelf --dyn-syms -W "$file" | sed 's/@.*//' | awk '{ print $8 }' >"$work/symbols"
	has "$file" "has no canaries: -fstack-protector-strong" '^__stack_chk_fail$' <"$work/symbols"
	has "$file" "has no checked functions: _FORTIFY_SOURCE" '^__[a-z]+_chk$' <"$work/symbols"
	check_code "$file"
}

while IFS= read -r file; do
	[ "$(head -c 4 "$file" | tr -d '\0')" = $'\x7fELF' ] || continue
	check "$file"
	n_files=$((n_files + 1))
done < <(find "$work/prefix" -type f \( -perm -u+x -o -name '*.so*' \))

echo "$n_files files"
for name in nanoctrl peeragent slime-bench slime-cache slime libslime.so libslime-agent.so libslime-pages.so bench.so pages.so; do
	[ -n "$(find "$work/prefix" -name "$name")" ] || complain "$name is not among them"
done
[ $failed -eq 0 ]
