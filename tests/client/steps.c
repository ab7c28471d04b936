/* SPDX-License-Identifier: Apache-2.0 */
#include "client/steps.h"

void reply_busy(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 503, "", "{\"code\":\"unavailable\",\"message\":\"no redis\"}");
}

void reply_late(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_reply(conn, 408, "Connection: close\r\n",
		   "{\"code\":\"timeout\",\"message\":\"the request did not arrive in time\"}");
}

void abort_it(struct fake_conn *conn, const char *request)
{
	(void)request;
	fake_abort(conn);
}

void say_nothing(struct fake_conn *conn, const char *request)
{
	(void)conn;
	(void)request;
}
