/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal of `nanoctrl top`: another screen, and keys as they are typed. There is one. */
#ifndef NANOCTRL_TOP_SCREEN_H
#define NANOCTRL_TOP_SCREEN_H

#include <stdbool.h>

/* From here on a signal that ends the program, or stops it, leaves the terminal as it was. */
void top_screen_init(void);

void top_screen_enter(void);
void top_screen_leave(void);

/* Waits for so long, or until there is a reason to show it all again. False: q was typed. */
bool top_screen_wait(int ms);

#endif
