/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "pages/src/pull.h"
#include "pages/src/tenant.h"

struct slime_pages_owner {
	struct slime_agent *agent;
	struct pulls *pulls;
	_Atomic bool stopping;
	size_t n_methods; /* that were added */
	size_t n_tenants;
	struct tenant *tenants;
};

static void refuse(struct slime_rpc_request *req, int err, const char *message)
{
	slime_rpc_reply_error(req, (uint32_t)-err, message);
}

/* ---- the senders of requests ---- */

/* In constant time: it is a secret. */
static bool has_right(const struct tenant *t, const uint8_t *right)
{
	unsigned differ = 0;

	for (int i = 0; i < PAGES_RIGHT_LEN; i++)
		differ |= t->right[i] ^ right[i];
	return differ == 0;
}

static struct tenant *find_tenant(struct slime_pages_owner *o, const void *name, size_t len)
{
	for (size_t i = 0; i < o->n_tenants; i++)
		if (strlen(o->tenants[i].name) == len && !memcmp(o->tenants[i].name, name, len))
			return &o->tenants[i];
	return NULL;
}

struct question {
	struct slime_rpc_request *req;
	struct tenant *tenant;
	struct pages_head head;
	struct sl_reader r; /* behind the head */
};

/* false: it is answered. */
static bool read_question(struct slime_pages_owner *o, struct slime_rpc_request *req,
			  struct question *q)
{
	q->req = req;
	q->r = (struct sl_reader){ .at = slime_rpc_request_data(req),
				   .left = slime_rpc_request_len(req) };
	if (atomic_load(&o->stopping)) {
		refuse(req, -ESHUTDOWN, "the owner stops");
		return false;
	}
	if (pages_head_read(&q->r, &q->head)) {
		refuse(req, -EINVAL, "malformed request");
		return false;
	}
	q->tenant = find_tenant(o, q->head.tenant, q->head.tenant_len);
	if (!q->tenant || !has_right(q->tenant, q->head.right)) {
		refuse(req, -EACCES, "no such tenant, or no right to it");
		return false;
	}
	return true;
}

/* Room for the reply; NULL: it is refused. */
static uint8_t *room(struct question *q, size_t len)
{
	uint8_t *reply = slime_rpc_reply_buffer(q->req, len);

	if (!reply && len)
		refuse(q->req, -ENOBUFS, "the reply does not fit");
	return reply;
}

static bool is_key(const struct pages_key *key)
{
	return key->len && key->len <= PAGE_KEY_MAX;
}

/* ---- look-ups: on the thread that makes progress ---- */

/* The work for each key of a request; the lock is held. Returns false when it is malformed. */
typedef void key_fn(struct page_store *store, const struct pages_key *key, uint32_t i, void *to);

static bool each_key_locked(struct question *q, key_fn *fn, void *to)
{
	struct page_store *store = q->tenant->store;
	struct pages_key key;
	bool ok = true;

	page_store_lock(store);
	for (uint32_t i = 0; i < q->head.n && ok; i++) {
		ok = pages_key_read(&q->r, &key);
		if (ok)
			fn(store, &key, i, to);
	}
	page_store_unlock(store);
	return ok && !q->r.left;
}

static void find_place(struct page_store *store, const struct pages_key *key, uint32_t i, void *to)
{
	struct pages_found found = { .status = -ENOENT };

	if (!is_key(key))
		found.status = -EINVAL;
	else if (page_store_find_locked(store, key->at, key->len, true, &found.place))
		found.status = 0;
	pages_found_write((uint8_t *)to + 8 + (size_t)i * PAGES_PLACE_LEN, &found);
}

static void on_lookup(void *arg, struct slime_rpc_request *req)
{
	struct question q;
	uint8_t *reply;
	size_t len;

	if (!read_question(arg, req, &q))
		return;
	len = 8 + (size_t)q.head.n * PAGES_PLACE_LEN;
	reply = room(&q, len);
	if (!reply)
		return;
	sl_put_le64(reply, page_store_seed(q.tenant->store));
	if (each_key_locked(&q, find_place, reply))
		slime_rpc_reply_commit(req, len);
	else
		refuse(req, -EINVAL, "malformed keys");
}

static void find_bit(struct page_store *store, const struct pages_key *key, uint32_t i, void *to)
{
	struct page_place place;

	if (is_key(key) && page_store_find_locked(store, key->at, key->len, false, &place))
		((uint8_t *)to)[i / 8] |= (uint8_t)(1 << i % 8);
}

static void on_exists(void *arg, struct slime_rpc_request *req)
{
	struct question q;
	uint8_t *reply;
	size_t len;

	if (!read_question(arg, req, &q))
		return;
	len = (q.head.n + 7) / 8;
	reply = room(&q, len);
	if (!reply && len)
		return;
	if (len)
		memset(reply, 0, len);
	if (each_key_locked(&q, find_bit, reply))
		slime_rpc_reply_commit(req, len);
	else
		refuse(req, -EINVAL, "malformed keys");
}

