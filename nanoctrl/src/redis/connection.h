/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a connection to Redis, and the greeting by which it begins to serve. */
#ifndef NANOCTRL_REDIS_CONNECTION_H
#define NANOCTRL_REDIS_CONNECTION_H

#include <base/list.h>
#include "redis/cluster.h"
#include "redis/dial.h"
#include "redis/redis.h"
#include "redis/reader.h"

#define REDIS_BACKOFF_FIRST_MS 50

enum redis_state { REDIS_WAITING, REDIS_CONNECTING, REDIS_GREETING, REDIS_SERVING };

struct redis {
	struct redis_attr attr;
	struct event_base *base;
	struct nc_resolver *resolver; /* made when a host name needs it */
	struct locator *locator;      /* NULL: the URL says where Redis is */
	char host[256];		      /* where it is, unless by a unix socket */
	uint16_t port;
	struct dial dial;
	struct bufferevent *bev; /* connects, and writes what is not taken at once */
	struct event *readable;	 /* NULL until it is connected */
	struct redis_reader reader;
	struct event *retry; /* timer of the next attempt */
	struct event *check; /* timer of the age check */
	struct event *send;  /* the end of a turn in which commands were written */
	struct event *rest;  /* timer of push_ms, in which nothing is read; NULL without one */
	enum redis_state state;
	struct sl_list inflight; /* commands, the oldest first */
	size_t n_inflight;
	unsigned backoff_ms;
	uint64_t read_ns;    /* when something came */
	uint64_t ping_ns;    /* when a connection that subscribes last asked for something */
	uint64_t checked_ns; /* when it was last asked whether it is one to use */
	bool overdue;	     /* an answer is, and nothing has come since we saw that */
	unsigned tried;	     /* without success since it served */
	bool logged;	     /* this outage is in the log already */
	bool loading;	     /* it broke since the server still reads its data */
	bool parsing;
	bool broken; /* while parsing: fail when done */
	bool moving; /* the data are elsewhere: what is in flight ends, then we follow */
	bool on_way; /* from then until it serves there, or something breaks */
	struct cluster_node next; /* the node to connect to, or none when that has to be asked */
	uint64_t moved_ns;
	bool crowded; /* redis_info_crowded() */
	bool synced;  /* what the server acknowledges is on its disk */
	bool keeps;   /* ...and it was no replica since: it came back with all of that */
	char run_id[48];
	char trouble[256];
};

/* The connection has an end, now or, from inside of an answer's callback, when that returns; what
 * comes next is up to the state it was in. why may be the trouble that is noted already. */
void redis_broke(struct redis *r, const char *why);

/* redis_command() in any state: -ENOMEM. */
int redis_send(struct redis *r, int n, const char *const *args, const size_t *lens,
	       redis_reply_fn *fn, void *arg);

/* Send the questions that a server has to answer before it serves. -ENOMEM. When the last answer
 * has come, the connection serves or has broken. */
int redis_greet(struct redis *r);

/* The same for a server that serves, without login and database: it continues, or breaks. */
int redis_check_again(struct redis *r);

#endif
