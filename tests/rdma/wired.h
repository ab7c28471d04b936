/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pair of ends on two devices, and work over it whose bytes are looked at while something goes
 * wrong. In the laboratory every packet crosses the wire between them, which can be disturbed.
 */
#ifndef RDMA_WIRED_H
#define RDMA_WIRED_H

#include "tests/conformance/fixture.h"

extern const char *wired_near; /* rxe0, on wire0, or what --rails names first; a pair's end a */
extern const char *wired_far;  /* rxe1, on wire1, or what --rails names second; its end b */

/* A fault is reported within half a second by defaults and on a quiet machine; a starved one has
 * some more. */
#define REPORT_MS 10000

/* Setup and teardown of a test: state is the pair. The teardown mends the wires. */
int wired_setup(void **state);
int wired_teardown(void **state);
struct pair *wired_open(bool manual_a);

/* A command of the shell, which succeeds. */
void sh(const char *command);
/* Begin to delete one: it is gone when nobody has it open. */
void delete_device(const char *name);
/* The wires of devices.sh, as it left them, where they are, and their devices' ports active;
 * devices that are being deleted are not open any more. */
void mend_wires(void);
bool wired_has_wires(void);

/*
 * Reads, writes, writes with an immediate and messages from a to b, four at a time, for so long:
 * 0, and the bytes of each were right; or the status of the first that failed. All have ended.
 */
int traffic_run(struct pair *p, uint64_t ms);

#define TRAFFIC_ALL    0xfu
#define TRAFFIC_READS  0x1u
#define TRAFFIC_WRITES 0x6u
int traffic_run_of(struct pair *p, uint64_t ms, unsigned kinds);

/*
 * While there is traffic, and again whenever it is found broken: a fault was done at begin_ms, the
 * traffic ended, and both ends know the cause.
 */
void assert_traffic_fails(struct pair *p, uint64_t begin_ms);
/* Both ends break, or have; begin_ms was at most so long ago. */
void assert_both_break(struct pair *p, uint64_t begin_ms, uint64_t limit_ms);
/* The cause of an end that broke; printed with its words. */
int cause_of(const struct end *e);

/* main() of a group of faults, "--transport rdma [--rails DEVICE[,DEVICE]]": skipped where the
 * devices are not there. */
int wired_main(int argc, char **argv, const char *group, const struct CMUnitTest *tests, size_t n);

#endif
