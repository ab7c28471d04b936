#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The file is made once: a sentinel keeps there what it has learned.
set -eu
file=/data/sentinel.conf
if [ ! -e "$file" ]; then
	cp /etc/redis/sentinel.conf "$file.new"
	echo "sentinel announce-ip $POD_NAME.sentinel" >>"$file.new"
	mv "$file.new" "$file"
fi
exec redis-server "$file" --sentinel
