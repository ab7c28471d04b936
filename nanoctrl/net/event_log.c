/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/net/event_log.h"

#include <event2/event.h>
#include <pthread.h>

#include "base/log.h"

static void on_message(int severity, const char *message)
{
	enum slime_log_level level = severity == EVENT_LOG_DEBUG  ? SLIME_LOG_DEBUG
				     : severity == EVENT_LOG_MSG  ? SLIME_LOG_INFO
				     : severity == EVENT_LOG_WARN ? SLIME_LOG_WARN
								  : SLIME_LOG_ERROR;

	sl_log(level, "libevent", "%s", message);
}

static void take(void)
{
	event_set_log_callback(on_message);
}

void nc_event_log_take(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, take);
}
