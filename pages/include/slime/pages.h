/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of pages: immutable bytes under a key, in registered memory of agents, read one-sided.
 * It is a cache: what is put may be gone at any time, and is gone when its owner dies. It never
 * returns bytes of another page: what a reader cannot prove to be the page is a miss.
 *
 * An owner is an agent with memory for pages. It offers the service "pages"; readers find owners by
 * it, and each key has its owner by rendezvous hashing over those that are there. Only the owner
 * writes to pages: a put asks the owner to read them from the writer's memory. A get asks the owner
 * where pages are, once in dir_cache_ttl, and reads them without it.
 *
 *	struct slime_pages_attr attr = SLIME_PAGES_ATTR_INIT;
 *
 *	slime_pages_create(agent, &attr, &pages);	the agent was started
 *	slime_pages_wait_ready(pages, 1, 5000);
 *	slime_pages_request_create(pages, NULL, &req);
 *	buf = (struct slime_pages_buf){ .mr = mr, .len = sizeof(page) };
 *	item = (struct slime_pages_item){ .key = "k", .key_len = 1, .bufs = &buf, .n_bufs = 1 };
 *	slime_pages_get(req, &item, 1);
 *	slime_pages_wait(req, 1000);
 *	item.status == 0: item.len bytes are there
 *
 * Threads: any thread may use an object of these, one request at a time belongs to one thread.
 * Functions that wait may not be called inside callbacks.
 */
#ifndef SLIME_PAGES_H
#define SLIME_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slime/agent.h>

SLIME_BEGIN_DECLS

#define SLIME_PAGES_SERVICE "pages"

#define SLIME_PAGES_KEY_MAX	1024 /* bytes of a key */
#define SLIME_PAGES_CLASSES_MAX 16
#define SLIME_PAGES_TENANT_MAX	128 /* bytes of a tenant's name, as of agents */

/* ---- owners ---- */

struct slime_pages_owner;

/* Pages of their own memory, with a quota and a right of their own. */
struct slime_pages_tenant {
	const char *name;	  /* NULL: "default" */
	uint64_t size;		  /* bytes of memory, which is its quota */
	const char *const *allow; /* the agents that may use it, as of struct slime_agent_region */
	size_t n_allow;
};

struct slime_pages_owner_attr {
	const struct slime_pages_tenant *tenants;
	size_t n_tenants;
	const uint32_t *classes; /* lengths of pages, ascending; a page takes the smallest that
				    holds it. NULL: 4 KiB, doubled up to 4 MiB */
	size_t n_classes;
	enum slime_huge_pages huge;
	int numa_node;
	unsigned high_percent;	      /* of the memory: a commit above it evicts */
	unsigned low_percent;	      /* down to this */
	bool (*cancelled)(void *arg); /* as of struct slime_mem_attr, while memory is allocated */
	void *arg;
};

#define SLIME_PAGES_OWNER_ATTR_INIT                                                 \
	{                                                                           \
		.numa_node = SLIME_NUMA_ANY, .high_percent = 98, .low_percent = 95, \
	}
SLIME_API void slime_pages_owner_attr_init(struct slime_pages_owner_attr *attr);

/*
 * Create an owner: allocate the memory of each tenant, and add the methods and the service "pages"
 * to an agent that was not started. attr is copied.
 *   -EINVAL  no tenant, a name or a length is malformed, or a tenant's memory does not hold 2 MiB,
 *            or its largest page, for each class
 *   -EEXIST  two tenants have one name, or the agent has such methods
 *   -EBUSY   the agent was started
 *   and what slime_mem_alloc() says
 */
SLIME_API SLIME_CHECKED int slime_pages_owner_create(struct slime_agent *agent,
						     const struct slime_pages_owner_attr *attr,
						     struct slime_pages_owner **out);

/* Offer the memory, when the agent is ready. Results as of slime_agent_region_offer(). */
SLIME_API SLIME_CHECKED int slime_pages_owner_start(struct slime_pages_owner *owner);

/* Refuse requests from here on, end pending ones. Call it before the agent is stopped. */
SLIME_API void slime_pages_owner_stop(struct slime_pages_owner *owner);

/* Free everything: after the agent's links are closed, or before it is started, which removes its
 * methods. Errors as of slime_mr_destroy(); then only the stop happened. destroy(NULL) is
 * 0. */
SLIME_API int slime_pages_owner_destroy(struct slime_pages_owner *owner);

