/* SPDX-License-Identifier: Apache-2.0 */
/* The regions of ours that a peer's requests name. */
#include <errno.h>

#include "src/transport/tcp/tcp.h"

void tcp_release_pieces(struct tcp_conn *c, const struct tcp_piece *pieces, unsigned n)
{
	struct sl_region_table *t = c->t->transport.env->regions;

	for (unsigned i = 0; i < n; i++)
		sl_region_release(&t->slots[pieces[i].region]);
}

int tcp_acquire_pieces(struct tcp_conn *c, const struct tcp_piece *pieces, unsigned n,
		       uint32_t access, struct iovec *iov)
{
	for (unsigned i = 0; i < n; i++) {
		const struct tcp_piece *p = &pieces[i];
		const struct sl_region_user user = { c->conn.self.endpoint,
						     tcp_secret_was_shown(c, p) };
		struct sl_region *r;
		uint8_t *ptr;
		int ret = sl_region_acquire(c->t->transport.env->regions, user, p->region,
					    p->generation, p->offset, p->len, access, &r, &ptr);

		/* No CPU touches it, ours neither. */
		if (!ret && r->kind == SL_REGION_DEVICE) {
			sl_region_release(r);
			ret = -EACCES;
		}
		if (ret) {
			tcp_release_pieces(c, pieces, i);
			return ret;
		}
		iov[i] = (struct iovec){ .iov_base = ptr, .iov_len = p->len };
	}
	return 0;
}
