/* SPDX-License-Identifier: Apache-2.0 */
/* A listener: peers that have its descriptor dial it, over unix and tcp sockets, and get a link. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_MAX 8

/* b listens, a dials. */
struct stand {
	struct pair *p;
	struct slime_listener *listener;
	uint8_t desc[SLIME_LISTENER_DESC_MAX];
	size_t len;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct slime_endpoint *got[N_MAX]; /* by on_endpoint */
	unsigned n_got;
	int destroyed_inside; /* what the listener's destruction inside of on_endpoint gave */
};

static void on_endpoint(void *arg, struct slime_listener *listener, struct slime_endpoint *ep)
{
	struct stand *s = arg;

	pthread_mutex_lock(&s->lock);
	assert_true(s->n_got < N_MAX);
	s->destroyed_inside = slime_listener_destroy(listener);
	s->got[s->n_got++] = ep;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static struct slime_endpoint *await_endpoint(struct stand *s, unsigned i)
{
	struct slime_endpoint *ep;

	pthread_mutex_lock(&s->lock);
	while (s->n_got <= i)
		pthread_cond_wait(&s->changed, &s->lock);
	ep = s->got[i];
	pthread_mutex_unlock(&s->lock);
	return ep;
}

static struct slime_listener_attr listener_attr(struct stand *s)
{
	struct slime_listener_attr attr = SLIME_LISTENER_ATTR_INIT;

	attr.endpoint.transports[0] = fixture_transport;
	attr.on_endpoint = on_endpoint;
	attr.arg = s;
	return attr;
}

static void listen_with(struct stand *s, const struct slime_listener_attr *attr)
{
	int len;

	assert_ok(slime_listener_create(s->p->b.ctx, attr, &s->listener));
	len = slime_listener_export(s->listener, s->desc, sizeof(s->desc));
	assert_true(len > 0);
	s->len = (size_t)len;
}

static int setup_apart(void **state)
{
	struct stand *s = calloc(1, sizeof(*s));

	s->p = pair_create(NULL);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	*state = s;
	return 0;
}

static int setup(void **state)
{
	struct slime_listener_attr attr;
	struct stand *s;

	setup_apart(state);
	s = *state;
	attr = listener_attr(s);
	listen_with(s, &attr);
	end_create_endpoint(&s->p->a, &(struct pair_attr)PAIR_ATTR_INIT);
	return 0;
}

static void drop_endpoints(struct stand *s)
{
	for (unsigned i = 0; i < s->n_got; i++)
		assert_ok(slime_endpoint_destroy(s->got[i]));
	s->n_got = 0;
}

static int teardown(void **state)
{
	struct stand *s = *state;

	assert_ok(slime_listener_destroy(s->listener));
	drop_endpoints(s);
	pair_close(s->p);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return 0;
}

static int dial(struct stand *s)
{
	return slime_endpoint_dial(s->p->a.ep, s->desc, s->len, -1, s->p->a.op);
}

static void dial_ok(struct stand *s)
{
	assert_ok(dial(s));
	op_end_ok(s->p->a.op);
}

static void renew_a(struct stand *s)
{
	assert_ok(slime_endpoint_destroy(s->p->a.ep));
	end_create_endpoint(&s->p->a, &(struct pair_attr)PAIR_ATTR_INIT);
}

static void dial__makes_a_link_that_moves_bytes(void **state)
{
	struct stand *s = *state;
	struct slime_endpoint_info a, b;
	struct slime_xfer x = a_and_b(s->p, 0, 0, KiB);
	struct slime_endpoint *ep;

	dial_ok(s);
	ep = await_endpoint(s, 0);
	slime_endpoint_info(s->p->a.ep, &a);
	slime_endpoint_info(ep, &b);
	assert_int_equal(a.state, SLIME_ENDPOINT_CONNECTED);
	assert_int_equal(b.state, SLIME_ENDPOINT_CONNECTED);
	assert_int_equal(a.transport, fixture_transport);
	assert_int_equal(a.epoch, b.epoch);

	pattern_fill(s->p->b.bytes, KiB, 7, 0);
	assert_ok(read_now(s->p, &x));
	assert_pattern(s->p->a.bytes, KiB, 7, 0);
	assert_int_equal(s->destroyed_inside, -EDEADLK);
}

static void dial__over_tcp_makes_a_link(void **state)
{
	struct stand *s = *state;
	struct slime_listener_attr attr = listener_attr(s);

	attr.unix_path = NULL;
	attr.tcp_bind = "127.0.0.1";
	listen_with(s, &attr);
	end_create_endpoint(&s->p->a, &(struct pair_attr)PAIR_ATTR_INIT);
	dial_ok(s);
	await_endpoint(s, 0);
}

/* As from another host: the unix socket is not there. */
static void dial__tries_the_next_address(void **state)
{
	char path[64] = "/tmp/slime-listener-XXXXXX", moved[80];
	struct stand *s = *state;
	struct slime_listener_attr attr = listener_attr(s);
	struct stat st;

	assert_non_null(mkdtemp(path));
	snprintf(moved, sizeof(moved), "%s/moved", path);
	strcat(path, "/socket");
	attr.unix_path = path;
	attr.tcp_bind = "127.0.0.1";
	listen_with(s, &attr);
	end_create_endpoint(&s->p->a, &(struct pair_attr)PAIR_ATTR_INIT);
	assert_ok(rename(path, moved));
	dial_ok(s);
	await_endpoint(s, 0);

	/* It is removed with the listener. */
	assert_ok(rename(moved, path));
	assert_ok(slime_listener_destroy(s->listener));
	s->listener = NULL;
	assert_int_equal(stat(path, &st), -1);
	*strrchr(path, '/') = '\0';
	assert_ok(rmdir(path));
}

static void dial__gives_each_dialer_an_endpoint_of_its_own(void **state)
{
	struct stand *s = *state;
	struct slime_endpoint *eps[N_MAX];

	assert_ok(slime_endpoint_destroy(s->p->a.ep));
	for (unsigned i = 0; i < N_MAX; i++) {
		end_create_endpoint(&s->p->a, &(struct pair_attr)PAIR_ATTR_INIT);
		dial_ok(s);
		eps[i] = s->p->a.ep;
		await_endpoint(s, i);
	}
	for (unsigned i = 0; i < N_MAX; i++) {
		struct slime_endpoint_info info;

		slime_endpoint_info(eps[i], &info);
		assert_int_equal(info.state, SLIME_ENDPOINT_CONNECTED);
	}
	for (unsigned i = 0; i + 1 < N_MAX; i++)
		assert_ok(slime_endpoint_destroy(eps[i]));
}

static void dial__with_another_key_is_refused(void **state)
{
	struct stand *s = *state;

	s->desc[20] ^= 1; /* of the key */
	assert_int_equal(dial(s), -EACCES);
	s->desc[20] ^= 1;
	/* The endpoint is still idle. */
	dial_ok(s);
	await_endpoint(s, 0);
}

static void dial__to_another_listener_of_the_address_is_refused(void **state)
{
	struct stand *s = *state;

	s->desc[8] ^= 2; /* of the listener's id */
	assert_int_equal(dial(s), -ECONNREFUSED);
}

static void dial__to_a_listener_that_is_gone_is_refused(void **state)
{
	struct stand *s = *state;

	assert_ok(slime_listener_destroy(s->listener));
	s->listener = NULL;
	assert_int_equal(dial(s), -ECONNREFUSED);
}

static void dial__to_nonsense_is_refused(void **state)
{
	struct stand *s = *state;

	for (size_t n = 0; n < s->len; n++)
		assert_int_equal(slime_endpoint_dial(s->p->a.ep, s->desc, n, -1, s->p->a.op),
				 -EINVAL);
	s->desc[0] ^= 1;
	assert_int_equal(dial(s), -EINVAL);
}

static void dial__twice_is_refused(void **state)
{
	struct stand *s = *state;
	struct slime_op *op = op_new(s->p->a.ctx);

	dial_ok(s);
	await_endpoint(s, 0);
	assert_int_equal(slime_endpoint_dial(s->p->a.ep, s->desc, s->len, -1, op), -EALREADY);
	assert_int_equal(s->n_got, 1);
	assert_ok(slime_op_destroy(op));
}

static void dial__over_max_endpoints_is_refused_until_one_is_destroyed(void **state)
{
	struct stand *s = *state;
	struct slime_listener_attr attr = listener_attr(s);

	attr.max_endpoints = 1;
	listen_with(s, &attr);
	end_create_endpoint(&s->p->a, &(struct pair_attr)PAIR_ATTR_INIT);
	dial_ok(s);
	await_endpoint(s, 0);
	renew_a(s);
	assert_int_equal(dial(s), -ENOSPC);
	pthread_mutex_lock(&s->lock);
	drop_endpoints(s);
	pthread_mutex_unlock(&s->lock);
	dial_ok(s);
	await_endpoint(s, 0);
}

static void context_destroy__with_a_listener_is_busy(void **state)
{
	struct stand *s = *state;
	struct slime_listener_attr attr = listener_attr(s);
	struct slime_listener *listener;
	struct slime_context *ctx;

	assert_ok(slime_context_create(NULL, &ctx));
	attr.endpoint.transports[0] = SLIME_TRANSPORT_SHM;
	assert_ok(slime_listener_create(ctx, &attr, &listener));
	assert_int_equal(slime_context_destroy(ctx), -EBUSY);
	assert_ok(slime_listener_destroy(listener));
	assert_ok(slime_context_destroy(ctx));
}

static void create__refuses_what_it_cannot_do(void **state)
{
	struct stand *s = *state;
	struct slime_listener_attr attr = listener_attr(s);
	struct slime_listener *l;
	char path[200];

	attr.on_endpoint = NULL;
	assert_int_equal(slime_listener_create(s->p->b.ctx, &attr, &l), -EINVAL);
	attr = listener_attr(s);
	attr.unix_path = NULL;
	assert_int_equal(slime_listener_create(s->p->b.ctx, &attr, &l), -EINVAL);
	attr.tcp_bind = "localhost";
	assert_int_equal(slime_listener_create(s->p->b.ctx, &attr, &l), -EINVAL);
	attr.tcp_bind = "0.0.0.0";
	assert_int_equal(slime_listener_create(s->p->b.ctx, &attr, &l), -EINVAL);
	attr = listener_attr(s);
	attr.max_endpoints = 0;
	assert_int_equal(slime_listener_create(s->p->b.ctx, &attr, &l), -EINVAL);
	attr = listener_attr(s);
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	attr.unix_path = path;
	assert_int_equal(slime_listener_create(s->p->b.ctx, &attr, &l), -ENAMETOOLONG);
	attr = listener_attr(s);
	attr.endpoint.max_pending_ops = 0;
	assert_int_equal(slime_listener_create(s->p->b.ctx, &attr, &l), -EINVAL);
	end_create_endpoint(&s->p->a, &(struct pair_attr)PAIR_ATTR_INIT);
}

static void export__is_always_the_same(void **state)
{
	struct stand *s = *state;
	uint8_t again[SLIME_LISTENER_DESC_MAX];

	assert_int_equal(slime_listener_export(s->listener, again, sizeof(again)), s->len);
	assert_memory_equal(again, s->desc, s->len);
	assert_int_equal(slime_listener_export(s->listener, again, s->len - 1), -ENOSPC);
}

#define LISTENING(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define APART(fn)     cmocka_unit_test_setup_teardown(fn, setup_apart, teardown)

static const struct CMUnitTest tests[] = {
	LISTENING(dial__makes_a_link_that_moves_bytes),
	APART(dial__over_tcp_makes_a_link),
	APART(dial__tries_the_next_address),
	LISTENING(dial__gives_each_dialer_an_endpoint_of_its_own),
	LISTENING(dial__with_another_key_is_refused),
	LISTENING(dial__to_another_listener_of_the_address_is_refused),
	LISTENING(dial__to_a_listener_that_is_gone_is_refused),
	LISTENING(dial__to_nonsense_is_refused),
	LISTENING(dial__twice_is_refused),
	APART(dial__over_max_endpoints_is_refused_until_one_is_destroyed),
	LISTENING(context_destroy__with_a_listener_is_busy),
	APART(create__refuses_what_it_cannot_do),
	LISTENING(export__is_always_the_same),
};

FIXTURE_MAIN("listener")
