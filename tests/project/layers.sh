#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tree follows the map of layers; and the check refuses what it should, tried on small trees.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

check=$PWD/cmake/check-layers.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

# A file, what it includes, and the file of ours that this names ("-": a header of others).
cases() {
	cat <<'END'
ok   libslime/src/op.c                       <slime/op.h>         libslime/include/slime/op.h
ok   libslime/src/op.c                       "base/list.h"        libslime/base/list.h
ok   libslime/src/op.c                       "op.h"               libslime/src/op.h
ok   libslime/src/rpc_call.c                 "src/mailbox.h"      libslime/src/mailbox.h
ok   libslime/src/rpc_call.c                 "base/wire.h"        libslime/base/wire.h
ok   libslime/src/context.c                  "src/transport/transport.h" libslime/src/transport/transport.h
ok   libslime/src/transport/shm/ring.c       "ring.h"             libslime/src/transport/shm/ring.h
ok   libslime/src/transport/rdma/qp.c        <infiniband/verbs.h> -
ok   cli/config.c                            <yaml.h>             -
ok   nanoctrl/src/model.c                    <jansson.h>          -
ok   peeragent/lib/agent.c                   "nanoctrl/client/client.h" nanoctrl/client/client.h
ok   bench/rpc.c                             "cli/option.h"       cli/option.h
ok   libslime/examples/read.c                <slime/slime.h>      libslime/include/slime/slime.h
ok   tests/conformance/read.c                "support/pair.h"     tests/support/pair.h
ok   nanoctrl/src/store_redis.c              <hiredis/hiredis.h>  -
ok   nanoctrl/src/api_agent.c                "store.h"            nanoctrl/src/store.h
ok   peeragent/lib/reconcile.c               "peeragent/lib/topology.h" peeragent/lib/topology.h
bad  libslime/base/log.c                     "src/op.h"           libslime/src/op.h
bad  libslime/include/slime/op.h             "base/list.h"        libslime/base/list.h
bad  libslime/include/slime/op.h             <slime/agent.h>      peeragent/lib/include/slime/agent.h
bad  libslime/src/op.c                       "src/endpoint.h"     libslime/src/endpoint.h
bad  libslime/src/endpoint.c                 "mailbox.h"          libslime/src/mailbox.h
bad  libslime/src/context.c                  "transport/shm/ring.h" libslime/src/transport/shm/ring.h
bad  libslime/src/transport/tcp/stream.c     "../shm/ring.h"      libslime/src/transport/shm/ring.h
bad  libslime/src/transport/tcp/stream.c     "src/context.h"      libslime/src/context.h
bad  libslime/src/transport/tcp/stream.c     <infiniband/verbs.h> -
bad  libslime/src/op.c                       <jansson.h>          -
bad  libslime/src/rpc.c                      <event2/event.h>     -
bad  libslime/src/rpc.c                      <yaml.h>             -
bad  libslime/examples/read.c                "src/op.h"           libslime/src/op.h
bad  nanoctrl/src/server.c                   <slime/op.h>         libslime/include/slime/op.h
bad  nanoctrl/src/server.c                   "src/op.h"           libslime/src/op.h
bad  nanoctrl/src/server.c                   <jansson.h>          -
bad  nanoctrl/src/server.c                   <infiniband/verbs.h> -
bad  nanoctrl/src/api_agent.c                "store_redis.h"      nanoctrl/src/store_redis.h
bad  nanoctrl/src/api_agent.c                <hiredis/hiredis.h>  -
bad  nanoctrl/src/store_redis.c              "request.h"          nanoctrl/src/request.h
bad  nanoctrl/src/reply.c                    "store.h"            nanoctrl/src/store.h
bad  nanoctrl/client/client.c                <hiredis/hiredis.h>  -
bad  nanoctrl/client/client.c                "nanoctrl/src/server.h" nanoctrl/src/server.h
bad  peeragent/lib/agent.c                   "libslime/src/op.h"  libslime/src/op.h
bad  peeragent/lib/topology.c                "ctrl.h"             peeragent/lib/ctrl.h
bad  peeragent/lib/region.c                  "reconcile.h"        peeragent/lib/reconcile.h
bad  peeragent/lib/agent.c                   <yaml.h>             -
bad  peeragent/lib/agent.c                   "cli/option.h"       cli/option.h
bad  cli/config.c                            <jansson.h>          -
bad  bench/rpc.c                             "nanoctrl/src/store.h" nanoctrl/src/store.h
bad  tests/conformance/read.c                "src/op.h"           libslime/src/op.h
bad  libslime/src/unheard.c                  "base/list.h"        libslime/base/list.h
bad  common/list.c                           "base/list.h"        libslime/base/list.h
END
}

try() {
	local want=$1 file=$2 include=$3 target=$4 got=ok

	rm -rf "${tree:?}"/*
	mkdir -p "$tree/$(dirname "$file")"
	if [ "$target" != - ]; then
		mkdir -p "$tree/$(dirname "$target")"
		: >"$tree/$target"
	fi
	echo "#include $include" >"$tree/$file"
	"$check" "$tree" >"$tree/said" 2>&1 || got=bad
	if [ "$got" != "$want" ]; then
		echo "$file with $include is $got, not $want: $(cat "$tree/said")"
		failed=1
	fi
}

while read -r want file include target; do
	try "$want" "$file" "$include" "$target"
done < <(cases)

"$check" || failed=1
exit "$failed"
