/* SPDX-License-Identifier: Apache-2.0 */
/* Memory whose pages are there before anything is measured. */
#ifndef ROUNDS_MEMORY_H
#define ROUNDS_MEMORY_H

#include <stdint.h>

/* Map len bytes of fd, shared; or, with fd -1, of this process's own. NULL without memory. */
uint8_t *memory_map(int fd, uint64_t len);
void memory_unmap(uint8_t *bytes, uint64_t len);

/* A file without a name to share; a descriptor, or a negative errno. */
int memory_file(uint64_t len);

#endif
