/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors of agents: LABEL=VALUE[,LABEL=VALUE...], where all hold. */
#ifndef SL_BASE_SELECTOR_H
#define SL_BASE_SELECTOR_H

#include <stddef.h>

/*
 * NULL, or what is likely a slip in a selector that is well-formed otherwise, in words: an operator
 * other than =, quotes or blanks around a value, or a label that is there twice. A label may have
 * such a value; it cannot be selected by it.
 */
const char *sl_selector_slip(const char *selector);

#endif
