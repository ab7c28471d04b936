/* SPDX-License-Identifier: Apache-2.0 */
/* What libevent is asked of names, by a program that is linked with it. An evdns_base that is freed
 * while a lookup of it has not called back fails the test: the end of a lookup looks at it. */
#ifndef TESTS_SUPPORT_LOOKUPS_H
#define TESTS_SUPPORT_LOOKUPS_H

/* Lookups that have not called back. Any thread. */
unsigned lookups_out(void);

#endif