/* What a tenant has and did. */
struct slime_pages_stat {
	uint64_t size;	/* bytes that pages can have */
	uint64_t used;	/* bytes of pages that are taken */
	uint64_t bytes; /* in use in them */
	uint64_t pages;
	uint64_t pinned;
	uint64_t filling; /* pages that are being read from their writers */
	uint64_t found;	  /* look-ups of keys */
	uint64_t missed;
	uint64_t put;
	uint64_t refused; /* for want of room */
	uint64_t evicted;
	uint64_t evicted_slab; /* because pages of another length needed the room */
	uint64_t deleted;
	uint64_t replaced;
	uint64_t owners; /* whose figures these are */
};

/* tenant NULL: "default". -ENOENT. */
SLIME_API int slime_pages_owner_stat(struct slime_pages_owner *owner, const char *tenant,
				     struct slime_pages_stat *out);

/* The name of the tenant number i, from 0; NULL behind the last. */
SLIME_API const char *slime_pages_owner_tenant(const struct slime_pages_owner *owner, size_t i);

/* ---- readers and writers ---- */

struct slime_pages;
struct slime_pages_request;

enum slime_pages_verify {
	SLIME_PAGES_VERIFY_ALWAYS, /* each page's checksum */
	SLIME_PAGES_VERIFY_SAMPLE, /* of one page in 16; each header is read again after the bytes
				    */
	SLIME_PAGES_VERIFY_NEVER,  /* each header is read again after the bytes */
};

struct slime_pages_attr {
	const char *tenant; /* NULL: "default" */
	enum slime_pages_verify verify;
	uint32_t dir_cache_ttl_ms;  /* for so long a place that was looked up is used; 0: once */
	uint32_t dir_cache_entries; /* places that are kept */
	uint32_t replicas;	    /* owners that get each page; reads go to the nearest */
	const char *const *owners;  /* names of agents; NULL: those that offer the service */
	size_t n_owners;
	uint32_t refresh_ms; /* how often owners are looked for */
	uint32_t timeout_ms; /* of a question to an owner; one that does not answer for so long, and
				for 2 s, loses its link, which ends what it was asked */
};

#define SLIME_PAGES_ATTR_INIT                                                        \
	{                                                                            \
		.dir_cache_ttl_ms = 1000, .dir_cache_entries = 65536, .replicas = 1, \
		.refresh_ms = 1000, .timeout_ms = 5000                               \
	}
SLIME_API void slime_pages_attr_init(struct slime_pages_attr *attr);

/*
 * Read and write pages through an agent that was started. One thread of it keeps links to the
 * owners. attr NULL: the defaults. -EINVAL, -ENOMEM, and what pthread_create(3) says
 */
SLIME_API SLIME_CHECKED int slime_pages_create(struct slime_agent *agent,
					       const struct slime_pages_attr *attr,
					       struct slime_pages **out);

/* Wait until n owners can be reached. -ETIMEDOUT; -EACCES: so many cannot be, since those that are
 * left do not let this agent use the tenant. */
SLIME_API SLIME_CHECKED int slime_pages_wait_ready(struct slime_pages *pages, unsigned n,
						   int64_t timeout_ms);

/* An owner, as a reader knows it. */
struct slime_pages_owner_info {
	char name[SLIME_AGENT_NAME_MAX + 1];
	int error;			/* 0: it can be reached
					 *   -EACCES  it does not let this agent use the tenant
					 *   -ENOENT  it has no such tenant
					 *   else what reaching it said last */
	enum slime_transport transport; /* of the link, when it can be reached */
	uint64_t size;			/* bytes of the tenant's region, then */
};

/*
 * The owners that are known, the first n of them into owners: those that can be reached come first.
 * With a key they are in the order in which they are to have it: the page is put at the first, or
 * at as many as there are replicas. key NULL: in the order of names. Returns how many there are.
 */
SLIME_API size_t slime_pages_owners(struct slime_pages *pages, const void *key, size_t key_len,
				    struct slime_pages_owner_info *owners, size_t n);

/* Requests must have been destroyed: -EBUSY otherwise. destroy(NULL) is 0. */
SLIME_API int slime_pages_destroy(struct slime_pages *pages);

/* Bytes of this process, part of a region in the agent's context. */
struct slime_pages_buf {
	struct slime_mr *mr;
	uint64_t offset;
	uint64_t len;
};

struct slime_pages_item {
	const void *key;
	size_t key_len;
	const struct slime_pages_buf *bufs; /* of get and put: where the page goes, or is, in this
					       order */
	uint32_t n_bufs;		    /* at most 16 */
	uint32_t len;			    /* of get: out, the bytes of the page */
	int status;			    /* out: 0, or
					     *   -ENOENT    no such page, or its owner is dead, or the bytes that came were
					     *              not the page's twice
					     *   -EEXIST    put: the key is there
					     *   -EMSGSIZE  get: the page is longer than bufs; put: than the largest class
					     *   -ENOSPC    put: no room, all that is there is pinned or being put;
					     *              pin: half of the tenant is pinned
					     *   -EACCES    the owner does not let this agent use the tenant
					     *   -ENOTCONN  put, delete, pin: no owner is there
					     *   -ECONNRESET  put, delete, pin: the owner died, and may have done it
					     *   -ETIMEDOUT   the owner does not answer, and may have done it; get,
					     *              exists: none of the replicas does
					     *   -EIO       put: the bytes changed while the owner read them
					     *   -EAGAIN    too much is under way
					     *   -EINVAL    the key is empty or too long */
};

