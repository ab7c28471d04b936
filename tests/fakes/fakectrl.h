/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control plane in memory, linked in the place of peeragent/lib/control/ctrl.c: registrations,
 * leases, offers, regions and link reports of all agents of the process. Any thread.
 */
#ifndef TESTS_FAKECTRL_H
#define TESTS_FAKECTRL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slime/agent.h>

#define FAKE_LEASE_MS 15000 /* as agents are told; none ends by itself */

/* Forget everything; no agent may be there. */
void fakectrl_reset(void);

/* The next n lookups of regions find no call free, in a session, too. */
void fakectrl_fill_calls(unsigned n);

/* The server goes away: sessions end, requests fail. */
void fakectrl_go_away(void);

/* It comes back, with what it knew or without. */
void fakectrl_come_back(bool with_data);

/* The agent's lease ends although it lives: its peers are told, then it registers again. */
void fakectrl_expire(const char *agent);

/* The agent is cut off from the server, which ends its lease, until fakectrl_come_back(). */
void fakectrl_cut_off(const char *agent);

/* Whether the agent reports the link in this state, waiting for it at most timeout_ms. */
bool fakectrl_wait_link(const char *agent, const char *peer, const char *profile,
			enum slime_link_state state, int timeout_ms);

/* Whether there is such a report, or region, waiting until there is (or is not) one. */
bool fakectrl_wait_no_link(const char *agent, const char *peer, const char *profile,
			   int timeout_ms);
bool fakectrl_wait_region(const char *agent, const char *region, bool there, int timeout_ms);

/* What an agent says last of how its end of a link came to be as it is. */
struct fakectrl_report {
	char source[512], transports[64], passed_over[512], last_error[512];
	bool own_order;
	uint32_t n_connects, n_failures;
};

/* False when it reports no such link. */
bool fakectrl_report(const char *agent, const char *peer, const char *profile,
		     struct fakectrl_report *out);

/* A region that is there is withdrawn, and not by its agent, which is told. */
void fakectrl_withdraw_region(const char *agent, const char *region);

/* From now on nothing hears the withdrawals of regions, which stay; or those that came meanwhile
 * are carried out, late. */
void fakectrl_hold_withdrawals(void);
void fakectrl_release_withdrawals(void);

/* How often an agent posted for a peer so far. */
unsigned fakectrl_n_posts(void);

/* As if a registered agent had posted these bytes for another. */
void fakectrl_post(const char *from, const char *to, const char *profile, uint64_t number,
		   const void *bytes, size_t len);

/* The number of what an agent has posted for another; 0: nothing is there. */
uint64_t fakectrl_post_number(const char *from, const char *to, const char *profile);

#endif
