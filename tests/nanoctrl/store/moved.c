/* SPDX-License-Identifier: Apache-2.0 */
/* Connections and calls whose slot moves, over nodes that say what a test has them say. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <hiredis/hiredis.h>
#include <base/clock.h>
#include "nanoctrl/net/loop.h"
#include "redis/redis.h"
#include "redis/url.h"
#include "store/store.h"
#ifdef NANOCTRL_COMPAT
#include "compat/peer.h"
#endif

#define GIVE_UP_NS (60 * SL_NS_PER_S)
#define PEERS_MAX  64

/* A node of the cluster. What it says to a command is "" for what one expects of it. */
struct node {
	struct evconnlistener *listener;
	struct bufferevent *peers[PEERS_MAX];
	redisReader *readers[PEERS_MAX];
	unsigned n_peers;
	uint16_t port;
	unsigned n_infos; /* connections that began to be greeted */
	char slots[256];  /* to CLUSTER SLOTS */
	char eval[128];	  /* to EVAL, with which a connection is admitted */
	char get[256];	  /* to GET and EVALSHA */
	char once[256];	  /* before that, to the first */
	unsigned n_gets;
	unsigned n_asks; /* so many times "ASK" before anything else */
};

struct cluster {
	struct loop *loop;
	struct node a, b;
	struct redis_url url;
	struct redis *redis;
	unsigned n_up, n_down, n_answers;
	char answers[8][128];
	int results[8];
	int sent_inside; /* what sending said from inside the first answer */
	bool done;
	int result;
};

static void say(struct bufferevent *to, const char *text)
{
	bufferevent_write(to, text, strlen(text));
}

static const char info[] =
	"redis_mode:cluster\r\nrole:master\r\nredis_version:7.0.0\r\nrun_id:x\r\n";

static void answer(struct node *n, struct bufferevent *to, const redisReply *command)
{
	const char *word = command->element[0]->str;
	char text[512];

	if (!strcasecmp(word, "INFO")) {
		n->n_infos++;
		snprintf(text, sizeof(text), "$%zu\r\n%s\r\n", strlen(info), info);
		say(to, text);
	} else if (!strcasecmp(word, "CLUSTER")) {
		say(to, n->slots);
	} else if (!strcasecmp(word, "EVAL")) {
		say(to, *n->eval ? n->eval : "+OK\r\n");
	} else if (!strcasecmp(word, "GET") || !strcasecmp(word, "EVALSHA")) {
		n->n_gets++;
		if (n->n_asks && n->n_asks--)
			say(to, "-ASK 16027 127.0.0.1:1\r\n");
		else if (n->n_gets == 1 && *n->once)
			say(to, n->once);
		else
			say(to, *n->get ? n->get : "*1\r\n:0\r\n");
	} else {
		say(to, "+OK\r\n");
	}
}

static void on_command(struct bufferevent *bev, void *arg)
{
	struct node *n = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	redisReader *reader = NULL;
	void *command;

	for (unsigned i = 0; i < n->n_peers; i++)
		if (n->peers[i] == bev)
			reader = n->readers[i];
	assert_non_null(reader);
	redisReaderFeed(reader, (const char *)evbuffer_pullup(in, -1), evbuffer_get_length(in));
	evbuffer_drain(in, evbuffer_get_length(in));
	while (redisReaderGetReply(reader, &command) == REDIS_OK && command) {
		answer(n, bev, command);
		freeReplyObject(command);
	}
}

static void on_peer(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *from, int len,
		    void *arg)
{
	struct node *n = arg;
	struct bufferevent *bev;

	(void)from;
	(void)len;
	assert_true(n->n_peers < PEERS_MAX);
	bev = bufferevent_socket_new(evconnlistener_get_base(l), fd, BEV_OPT_CLOSE_ON_FREE);
	n->peers[n->n_peers] = bev;
	n->readers[n->n_peers++] = redisReaderCreate();
	bufferevent_setcb(bev, on_command, NULL, NULL, n);
	bufferevent_enable(bev, EV_READ | EV_WRITE);
}

