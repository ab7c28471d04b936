/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands are those that agents of dlslime 0.1.0.post1 and 0.1.23 were seen to send, and PING,
 * by which an address is tried. SCAN tells the names of all keys, and no value.
 */
#include "compat/guest.h"

#include <stddef.h>
#include <stdio.h>

#define RULE_MAX 48

static const char *const commands[] = {
	"reset", "resetchannels", "on",	   "nopass", "+blpop", "+del", "+get",	"+hgetall",
	"+hset", "+pexpire",	  "+ping", "+scan",  "+set",   "+ttl", "+xadd", "+xread",
};

/* Keys of DLSlime's agents: [SCOPE:]KIND:NAME. */
static const char *const kinds[] = { "agent:",	  "exchange:",	    "inbox:", "mr:",
				     "obs:peer:", "spec:topology:", "stream:" };

/* The beginning of keys that only nanoctrl has, beside a brace: as a scope it is a reserved word.
 */
static const char ours[] = "nanoctrl:";

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))
#define N_KINDS	   (sizeof(kinds) / sizeof(kinds[0]))
#define N_RULES	   (N_COMMANDS + N_KINDS * sizeof(ours))

/*
 * A pattern has no word for "does not begin with nanoctrl:". So there is one for each place in that
 * word at which a scope can differ from it: [^{n]*, n[^a]*, na[^n]*, and so on.
 */
static void name_keys(char rule[RULE_MAX], size_t place, const char *kind)
{
	snprintf(rule, RULE_MAX, "~%.*s[^%c%s]*%s*", (int)place, ours, ours[place],
		 place ? "" : "{", kind);
}

int guest_admit(struct redis *redis, redis_reply_fn *fn, void *arg)
{
	const char *args[3 + N_RULES] = { "ACL", "SETUSER", "default" };
	char rules[N_KINDS * sizeof(ours)][RULE_MAX];
	size_t n_rules = 0;
	int n = 3;

	for (size_t i = 0; i < N_COMMANDS; i++)
		args[n++] = commands[i];
	for (size_t k = 0; k < N_KINDS; k++)
		snprintf(rules[n_rules++], RULE_MAX, "~%s*", kinds[k]);
	for (size_t place = 0; ours[place]; place++)
		for (size_t k = 0; k < N_KINDS; k++)
			name_keys(rules[n_rules++], place, kinds[k]);
	for (size_t i = 0; i < n_rules; i++)
		args[n++] = rules[i];
	return redis_command(redis, n, args, NULL, fn, arg);
}
