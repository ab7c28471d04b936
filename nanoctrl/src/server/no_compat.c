/* SPDX-License-Identifier: Apache-2.0 */
#include "server/compat.h"

const struct compat compat = { .store = NULL };
