/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/stepper.h"

#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define TRAP_FLAG 0x100 /* of the flags register: a trap after the next instruction */

static struct {
	uint8_t *at;
	size_t len;
	unsigned left; /* accesses until fn; 0: it ran */
	stepper_fn *fn;
	void *arg;
	struct sigaction old_segv, old_trap;
	/* The thread sanitizer's code, which does atomic accesses for the program, under locks: fn
	 * would want the same ones, so it runs when that is left. */
	uintptr_t runtime, runtime_end;
} steps;

static void protect(int prot)
{
	if (mprotect(steps.at, steps.len, prot))
		abort();
}

static int find_runtime(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	if (!strstr(info->dlpi_name, "libtsan"))
		return 0;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		steps.runtime = info->dlpi_addr + p->p_vaddr;
		steps.runtime_end = steps.runtime + p->p_memsz;
	}
	return 1;
}

/* The instruction is let through, and nothing behind it. */
static void on_access(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	uintptr_t at = (uintptr_t)info->si_addr;

	if (at < (uintptr_t)steps.at || at - (uintptr_t)steps.at >= steps.len) {
		/* An error of the program's: it comes again, and ends it. */
		signal(sig, SIG_DFL);
		return;
	}
	protect(PROT_READ | PROT_WRITE);
	uc->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void after_access(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)sig;
	(void)info;
	if ((uintptr_t)uc->uc_mcontext.gregs[REG_RIP] - steps.runtime <
	    steps.runtime_end - steps.runtime)
		return; /* the next instruction traps, too */
	uc->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	if (steps.left && !--steps.left)
		steps.fn(steps.arg);
	protect(PROT_NONE);
}

static void handle(int sig, void (*handler)(int, siginfo_t *, void *), struct sigaction *old)
{
	struct sigaction act = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	sigfillset(&act.sa_mask);
	if (sigaction(sig, &act, old))
		abort();
}

void stepper_begin(void *at, size_t len, unsigned n, stepper_fn *fn, void *arg)
{
	steps.at = at;
	steps.len = len;
	steps.left = n;
	steps.fn = fn;
	steps.arg = arg;
	(void)dl_iterate_phdr(find_runtime, NULL);
	handle(SIGSEGV, on_access, &steps.old_segv);
	handle(SIGTRAP, after_access, &steps.old_trap);
	protect(PROT_NONE);
}

bool stepper_end(void)
{
	protect(PROT_READ | PROT_WRITE);
	sigaction(SIGSEGV, &steps.old_segv, NULL);
	sigaction(SIGTRAP, &steps.old_trap, NULL);
	return !steps.left;
}