static void touch(struct page_store *store, const struct pages_key *key, uint32_t i, void *to)
{
	struct page_place place;

	(void)i;
	(void)to;
	if (is_key(key))
		(void)page_store_find_locked(store, key->at, key->len, true, &place);
}

static void on_touch(void *arg, struct slime_rpc_request *req)
{
	struct question q;

	if (!read_question(arg, req, &q))
		return;
	(void)each_key_locked(&q, touch, NULL);
	slime_rpc_reply(req, NULL, 0);
}

/* ---- changes: on a worker ---- */

typedef int change_fn(struct page_store *store, const struct pages_key *key, uint64_t deadline_ns);

static void change_each(struct question *q, change_fn *fn, uint64_t deadline_ns)
{
	size_t len = q->head.n * sizeof(uint32_t);
	uint8_t *reply = room(q, len);
	struct pages_key key;

	if (!reply && len)
		return;
	for (uint32_t i = 0; i < q->head.n; i++) {
		int status;

		if (!pages_key_read(&q->r, &key)) {
			refuse(q->req, -EINVAL, "malformed keys");
			return;
		}
		status = is_key(&key) ? fn(q->tenant->store, &key, deadline_ns) : -EINVAL;
		sl_put_le32(reply + i * sizeof(uint32_t), (uint32_t)status);
	}
	slime_rpc_reply_commit(q->req, len);
}

static int delete_key(struct page_store *store, const struct pages_key *key, uint64_t deadline_ns)
{
	(void)deadline_ns;
	return page_store_delete(store, key->at, key->len);
}

static int unpin_key(struct page_store *store, const struct pages_key *key, uint64_t deadline_ns)
{
	(void)deadline_ns;
	return page_store_unpin(store, key->at, key->len);
}

static int pin_key(struct page_store *store, const struct pages_key *key, uint64_t deadline_ns)
{
	return page_store_pin(store, key->at, key->len, deadline_ns);
}

static void on_delete(void *arg, struct slime_rpc_request *req)
{
	struct question q;

	if (read_question(arg, req, &q))
		change_each(&q, delete_key, 0);
}

static void on_unpin(void *arg, struct slime_rpc_request *req)
{
	struct question q;

	if (read_question(arg, req, &q))
		change_each(&q, unpin_key, 0);
}

static void on_pin(void *arg, struct slime_rpc_request *req)
{
	struct question q;
	uint32_t hold_ms;

	if (!read_question(arg, req, &q))
		return;
	hold_ms = sl_read_u32(&q.r);
	change_each(&q, pin_key, sl_clock_ns() + hold_ms * SL_NS_PER_MS);
}

static void on_clear(void *arg, struct slime_rpc_request *req)
{
	struct question q;
	uint8_t reply[8];

	if (!read_question(arg, req, &q))
		return;
	sl_put_le64(reply, page_store_clear(q.tenant->store));
	slime_rpc_reply(req, reply, sizeof(reply));
}

static struct slime_pages_stat stat_of(const struct tenant *t)
{
	struct page_store_stat s;

	page_store_stat(t->store, &s);
	return (struct slime_pages_stat){
		.size = s.size,
		.used = s.used,
		.bytes = s.bytes,
		.pages = s.pages,
		.pinned = s.pinned,
		.filling = s.filling,
		.found = s.found,
		.missed = s.missed,
		.put = s.put,
		.refused = s.refused,
		.evicted = s.gone[PAGE_GONE_EVICTED],
		.evicted_slab = s.gone[PAGE_GONE_SLAB],
		.deleted = s.gone[PAGE_GONE_DELETED],
		.replaced = s.gone[PAGE_GONE_REPLACED],
		.owners = 1,
	};
}

static void on_stat(void *arg, struct slime_rpc_request *req)
{
	struct slime_pages_stat stat;
	uint8_t reply[PAGES_STAT_LEN];
	struct question q;

	if (!read_question(arg, req, &q))
		return;
	stat = stat_of(q.tenant);
	pages_stat_write(reply, &stat);
	slime_rpc_reply(req, reply, sizeof(reply));
}

static void on_put(void *arg, struct slime_rpc_request *req)
{
	struct slime_pages_owner *o = arg;
	struct question q;

	if (read_question(o, req, &q))
		pulls_begin(o->pulls, q.tenant, req, &q.head, &q.r);
}

/* ---- life ---- */

