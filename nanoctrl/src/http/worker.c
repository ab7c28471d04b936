/* SPDX-License-Identifier: Apache-2.0 */
#include "http/worker.h"

#include "base/random.h"

unsigned worker_random(unsigned n)
{
	return n < 2 ? 0 : (unsigned)sl_random_up_to(n - 1);
}

const char *worker_date(struct worker *w)
{
	time_t now = time(NULL);
	struct tm tm;

	if (now != w->date_at && gmtime_r(&now, &tm) &&
	    strftime(w->date, sizeof(w->date), "%a, %d %b %Y %H:%M:%S GMT", &tm))
		w->date_at = now;
	return w->date;
}
