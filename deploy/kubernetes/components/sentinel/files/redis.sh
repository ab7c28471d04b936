#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The file of this Redis is made once, and says who is the primary from then on: the sentinels change it. A pod that lost its
# volume asks them.
set -eu
file=/data/redis.conf
if [ ! -e "$file" ]; then
	primary=$(redis-cli -h sentinel -p 26379 sentinel get-master-addr-by-name main 2>/dev/null | head -n 1) || primary=
	cp /etc/redis/redis.conf "$file.new"
	echo "replica-announce-ip $POD_NAME.redis" >>"$file.new"
	[ "${primary:=redis-0.redis}" = "$POD_NAME.redis" ] || echo "replicaof $primary 6379" >>"$file.new"
	mv "$file.new" "$file"
fi
exec redis-server "$file"
