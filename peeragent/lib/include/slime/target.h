/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers and messages by names. A target is a region of another agent together with the link
 *that leads to it. It is resolved once and follows both: after the link was made anew, and after
 *the peer offered the region anew, the same target reaches what is there now.
 *
 *	slime_agent_target_get(agent, "node-b", "kv", &target);
 *	slime_agent_target_wait(target, 10000);
 *	slime_target_read(target, &(struct slime_xfer){ .local = mine, .len = 4096 }, 1, 0, op);
 *	...
 *	slime_agent_target_put(target);
 *
 * A transfer takes no lock and sends no request to nanoctrl: between submission and completion it
 *is the transfer of slime/xfer.h over the endpoint of the link.
 */
#ifndef SLIME_TARGET_H
#define SLIME_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <slime/agent.h>

SLIME_BEGIN_DECLS

struct slime_target;

/*
 * Make a target. It returns at once; the agent resolves the target from then on. The link is wanted
 * by the agent's topology, by slime_agent_link_add() or by the peer: a target wants none.
 *
 * peer is "node-b" for the link of the profile "default", or "node-b/PROFILE". region NULL is a
 * target for messages and immediates only.
 *   -EINVAL  no such names can be     -ENOMEM
 *   -ENOTCONN  the agent was not started     -ESHUTDOWN  it leaves, or has ended
 */
SLIME_API SLIME_CHECKED int slime_agent_target_get(struct slime_agent *agent, const char *peer,
						   const char *region, struct slime_target **out);

/*
 * Wait until the target can be used: the link is connected, and the region is resolved.
 *   -ENOTCONN   the link was not connected within timeout_ms (negative: no limit);
 *               slime_agent_links() says why
 *   -ENOENT, -EACCES, -ESTALE, -EPROTO, -EAGAIN  it was connected, and the region not resolved:
 *               as slime_target_read() says
 *   -ESHUTDOWN  the agent leaves, or has ended
 *   -EDEADLK    inside a callback of the loop
 */
SLIME_API SLIME_CHECKED int slime_agent_target_wait(struct slime_target *target,
						    int64_t timeout_ms);

/*
 * Give a target back. No other call may use it any more; ops that were submitted through it go on.
 * An agent with a target is not destroyed. put(NULL) does nothing.
 */
SLIME_API void slime_agent_target_put(struct slime_target *target);

/*
 * As slime_read(), of the target's region: remote of each piece is set by the call. Any thread,
 * also in callbacks of ops. Besides what slime_read() returns: -ENOTCONN  the link is not connected
 * now -EAGAIN    also: the region is being looked up. Try again, or slime_agent_target_wait()
 *   -ESTALE    the region was withdrawn, and nanoctrl was asked and knows no newer one. An op that
 *              was under way when it was withdrawn may have this status
 *   -ENOENT    nanoctrl knows no such agent, or no such region of it
 *   -EACCES    also: the region does not allow this agent
 *   -EPROTO    the region's descriptor is malformed
 *   -EINVAL    also: the target names no region
 * With the last five the agent goes on to ask, at most every 5 s, and when the peer offers a
 * region.
 */
SLIME_API SLIME_CHECKED int slime_target_read(struct slime_target *target, struct slime_xfer *xfers,
					      size_t n, uint32_t flags, struct slime_op *op);

/* As slime_target_read(), the other way. */
SLIME_API SLIME_CHECKED int slime_target_write(struct slime_target *target,
					       struct slime_xfer *xfers, size_t n, uint32_t flags,
					       struct slime_op *op);

/* As slime_write_imm(), with the errors of slime_target_read(). */
SLIME_API SLIME_CHECKED int slime_target_write_imm(struct slime_target *target,
						   struct slime_xfer *xfers, size_t n,
						   uint32_t flags, uint32_t imm,
						   struct slime_op *op);

/*
 * As slime_imm_recv(), slime_send(), slime_recv() and slime_recv_cancel(), over the link; the
 * region does not matter. -ENOTCONN when the link is not connected now, -EAGAIN also when the
 * target just moves to another region or connection. A waiting receive ends with its
 * connection, and does not move to the next one.
 */
SLIME_API SLIME_CHECKED int slime_target_imm_recv(struct slime_target *target, struct slime_op *op);
SLIME_API SLIME_CHECKED int slime_target_send(struct slime_target *target, struct slime_mr *mr,
					      uint64_t offset, uint64_t len, uint64_t tag,
					      struct slime_op *op);
SLIME_API SLIME_CHECKED int slime_target_recv(struct slime_target *target, struct slime_mr *mr,
					      uint64_t offset, uint64_t len, uint64_t tag,
					      uint64_t mask, struct slime_op *op);
SLIME_API int slime_target_recv_cancel(struct slime_target *target, struct slime_op *op);

SLIME_END_DECLS

#endif