static const struct {
	const char *name;
	slime_rpc_fn *fn;
	uint32_t flags;
} methods[] = {
	{ PAGES_LOOKUP, on_lookup, SLIME_RPC_INLINE },
	{ PAGES_EXISTS, on_exists, SLIME_RPC_INLINE },
	{ PAGES_TOUCH, on_touch, SLIME_RPC_INLINE },
	{ PAGES_PUT, on_put, SLIME_RPC_INLINE },
	{ PAGES_DELETE, on_delete, 0 },
	{ PAGES_PIN, on_pin, 0 },
	{ PAGES_UNPIN, on_unpin, 0 },
	{ PAGES_CLEAR, on_clear, 0 },
	{ PAGES_STAT, on_stat, SLIME_RPC_INLINE },
};

#define N_METHODS (sizeof(methods) / sizeof(methods[0]))

static int add_methods(struct slime_pages_owner *o)
{
	int ret;

	for (; o->n_methods < N_METHODS; o->n_methods++) {
		struct slime_rpc_method_attr attr = {
			.fn = methods[o->n_methods].fn,
			.arg = o,
			.flags = methods[o->n_methods].flags,
			.max_message = PAGES_REQUEST_MAX,
		};

		ret = slime_agent_method_add(o->agent, methods[o->n_methods].name, &attr);
		if (ret)
			return ret;
	}
	ret = slime_agent_service_add(o->agent, SLIME_PAGES_SERVICE);
	/* peeragent announces its plugins by itself. */
	return ret == -EEXIST ? 0 : ret;
}

/* An agent that was started keeps them, and has closed its links. */
static void remove_methods(struct slime_pages_owner *o)
{
	while (o->n_methods)
		(void)slime_agent_method_remove(o->agent, methods[--o->n_methods].name);
}

static int make_tenants(struct slime_pages_owner *o, const struct slime_pages_owner_attr *attr)
{
	int ret = 0;

	o->tenants = calloc(attr->n_tenants, sizeof(*o->tenants));
	if (!o->tenants)
		return -ENOMEM;
	for (size_t i = 0; i < attr->n_tenants && !ret; i++) {
		const char *name = attr->tenants[i].name;

		if (!name)
			name = PAGES_DEFAULT_TENANT;
		if (find_tenant(o, name, strlen(name)))
			return -EEXIST;
		o->n_tenants++;
		ret = tenant_init(&o->tenants[i], slime_agent_context(o->agent), &attr->tenants[i],
				  attr);
	}
	return ret;
}

void slime_pages_owner_attr_init(struct slime_pages_owner_attr *attr)
{
	*attr = (struct slime_pages_owner_attr)SLIME_PAGES_OWNER_ATTR_INIT;
}

int slime_pages_owner_create(struct slime_agent *agent, const struct slime_pages_owner_attr *attr,
			     struct slime_pages_owner **out)
{
	struct slime_pages_owner *o;
	int ret;

	if (!attr->n_tenants)
		return -EINVAL;
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	o->agent = agent;
	ret = make_tenants(o, attr);
	if (!ret)
		ret = pulls_create(agent, &o->pulls);
	if (!ret)
		ret = add_methods(o);
	if (ret) {
		(void)slime_pages_owner_destroy(o);
		return ret;
	}
	*out = o;
	return 0;
}

int slime_pages_owner_start(struct slime_pages_owner *o)
{
	int ret = 0;

	for (size_t i = 0; i < o->n_tenants && !ret; i++)
		ret = tenant_offer(&o->tenants[i], o->agent);
	return ret;
}

void slime_pages_owner_stop(struct slime_pages_owner *o)
{
	atomic_store(&o->stopping, true);
	for (size_t i = 0; i < o->n_tenants; i++)
		tenant_withdraw(&o->tenants[i], o->agent);
	if (o->pulls)
		pulls_stop(o->pulls);
}

int slime_pages_owner_destroy(struct slime_pages_owner *o)
{
	int ret = 0;

	if (!o)
		return 0;
	slime_pages_owner_stop(o);
	if (o->pulls)
		pulls_end(o->pulls);
	while (o->n_tenants && !ret) {
		ret = tenant_fini(&o->tenants[o->n_tenants - 1]);
		if (!ret)
			o->n_tenants--;
	}
	if (ret)
		return ret;
	pulls_destroy(o->pulls);
	remove_methods(o);
	free(o->tenants);
	free(o);
	return 0;
}

int slime_pages_owner_stat(struct slime_pages_owner *o, const char *tenant,
			   struct slime_pages_stat *out)
{
	const char *name = tenant ? tenant : PAGES_DEFAULT_TENANT;
	struct tenant *t = find_tenant(o, name, strlen(name));

	if (!t)
		return -ENOENT;
	*out = stat_of(t);
	return 0;
}

const char *slime_pages_owner_tenant(const struct slime_pages_owner *o, size_t i)
{
	return i < o->n_tenants ? o->tenants[i].name : NULL;
}
