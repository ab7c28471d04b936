#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The build installs into a prefix that then stands alone: a C and a C++ program, the one of the README and the lessons
# build against it by CMake or by pkg-config, and run; the installed programs run; the library exports what slime.map
# names.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

need c++
need cmake
need pkg-config
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
consumer=$PWD/tests/project/consumer

# Nothing may lean on the place it was first installed to.
cmake --install "$SLIME_BUILD" --prefix "$work/first" >/dev/null
mv "$work/first" "$prefix"
library=$(find "$prefix" -name 'libslime.so')
export PKG_CONFIG_PATH=${library%/*}/pkgconfig

run() {
	echo "$*"
	"$@"
}

by_cmake() {
	cmake -S "$consumer" -B "$work/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
	cmake --build "$work/cmake" >/dev/null
	run "$work/cmake/consumer-c"
	run "$work/cmake/consumer-cxx"
}

by_pkg_config() {
	local -a flags

	read -ra flags <<<"$(pkg-config --cflags --libs slime)"
	cc -o "$work/consumer-c" "$consumer/consumer.c" "${flags[@]}"
	c++ -o "$work/consumer-cxx" "$consumer/consumer.cc" "${flags[@]}"
	export LD_LIBRARY_PATH=${library%/*}
	run "$work/consumer-c"
	run "$work/consumer-cxx"
	unset LD_LIBRARY_PATH
}

# The library of pages, which brings the agent's, in both languages; its functions fill what its macros would.
by_pages_library() {
	local -a flags

	read -ra flags <<<"$(pkg-config --cflags --libs slime-pages)"
	cat >"$work/pages.c" <<-'END'
		#include <slime/pages.h>

		int main(void)
		{
			struct slime_pages_owner_attr owner;
			struct slime_pages_attr attr;

			slime_pages_owner_attr_init(&owner);
			slime_pages_attr_init(&attr);
			return owner.numa_node != SLIME_NUMA_ANY || owner.high_percent <= owner.low_percent || owner.tenants ||
			       attr.replicas != 1 || !attr.timeout_ms || attr.tenant || slime_pages_destroy(0);
		}
	END
	cc -Wall -Wextra -Werror -o "$work/consumer-pages" "$work/pages.c" "${flags[@]}"
	LD_LIBRARY_PATH=${library%/*} run "$work/consumer-pages"
	c++ -x c++ -std=c++17 -pedantic -Wall -Wextra -Werror -o "$work/consumer-pages-cxx" "$work/pages.c" "${flags[@]}"
	LD_LIBRARY_PATH=${library%/*} run "$work/consumer-pages-cxx"
	[ -n "$(find "$prefix" -path '*/lib*/slime/pages.so')" ] || { echo "the service pages is not installed" && return 1; }
}

# The agent's library stands for both.
by_agent_library() {
	local -a flags

	read -ra flags <<<"$(pkg-config --cflags --libs slime-agent)"
	printf '#include <slime/agent.h>\nint main(void) { return !slime_version() || slime_agent_destroy(0); }\n' >"$work/agent.c"
	cc -o "$work/consumer-agent" "$work/agent.c" "${flags[@]}"
	LD_LIBRARY_PATH=${library%/*} run "$work/consumer-agent"
}

# The program that the README shows.
readme() {
	local -a flags

	read -ra flags <<<"$(pkg-config --cflags --libs slime)"
	awk '/^```/ { code = $0 == "```c"; next } code' README.md >"$work/readme.c"
	cc -std=c17 -Wall -Wextra -Werror -o "$work/readme" "$work/readme.c" "${flags[@]}"
	[ "$(LD_LIBRARY_PATH=${library%/*} "$work/readme")" = "bytes of the other end" ]
}

# The lessons need nothing but what was installed.
lessons() {
	local -a flags
	local lesson

	read -ra flags <<<"$(pkg-config --cflags --libs slime)"
	for lesson in libslime/examples/0*.c; do
		cc -Wall -Wextra -Werror -o "$work/lesson" "$lesson" libslime/examples/lesson.c "${flags[@]}"
		LD_LIBRARY_PATH=${library%/*} run "$work/lesson" >/dev/null
	done
}

# The one in C++: its author has all warnings on.
cxx_lesson() {
	local -a flags

	read -ra flags <<<"$(pkg-config --cflags --libs slime)"
	cc -c -o "$work/lesson.o" libslime/examples/lesson.c -I"$prefix/include"
	c++ -std=c++17 -pedantic -Wall -Wextra -Werror -o "$work/lesson" libslime/examples/06-cxx.cc "$work/lesson.o" "${flags[@]}"
	LD_LIBRARY_PATH=${library%/*} run "$work/lesson" >/dev/null
}

# Each header stands alone, in the oldest dialects that can read it.
headers() {
	local header

	for header in "$prefix"/include/slime/*.h; do
		printf '#include <slime/%s>\nint consumer;\n' "${header##*/}" >"$work/alone.c"
		cc -x c -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" "$work/alone.c"
		c++ -x c++ -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$prefix/include" "$work/alone.c"
	done
}

symbols() {
	nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/exported"
	grep -oE '^[[:space:]]+slime_[a-z0-9_]+;' libslime/slime.map | tr -d '\t ;' | sort >"$work/promised"
	diff -u "$work/promised" "$work/exported"
	nm -D --defined-only "${library%/*}/libslime-agent.so" | awk '$2 != "A" { print $3 }' >"$work/exported"
	grep -q '^slime_agent_create' "$work/exported"
	! grep -v '^slime_' "$work/exported" || exit 1
}

programs() {
	local program

	for program in "$prefix"/bin/*; do
		[ ! -x "$program" ] || run "$program" --version
	done
	for program in nanoctrl peeragent slime-bench slime-cache slime; do
		grep -q "$program" "$prefix/share/bash-completion/completions/$program"
		grep -q "$program" "$prefix/share/zsh/site-functions/_$program"
		grep -q "$program" "$prefix/share/fish/vendor_completions.d/$program.fish"
	done
}

by_cmake
by_pkg_config
by_agent_library
by_pages_library
readme
lessons
cxx_lesson
headers
symbols
programs