/* Runs when the request ended: on the thread that makes progress, or, when no owner had to be
 * asked, inside the function that began it. It may begin the request again or destroy it; to other
 * threads the request is pending until then, or until this returns. */
typedef void slime_pages_fn(void *arg, struct slime_pages_request *req);

struct slime_pages_request_attr {
	slime_pages_fn *fn; /* NULL: waited for */
	void *arg;
};

/* A request is the future of one batch; it is created once and reused. attr NULL: one to wait for.
 * -ENOMEM. */
SLIME_API SLIME_CHECKED int slime_pages_request_create(struct slime_pages *pages,
						       const struct slime_pages_request_attr *attr,
						       struct slime_pages_request **out);

/* -EBUSY while it is pending, or a device has not let go of its memory: nothing happened.
 * destroy(NULL) is 0. */
SLIME_API int slime_pages_request_destroy(struct slime_pages_request *req);

/*
 * Begin a batch of any length. The items, their keys, bufs and memory are lent until it ends; each
 * item's status then says what became of it. An empty batch ends at once.
 *   -EBUSY  the request is pending   -ENOMEM   -EINVAL  n_bufs or a buf is malformed
 *   -EACCES put: a region of bufs does not grant remote reads
 *   -EOPNOTSUPP  a region has no address: checksums are computed by this process
 */
SLIME_API SLIME_CHECKED int slime_pages_get(struct slime_pages_request *req,
					    struct slime_pages_item *items, size_t n);

enum slime_pages_put_flags {
	SLIME_PAGES_REPLACE = 1, /* a page of that key that is there is replaced */
};

SLIME_API SLIME_CHECKED int slime_pages_put(struct slime_pages_request *req,
					    struct slime_pages_item *items, size_t n,
					    uint32_t flags);

/* Which are there: status 0 or -ENOENT. */
SLIME_API SLIME_CHECKED int slime_pages_exists(struct slime_pages_request *req,
					       struct slime_pages_item *items, size_t n);

SLIME_API SLIME_CHECKED int slime_pages_delete(struct slime_pages_request *req,
					       struct slime_pages_item *items, size_t n);

/* Keep pages from being evicted for at most hold_ms. Each pin is taken back by one unpin, or by its
 * time. */
SLIME_API SLIME_CHECKED int slime_pages_pin(struct slime_pages_request *req,
					    struct slime_pages_item *items, size_t n,
					    uint32_t hold_ms);
SLIME_API SLIME_CHECKED int slime_pages_unpin(struct slime_pages_request *req,
					      struct slime_pages_item *items, size_t n);

/* Delete every page of the tenant, at every owner. */
SLIME_API SLIME_CHECKED int slime_pages_clear(struct slime_pages_request *req);

/* The sums of the tenant's figures at the owners that answer; *out is lent until it ends. */
SLIME_API SLIME_CHECKED int slime_pages_stat(struct slime_pages_request *req,
					     struct slime_pages_stat *out);

/* Wait until it ended: 0. -ETIMEDOUT: it is still pending; -EINVAL: it has a callback; -EDEADLK,
 * -EPERM as of slime_op_wait(). */
SLIME_API SLIME_CHECKED int slime_pages_wait(struct slime_pages_request *req, int64_t timeout_ms);

/* Whether it ended. Makes no progress. */
SLIME_API bool slime_pages_test(struct slime_pages_request *req);

/* Of the items of the last batch the first that did not end with 0; n when all did. */
SLIME_API size_t slime_pages_prefix(const struct slime_pages_request *req);

SLIME_API void *slime_pages_request_arg(const struct slime_pages_request *req);

/* What readers saw. */
struct slime_pages_counters {
	uint64_t hits;
	uint64_t misses;
	uint64_t lookups;  /* keys that owners were asked for */
	uint64_t cached;   /* places that were known */
	uint64_t rejected; /* pages that were not the wanted ones when they arrived */
	uint64_t dead;	   /* keys whose owner was not there */
	uint64_t bytes;	   /* of hits */
	uint32_t owners;   /* that can be reached */
};

SLIME_API void slime_pages_counters(struct slime_pages *pages, struct slime_pages_counters *out);

SLIME_END_DECLS

#endif