static void start_node(struct node *n, struct event_base *base)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);

	n->listener = evconnlistener_new_bind(base, on_peer, n, LEV_OPT_CLOSE_ON_FREE, -1,
					      (struct sockaddr *)&addr, sizeof(addr));
	assert_non_null(n->listener);
	assert_int_equal(
		getsockname(evconnlistener_get_fd(n->listener), (struct sockaddr *)&addr, &len), 0);
	n->port = ntohs(addr.sin_port);
}

static void end_node(struct node *n)
{
	evconnlistener_free(n->listener);
	for (unsigned i = 0; i < n->n_peers; i++) {
		bufferevent_free(n->peers[i]);
		redisReaderFree(n->readers[i]);
	}
}

/* n says that owner has all slots. */
static void set_owner(struct node *n, const struct node *owner)
{
	snprintf(n->slots, sizeof(n->slots),
		 "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n", owner->port);
}

static void set_moved(char out[64], const struct node *to)
{
	snprintf(out, 64, "-MOVED 16027 127.0.0.1:%u\r\n", to->port);
}

static void on_up(void *arg, const char *run_id)
{
	struct cluster *c = arg;

	(void)run_id;
	c->n_up++;
}

static void on_down(void *arg)
{
	struct cluster *c = arg;

	c->n_down++;
}

static int setup(void **state)
{
	struct cluster *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	assert_int_equal(loop_create(&c->loop), 0);
	start_node(&c->a, loop_base(c->loop));
	start_node(&c->b, loop_base(c->loop));
	set_owner(&c->a, &c->a);
	set_owner(&c->b, &c->a);
	*state = c;
	return 0;
}

static int teardown(void **state)
{
	struct cluster *c = *state;

	redis_destroy(c->redis);
	redis_url_fini(&c->url);
	end_node(&c->a);
	end_node(&c->b);
	loop_destroy(c->loop);
	free(c);
	return 0;
}

static void format_url(const struct cluster *c, char out[128])
{
	snprintf(out, 128, "redis+cluster://127.0.0.1:%u,127.0.0.1:%u", c->a.port, c->b.port);
}

static void connect_it(struct cluster *c)
{
	struct redis_attr attr = { .url = &c->url,
				   .name = "test",
				   .timeout_ms = 30000,
				   .max_inflight = 100,
				   .admit = { .n = 1, .args = { "EVAL" }, .lens = { 4 } },
				   .up = on_up,
				   .down = on_down,
				   .arg = c };
	const char *why;
	char text[128];

	format_url(c, text);
	assert_int_equal(redis_url_parse(text, &c->url, &why), 0);
	assert_int_equal(redis_create(loop_base(c->loop), &attr, &c->redis), 0);
}

