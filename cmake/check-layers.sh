#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The map of what includes what, and the check that the tree follows it: cmake/check-layers.sh [TREE]
set -euo pipefail

# A layer, its files, and the layers right below it. A file includes its own layer and everything that can be
# reached downwards; "everything" is for that layer alone. FOLDER/ is all files under it; FOLDER/name,name are these
# nouns in it: name.c, name.h and name_part.c. The first line that fits a file is its layer.
layers() {
	cat <<'END'
# layer        files                                             right below it
agent-api      peeragent/lib/include/                            api
log-api        libslime/include/slime/export,log,version         -
api            libslime/include/slime/                           log-api
base           libslime/base/                                    log-api
examples       libslime/examples/                                api
agent-examples peeragent/examples/                               agent-api
core           libslime/src/core/                                base api
rdma           libslime/src/transport/rdma/                      seam
shm            libslime/src/transport/shm/                       seam
tcp            libslime/src/transport/tcp/                       seam
seam           libslime/src/transport/                           core
progress       libslime/src/progress/                            seam
topo           libslime/src/topo/                                rdma
memory         libslime/src/memory/                              progress
endpoint       libslime/src/endpoint/                            memory
rpc            libslime/src/rpc/                                 endpoint
link           libslime/src/link/                                rpc
listener       libslime/src/listener/                            endpoint tcp
cli            cli/                                              base
net            nanoctrl/net/                                     base
client         nanoctrl/client/                                  net
nc-text        nanoctrl/src/text/                                base
nc-http        nanoctrl/src/http/                                net nc-text
nc-about       nanoctrl/src/api/server                           nc-http
nc-store       nanoctrl/src/store/store,compat,key,script        nc-text
nc-topology    nanoctrl/src/topology/                            base
nc-model       nanoctrl/src/model/                               nc-store nc-topology
nc-api         nanoctrl/src/api/                                 nc-model nc-about
nc-cluster     nanoctrl/src/cluster/                             nc-model net
nc-mooncake    nanoctrl/src/mooncake/                            nc-api nc-redis-store
nc-runtime     nanoctrl/src/daemon/runtime,probe                 nc-text cli net
nc-redis       nanoctrl/src/redis/                               net cli nc-runtime nc-store
nc-redis-store nanoctrl/src/store/                               nc-redis
nc-daemon      nanoctrl/src/daemon/                              nc-runtime nc-http
nc-compat-of   nanoctrl/src/server/compat,no_compat              nc-store nc-http
nc-server      nanoctrl/src/server/                              nc-compat-of nc-api nc-redis-store nc-cluster nc-mooncake nc-daemon client
nc-commands    nanoctrl/src/commands/                            nc-server
nc-main        nanoctrl/src/main                                 nc-commands
nc-compat      nanoctrl/src/compat/                              nc-server
agent-plan     peeragent/lib/plan/                               base agent-api
agent-control  peeragent/lib/control/                            agent-plan client
agent-loop     peeragent/lib/loop/                               net
agent-links    peeragent/lib/links/                              agent-control agent-loop
agent-regions  peeragent/lib/regions/                            agent-control agent-loop
agent          peeragent/lib/agent/                              agent-links agent-regions
peeragent      peeragent/src/                                    agent cli
pages-api      pages/include/                                    agent-api
pages-examples pages/examples/                                   pages-api
pages-plugin   pages/src/plugin                                  pages cli
pages          pages/src/                                        base pages-api
cache          pages/cache/                                      nc-daemon nc-about client
python         python/                                          pages-api
tool-devices   tool/devices                                      api cli
tool           tool/                                             agent pages-api tool-devices
bench-load     bench/load/                                       api base
bench-service  bench/service/                                    agent-api bench-load cli
bench-rounds   bench/rounds/                                     base cli
bench-routes   bench/routes/                                     client
bench-sides    bench/reference/,bench/measure/,bench/baselines/  agent-api bench-rounds bench-routes bench-load
bench-process  bench/process/                                    base cli
bench-host     bench/host/                                       api bench-process
bench-output   bench/output/                                     tool-devices
bench-results  bench/rpc/results,sweep,comparison                cli
bench-plot     bench/plot/                                       bench-results bench-process
bench          bench/                                            agent pages-api bench-service bench-routes bench-host bench-output bench-plot
conformance    tests/conformance/                                api support
support        tests/support/,tests/fakes/                       everything
tests          tests/                                            everything
END
}

# Headers of others, and who may include them: layers, or single files.
foreign() {
	cat <<'END'
# header       who
yaml.h         cli tests
jansson.h      nc-model nc-mooncake nc-compat nanoctrl/client/json_document.h nanoctrl/client/json_load.h nanoctrl/client/json_member.h bench/output/document.h bench/rpc/report.c bench/transfer/report.c bench/ctrl/report.c tool/devices_json.c bench/rnr/rnr_json.c bench-plot bench/page/report.c pages/cache/order.c tests
hiredis/       nc-redis nc-redis-store nc-mooncake nc-compat nanoctrl/src/commands/obs_redis.c tests support
event2/        net client nc-cluster nc-http nc-redis nc-redis-store nc-model nc-api nc-mooncake nc-compat nc-about nc-daemon nc-server nc-commands nc-main agent agent-control agent-loop agent-links agent-regions peeragent bench cache cli tests support
openssl/       libslime/src/transport/auth.c net nc-http nc-redis nc-api nc-server client agent peeragent cli tests support
infiniband/    rdma tests support
rdma/          rdma tests support
xxhash.h       pages tests
numa.h         memory tests
numaif.h       memory tests
END
}

cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"
sources() {
	find . \( -path ./build -o -path './.*' \) -prune -o -name '*.[ch]' -printf '%P\n' | sort
}

mapfile -t files < <(sources)
[ "${#files[@]}" -gt 0 ] || {
	echo "check-layers.sh: no sources in $PWD" >&2
	exit 1
}

awk -v layers="$(layers)" -v foreign="$(foreign)" '
function fits(file, pattern,    folder, names, n, i, stem) {
	if (pattern ~ /\/$/)
		return index(file, pattern) == 1
	folder = names = pattern
	sub(/[^\/]*$/, "", folder)
	sub(/.*\//, "", names)
	if (index(file, folder) != 1)
		return 0
	stem = substr(file, length(folder) + 1)
	if (stem ~ /\//)
		return 0
	sub(/\.[ch]$/, "", stem)
	n = split(names, name_of, ",")
	for (i = 1; i <= n; i++)
		if (stem == name_of[i] || index(stem, name_of[i] "_") == 1)
			return 1
	return 0
}

# The layer of a file, "" when it has none.
function layer_of(file,    i, j, n, part) {
	for (i = 1; i <= n_layers; i++) {
		n = patterns[i] ~ /\/,/ ? split(patterns[i], part, ",") : 0
		if (n == 0 && fits(file, patterns[i]))
			return names[i]
		for (j = 1; j <= n; j++)
			if (fits(file, part[j]))
				return names[i]
	}
	return ""
}

# Everything that can be reached downwards from a layer.
function reach(top, layer,    n, i, next_one) {
	if ((top, layer) in below)
		return
	below[top, layer] = 1
	n = split(down[layer], next_one, " ")
	for (i = 1; i <= n; i++)
		if (next_one[i] == "everything")
			unbound[layer] = 1
		else if (next_one[i] != "-")
			reach(top, next_one[i])
}

function read_tables(    n, i, line, field, m, j) {
	n = split(layers, line, "\n")
	for (i = 1; i <= n; i++) {
		if (line[i] ~ /^#/)
			continue
		m = split(line[i], field, " ")
		names[++n_layers] = field[1]
		patterns[n_layers] = field[2]
		for (j = 3; j <= m; j++)
			down[field[1]] = down[field[1]] " " field[j]
	}
	for (i = 1; i <= n_layers; i++)
		reach(names[i], names[i])
	n = split(foreign, line, "\n")
	for (i = 1; i <= n; i++) {
		if (line[i] ~ /^#/)
			continue
		m = split(line[i], field, " ")
		headers[++n_headers] = field[1]
		for (j = 2; j <= m; j++)
			may_use[field[1], field[j]] = 1
	}
}

# "a/b/../c.h" is "a/c.h".
function plain(path) {
	while (sub(/[^\/]+\/\.\.\//, "", path))
		;
	sub(/^\.\//, "", path)
	return path
}

# The file of ours that an #include names, "" when it is none.
function resolve(from, header, quoted,    folder, n, i, place) {
	folder = from
	sub(/[^\/]*$/, "", folder)
	n = split("libslime/include/|peeragent/lib/include/" (quoted ? "|libslime/||nanoctrl/src/|" folder : ""), place, "|")
	for (i = 1; i <= n; i++)
		if (plain(place[i] header) in ours)
			return plain(place[i] header)
	return quoted && header in by_tail ? by_tail[header] : ""
}

function complain(text) {
	printf "%s:%d: %s\n", FILENAME, FNR, text
	bad = 1
}

function check_foreign(layer, header,    i) {
	for (i = 1; i <= n_headers; i++) {
		if (headers[i] != header && !(headers[i] ~ /\/$/ && index(header, headers[i]) == 1))
			continue
		if (!((headers[i], layer) in may_use) && !((headers[i], FILENAME) in may_use))
			complain(layer " may not include <" header ">")
	}
}

function check_include(layer, header, quoted,    target, target_layer) {
	target = resolve(FILENAME, header, quoted)
	if (target == "") {
		check_foreign(layer, header)
		return
	}
	target_layer = layer_of(target)
	if (target_layer != "" && !((layer, target_layer) in below) && !(layer in unbound))
		complain(layer " may not include " target_layer " (" target ")")
}

BEGIN {
	read_tables()
	for (i = 1; i < ARGC; i++) {
		ours[ARGV[i]] = 1
		tail = ARGV[i]
		while (sub(/^[^\/]*\//, "", tail))
			by_tail[tail] = (tail in by_tail) ? "" : ARGV[i] # an ambiguous name is nobody
	}
}

FNR == 1 {
	layer = layer_of(FILENAME)
	if (layer == "")
		complain("belongs to no layer: give its name a place in the table of cmake/check-layers.sh")
}

layer != "" && match($0, /^[ \t]*#[ \t]*include[ \t]*["<][^">]+[">]/) {
	header = substr($0, RSTART, RLENGTH - 1)
	quoted = header ~ /"/
	sub(/^[^"<]*["<]/, "", header)
	check_include(layer, header, quoted)
}

END { exit bad }
' "${files[@]}"
