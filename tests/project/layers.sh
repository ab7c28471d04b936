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
ok   libslime/src/core/op.c                  <slime/op.h>                  libslime/include/slime/op.h
ok   libslime/src/core/op.c                  "base/list.h"                 libslime/base/list.h
ok   libslime/src/core/op.c                  "op.h"                        libslime/src/core/op.h
ok   libslime/src/rpc/rpc_call.c             "src/rpc/mailbox.h"           libslime/src/rpc/mailbox.h
ok   libslime/src/rpc/rpc_call.c             "base/wire.h"                 libslime/base/wire.h
ok   libslime/src/progress/context.c         "src/transport/transport.h"   libslime/src/transport/transport.h
ok   libslime/src/transport/shm/ring.c       "ring.h"                      libslime/src/transport/shm/ring.h
ok   libslime/src/transport/rdma/qp.c        <infiniband/verbs.h>          -
ok   cli/options/config.c                    <yaml.h>                      -
ok   nanoctrl/src/model/model.c              <jansson.h>                   -
ok   peeragent/lib/agent/agent.c             "nanoctrl/client/client.h"    nanoctrl/client/client.h
ok   bench/rpc.c                             "cli/options/option.h"        cli/options/option.h
ok   libslime/examples/read.c                <slime/slime.h>               libslime/include/slime/slime.h
ok   tests/conformance/read.c                "support/pair.h"              tests/support/pair.h
ok   nanoctrl/src/store/redis_store.c        <hiredis/hiredis.h>           -
ok   nanoctrl/src/api/agent.c                "store/store.h"               nanoctrl/src/store/store.h
ok   peeragent/lib/agent/reconcile.c         "peeragent/lib/plan/topology.h" peeragent/lib/plan/topology.h
bad  libslime/base/log.c                     "src/core/op.h"               libslime/src/core/op.h
bad  libslime/include/slime/op.h             "base/list.h"                 libslime/base/list.h
bad  libslime/include/slime/op.h             <slime/agent.h>               peeragent/lib/include/slime/agent.h
bad  libslime/src/core/op.c                  "src/endpoint/endpoint.h"     libslime/src/endpoint/endpoint.h
bad  libslime/src/endpoint/endpoint.c        "src/rpc/mailbox.h"           libslime/src/rpc/mailbox.h
bad  libslime/src/progress/context.c         "src/transport/shm/ring.h"    libslime/src/transport/shm/ring.h
bad  libslime/src/transport/tcp/stream.c     "../shm/ring.h"               libslime/src/transport/shm/ring.h
bad  libslime/src/transport/tcp/stream.c     "src/progress/context.h"      libslime/src/progress/context.h
bad  libslime/src/transport/tcp/stream.c     <infiniband/verbs.h>          -
bad  libslime/src/core/op.c                  <jansson.h>                   -
bad  libslime/src/rpc/rpc.c                  <event2/event.h>              -
bad  libslime/src/rpc/rpc.c                  <yaml.h>                      -
bad  libslime/examples/read.c                "src/core/op.h"               libslime/src/core/op.h
bad  nanoctrl/src/http/server.c              <slime/op.h>                  libslime/include/slime/op.h
bad  nanoctrl/src/http/server.c              "src/core/op.h"               libslime/src/core/op.h
bad  nanoctrl/src/http/server.c              <jansson.h>                   -
bad  nanoctrl/src/http/server.c              <infiniband/verbs.h>          -
bad  nanoctrl/src/api/agent.c                "store/redis_store.h"         nanoctrl/src/store/redis_store.h
bad  nanoctrl/src/store/hub.c                "compat/reach.h"              nanoctrl/src/compat/reach.h
bad  nanoctrl/src/server/serve.c             "compat/store.h"              nanoctrl/src/compat/store.h
bad  nanoctrl/src/main.c                     "compat/gc.h"                 nanoctrl/src/compat/gc.h
ok   nanoctrl/src/compat/reach.c             "server/compat.h"             nanoctrl/src/server/compat.h
bad  nanoctrl/src/api/agent.c                <hiredis/hiredis.h>           -
bad  nanoctrl/src/store/redis_store.c        "http/request.h"              nanoctrl/src/http/request.h
bad  nanoctrl/src/http/reply.c               "store/store.h"               nanoctrl/src/store/store.h
bad  nanoctrl/client/client.c                <hiredis/hiredis.h>           -
bad  nanoctrl/client/client.c                "nanoctrl/src/http/server.h"  nanoctrl/src/http/server.h
bad  peeragent/lib/agent/agent.c             "libslime/src/core/op.h"      libslime/src/core/op.h
bad  peeragent/lib/plan/topology.c           "peeragent/lib/control/ctrl.h" peeragent/lib/control/ctrl.h
bad  peeragent/lib/regions/region.c          "peeragent/lib/agent/reconcile.h" peeragent/lib/agent/reconcile.h
bad  peeragent/lib/agent/agent.c             <yaml.h>                      -
bad  peeragent/lib/agent/agent.c             "cli/options/option.h"        cli/options/option.h
bad  cli/options/config.c                    <jansson.h>                   -
bad  bench/rpc.c                             "nanoctrl/src/store/store.h"  nanoctrl/src/store/store.h
bad  tests/conformance/read.c                "src/core/op.h"               libslime/src/core/op.h
bad  libslime/src/unheard.c                  "base/list.h"                 libslime/base/list.h
bad  common/list.c                           "base/list.h"                 libslime/base/list.h
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