static void expire(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

static void turn(struct cluster *c)
{
	struct timeval tv = { .tv_usec = 20000 };
	bool over = false;
	struct event *ev = evtimer_new(loop_base(c->loop), expire, &over);

	event_add(ev, &tv);
	event_base_loop(loop_base(c->loop), EVLOOP_ONCE);
	event_free(ev);
}

#define RUN_UNTIL(c, what)                                       \
	do {                                                     \
		uint64_t start_ = sl_clock_ns();                 \
		while (!(what)) {                                \
			if (sl_clock_ns() - start_ > GIVE_UP_NS) \
				fail_msg("never: " #what);       \
			turn(c);                                 \
		}                                                \
	} while (0)

static bool serves_at(const struct cluster *c, const struct node *n)
{
	uint16_t port;

	redis_host(c->redis, &port);
	return !redis_trouble(c->redis) && port == n->port;
}

static int get(struct cluster *c);

static void on_answer(void *arg, int result, const redisReply *reply)
{
	struct cluster *c = arg;

	if (!c->n_answers)
		c->sent_inside = get(c);
	assert_true(c->n_answers < 8);
	c->results[c->n_answers] = result;
	if (reply && reply->type == REDIS_REPLY_ERROR)
		snprintf(c->answers[c->n_answers], 128, "%.100s", reply->str);
	c->n_answers++;
}

static int get(struct cluster *c)
{
	const char *args[] = { "GET", "x" };

	return redis_command(c->redis, 2, args, NULL, on_answer, c);
}

static void command__answered_moved_takes_the_connection_along(void **state)
{
	struct cluster *c = *state;

	connect_it(c);
	RUN_UNTIL(c, serves_at(c, &c->a));
	set_moved(c->a.get, &c->b);
	for (int i = 0; i < 3; i++)
		assert_int_equal(get(c), 0);
	RUN_UNTIL(c, serves_at(c, &c->b));

	/* Each was answered, and nothing more went where nothing is any more. */
	assert_int_equal(c->n_answers, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(c->results[i], 0);
		assert_int_equal(strncmp(c->answers[i], "MOVED 16027 ", 12), 0);
	}
	assert_int_equal(c->sent_inside, -EAGAIN);
	assert_int_equal(c->a.n_gets, 3);
	assert_int_equal(c->n_up, 2);
	assert_int_equal(c->n_down, 1);
	assert_int_equal(get(c), 0);
	RUN_UNTIL(c, c->n_answers == 4);
	assert_int_equal(c->b.n_gets, 1);
}

static void command__moved_to_no_address_has_it_asked_for(void **state)
{
	struct cluster *c = *state;

	connect_it(c);
	RUN_UNTIL(c, serves_at(c, &c->a));
	snprintf(c->a.get, sizeof(c->a.get), "-MOVED 16027 ?:99999\r\n");
	set_owner(&c->a, &c->b);
	set_owner(&c->b, &c->b);
	assert_int_equal(get(c), 0);
	RUN_UNTIL(c, serves_at(c, &c->b));
}

static void command__of_another_slot_moves_nothing(void **state)
{
	struct cluster *c = *state;

	connect_it(c);
	RUN_UNTIL(c, serves_at(c, &c->a));
	snprintf(c->a.get, sizeof(c->a.get), "-MOVED 1 127.0.0.1:%u\r\n", c->b.port);
	assert_int_equal(get(c), 0);
	RUN_UNTIL(c, c->n_answers);
	assert_true(serves_at(c, &c->a));
	assert_int_equal(c->n_down, 0);
}

static void command__where_the_cluster_is_down_looks_for_another_node(void **state)
{
	struct cluster *c = *state;

	connect_it(c);
	RUN_UNTIL(c, serves_at(c, &c->a));
	snprintf(c->a.get, sizeof(c->a.get), "-CLUSTERDOWN The cluster is down\r\n");
	snprintf(c->a.eval, sizeof(c->a.eval), "-CLUSTERDOWN The cluster is down\r\n");
	set_owner(&c->b, &c->b);
	assert_int_equal(get(c), 0);
	RUN_UNTIL(c, serves_at(c, &c->b));
	assert_int_equal(c->n_down, 1);
}

/* Each sends us to the other, for as long as one asks. */
static void nodes__that_send_us_to_and_fro_do_so_at_our_pace(void **state)
{
	struct cluster *c = *state;
	uint64_t end;

	set_moved(c->a.eval, &c->b);
	set_moved(c->b.eval, &c->a);
	connect_it(c);
	RUN_UNTIL(c, c->a.n_infos && c->b.n_infos);
	end = sl_clock_ns() + SL_NS_PER_S;
	while (sl_clock_ns() < end)
		turn(c);
	/* One at once, then one in a quarter of a second at the soonest. */
	assert_in_range(c->a.n_infos + c->b.n_infos, 2, 8);
	assert_int_equal(c->n_up, 0);
	c->b.eval[0] = '\0';
	RUN_UNTIL(c, serves_at(c, &c->b));
}

static void slots__that_make_no_sense_are_asked_of_another(void **state)
{
	struct cluster *c = *state;

	snprintf(c->a.slots, sizeof(c->a.slots), "*1\r\n*3\r\n:0\r\n:99999\r\n$1\r\nx\r\n");
	set_owner(&c->b, &c->b);
	connect_it(c);
	RUN_UNTIL(c, serves_at(c, &c->b));
}

/* ---- calls of the store ---- */

static void on_done(void *arg, int result)
{
	struct cluster *c = arg;

	c->result = result;
	c->done = true;
}

static void call_store(struct cluster *c, struct store *store)
{
	struct store_lease lease = { .agent = "a", .id = 1, .secret_hash = "s" };

	c->done = false;
	store_leave(store, "test", &lease, on_done, c);
}

static struct store *create_store(struct cluster *c, struct store_hub **hub)
{
	struct store_config config = STORE_CONFIG_INIT;
	struct store *store;
	char text[128];

	format_url(c, text);
	config.url = text;
	config.timeout_ms = 30000;
	config.reap_ms = 3600000; /* nobody else asks */
	assert_int_equal(store_hub_create(&config, hub), 0);
	assert_int_equal(store_create(*hub, c->loop, &store), 0);
	RUN_UNTIL(c, !store_trouble(store));
	return store;
}

static void call__waits_while_the_slot_is_on_its_way(void **state)
{
	struct cluster *c = *state;
	struct store_hub *hub;
	struct store *store = create_store(c, &hub);

	c->a.n_asks = 3;
	call_store(c, store);
	RUN_UNTIL(c, c->done);
	assert_int_equal(c->result, STORE_OK);
	assert_int_equal(c->a.n_gets, 4);
	store_destroy(store);
	store_hub_destroy(hub);
}

static void call__follows_the_slot(void **state)
{
	struct cluster *c = *state;
	struct store_hub *hub;
	struct store *store = create_store(c, &hub);

	set_moved(c->a.get, &c->b);
	call_store(c, store);
	RUN_UNTIL(c, c->done);
	assert_int_equal(c->result, STORE_OK);
	assert_int_equal(c->a.n_gets, 1);
	assert_int_equal(c->b.n_gets, 1);
	store_destroy(store);
	store_hub_destroy(hub);
}

static void call__of_a_slot_that_never_arrives_was_not_executed(void **state)
{
	struct cluster *c = *state;
	struct store_hub *hub;
	struct store *store = create_store(c, &hub);

	c->a.n_asks = 1000000;
	call_store(c, store);
	RUN_UNTIL(c, c->done);
	assert_int_equal(c->result, -EAGAIN);
	store_destroy(store);
	store_hub_destroy(hub);
}

static void call__that_waits_ends_with_the_store(void **state)
{
	struct cluster *c = *state;
	struct store_hub *hub;
	struct store *store = create_store(c, &hub);

	c->a.n_asks = 1000000;
	call_store(c, store);
	RUN_UNTIL(c, c->a.n_gets == 2);
	store_destroy(store);
	assert_true(c->done);
	assert_true(c->result < 0);
	store_hub_destroy(hub);
}

/* ---- lists, of which a batch goes on from a place that means nothing to another node ---- */

static void on_offers(void *arg, int result, const struct store_cursor *cursor,
		      const struct store_offer *offers, size_t n)
{
	(void)cursor;
	(void)offers;
	(void)n;
	on_done(arg, result);
}

static void on_page(void *arg, int result, const struct store_page *page)
{
	(void)page;
	on_done(arg, result);
}

static void list_offers(struct cluster *c, struct store *store)
{
	struct store_lease lease = { .agent = "a", .id = 1, .secret_hash = "s" };

	store_list_offers(store, "test", &lease, on_offers, c);
}

static void list_regions(struct cluster *c, struct store *store)
{
	store_list_of(store, "test", "b", STORE_REGION, on_page, c);
}

#ifdef NANOCTRL_COMPAT
static void on_peers(void *arg, int result, const struct store_peer_list *found)
{
	if (result || !found->more)
		on_done(arg, result);
}

static void list_peers(struct cluster *c, struct store *store)
{
	store_list_peers(store, (struct store_text){ "", 0 }, on_peers, c);
}
#endif

/* Batches of nothing. */
#define OFFERS "*5\r\n:0\r\n:5\r\n:9\r\n*0\r\n"
#define PAGE   "*9\r\n:0\r\n:5\r\n:9\r\n:1\r\n$0\r\n\r\n:0\r\n*0\r\n*0\r\n"
#define PEERS  "*5\r\n:0\r\n*0\r\n:0\r\n"
#define PLACE  "$1\r\n7\r\n"

static const struct list {
	void (*start)(struct cluster *c, struct store *store);
	const char *some, *last;
} lists[] = {
	{ list_offers, OFFERS PLACE, OFFERS "$0\r\n\r\n" },
	{ list_regions, PAGE "*3\r\n$1\r\nb\r\n$1\r\n3\r\n" PLACE, PAGE "*0\r\n" },
#ifdef NANOCTRL_COMPAT
	{ list_peers, PEERS PLACE "*0\r\n", PEERS "$0\r\n\r\n*0\r\n" },
#endif
};

/* a has a batch and not the last one, which b has. leaves: a call before it is told so, and what
 * comes behind has its first batch still; else the second one is. */
static int list_while_it_moves(struct cluster *c, const struct list *l, bool leaves)
{
	struct store_hub *hub;
	struct store *store = create_store(c, &hub);
	struct cluster other = { .done = false };

	c->a.n_gets = 0;
	c->b.n_gets = 0;
	snprintf(c->b.get, sizeof(c->b.get), "%s", l->last);
	if (leaves) {
		set_moved(c->a.once, &c->b);
		snprintf(c->a.get, sizeof(c->a.get), "%s", l->some);
		call_store(&other, store);
	} else {
		snprintf(c->a.once, sizeof(c->a.once), "%s", l->some);
		set_moved(c->a.get, &c->b);
	}
	c->done = false;
	l->start(c, store);
	RUN_UNTIL(c, c->done);
	store_destroy(store);
	store_hub_destroy(hub);
	return c->result;
}

static void list__whose_second_batch_is_elsewhere_is_refused(void **state)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		struct cluster *c = *state;

		assert_int_equal(list_while_it_moves(c, &lists[i], false), -EAGAIN);
		assert_int_equal(c->a.n_gets, 2);
		assert_int_equal(c->b.n_gets, 0);
		teardown(state);
		setup(state);
	}
}

