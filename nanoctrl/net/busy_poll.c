/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/net/busy_poll.h"

#define FINDS 16 /* that the mean is of, about */
#define PERIOD_MAX_NS \
	(8 * BUSY_POLL_OFTEN_NS) /* one counts for no more: a pause is soon forgotten */

void busy_poll_init(struct busy_poll *p, uint64_t limit_ns, uint64_t now)
{
	*p = (struct busy_poll){
		.limit_ns = limit_ns, .polled = now, .found = now, .period_ns = PERIOD_MAX_NS
	};
}

static void rest(struct busy_poll *p, uint64_t now)
{
	bool again = p->rest_ns && now - p->rest_until < p->rest_ns;

	p->rest_ns = again ? 2 * p->rest_ns : BUSY_POLL_REST_NS;
	if (p->rest_ns > BUSY_POLL_REST_MAX_NS)
		p->rest_ns = BUSY_POLL_REST_MAX_NS;
	p->rest_until = now + p->rest_ns;
}

bool busy_poll_again(struct busy_poll *p, uint64_t now, bool found)
{
	uint64_t since_poll = now - p->polled, since_find = now - p->found;

	p->polled = now;
	if (found) {
		uint64_t period = since_find < PERIOD_MAX_NS ? since_find : PERIOD_MAX_NS;

		p->period_ns += period / FINDS - p->period_ns / FINDS;
		p->found = now;
		since_find = 0;
	} else if (p->on) {
		p->vain_ns += since_poll;
		if (since_poll >= BUSY_POLL_TAKEN_NS)
			rest(p, now);
	}
	p->on = p->period_ns < BUSY_POLL_OFTEN_NS && since_find < p->limit_ns &&
		now >= p->rest_until;
	return p->on;
}