/* The second batch is not even sent. */
static void list__whose_connection_leaves_behind_a_batch_is_refused(void **state)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		struct cluster *c = *state;

		assert_int_equal(list_while_it_moves(c, &lists[i], true), -EAGAIN);
		assert_int_equal(c->a.n_gets, 2);
		teardown(state);
		setup(state);
	}
}

/* Nothing was read yet. */
static void list__whose_first_batch_is_elsewhere_follows_the_slot(void **state)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		struct cluster *c = *state;
		struct store_hub *hub;
		struct store *store = create_store(c, &hub);

		set_moved(c->a.get, &c->b);
		snprintf(c->b.once, sizeof(c->b.once), "%s", lists[i].some);
		snprintf(c->b.get, sizeof(c->b.get), "%s", lists[i].last);
		c->done = false;
		lists[i].start(c, store);
		RUN_UNTIL(c, c->done);
		assert_int_equal(c->result, STORE_OK);
		assert_int_equal(c->b.n_gets, 2);
		store_destroy(store);
		store_hub_destroy(hub);
		teardown(state);
		setup(state);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(command__answered_moved_takes_the_connection_along),
		T(command__moved_to_no_address_has_it_asked_for),
		T(command__of_another_slot_moves_nothing),
		T(command__where_the_cluster_is_down_looks_for_another_node),
		T(nodes__that_send_us_to_and_fro_do_so_at_our_pace),
		T(slots__that_make_no_sense_are_asked_of_another),
		T(call__waits_while_the_slot_is_on_its_way),
		T(call__follows_the_slot),
		T(call__of_a_slot_that_never_arrives_was_not_executed),
		T(call__that_waits_ends_with_the_store),
		T(list__whose_second_batch_is_elsewhere_is_refused),
		T(list__whose_connection_leaves_behind_a_batch_is_refused),
		T(list__whose_first_batch_is_elsewhere_follows_the_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
