/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the peer reaches: two areas with guards around them, one of which comes and goes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/stress/report.h"
#include "tests/stress/side.h"

#define ALL (AREA_LEN + 2 * AREA_GUARD)

static void check_home(struct side *side, int i, const char *when)
{
	struct home *home = &side->homes[i];
	size_t at = 0;

	if (!image_check(&home->image, &at))
		fail(side->where, "round %llu, %s: area %d at %zu: expected %02x, is %02x",
		     (unsigned long long)side->round, when, i, at, home->image.expect[at],
		     home->image.mem[at]);
	for (int g = 0; g < 2; g++)
		if (!image_check(&home->guards[g], &at))
			fail(side->where, "round %llu, %s: the guard %s area %d at %zu",
			     (unsigned long long)side->round, when, g ? "behind" : "before", i, at);
}

void areas_check(struct side *side, const char *when)
{
	for (int i = 0; i < N_AREAS; i++) {
		area_lock(&side->own->areas[i]);
		check_home(side, i, when);
		area_unlock(&side->own->areas[i]);
	}
}

static void offer(struct side *side, int i)
{
	struct area *area = &side->own->areas[i];
	struct home *home = &side->homes[i];
	int ret;

	if (slime_mr_create(side->node->ctx, home->image.mem, AREA_LEN,
			    SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &home->mr) != 0)
		fail(side->where, "no region");
	ret = slime_mr_export(home->mr, area->desc, sizeof(area->desc));
	if (ret < 0)
		fail(side->where, "a region cannot be exported");
	area->desc_len = (uint32_t)ret;
	area->version += area->version % 2 ? 1 : 2;
}

/* A peer that stands still may have it for a while yet. */
static void withdraw(struct side *side, int i)
{
	struct home *home = &side->homes[i];
	int ret;

	watch_begin(side->where, "the withdrawal of a region", WATCH_MS);
	while ((ret = slime_mr_destroy(home->mr)) == -EBUSY)
		pause_us(1000);
	watch_end();
	if (ret)
		fail(side->where, "mr_destroy: %s", strerror(-ret));
	home->mr = NULL;
}

void areas_create(struct side *side)
{
	for (int i = 0; i < N_AREAS; i++) {
		struct area *area = &side->own->areas[i];
		struct home *home = &side->homes[i];
		uint8_t *base;

		if (i == 0 || side->node->board->options.transport == SLIME_TRANSPORT_SHM) {
			if (slime_mem_alloc(side->node->ctx, ALL, NULL, &home->mem) != 0)
				fail(side->where, "no memory");
			base = slime_mem_addr(home->mem);
		} else {
			home->other = aligned_alloc(4096, ALL);
			base = home->other;
		}
		if (!base)
			fail(side->where, "no memory");
		for (int g = 0; g < 2; g++) {
			home->guards[g] = (struct image){ base + (g ? AREA_GUARD + AREA_LEN : 0),
							  home->guard_bytes[g][0],
							  home->guard_bytes[g][1], AREA_GUARD };
			image_fill(&home->guards[g], 7);
		}
		home->image =
			(struct image){ base + AREA_GUARD, area->expect, area->known, AREA_LEN };
		area_lock(area);
		image_fill(&home->image, roll(&side->dice));
		offer(side, i);
		area_unlock(area);
	}
}

void areas_destroy(struct side *side)
{
	areas_check(side, "at the end");
	for (int i = 0; i < N_AREAS; i++) {
		struct home *home = &side->homes[i];

		if (home->mr)
			withdraw(side, i);
		if (slime_mem_destroy(home->mem) != 0)
			fail(side->where, "memory cannot be given back");
		free(home->other);
	}
}

void areas_renew(struct side *side)
{
	areas_check(side, "after the round");
	for (int i = 0; i < N_AREAS; i++) {
		struct area *area = &side->own->areas[i];
		struct home *home = &side->homes[i];

		/* The peer has ended the round, too: it needs none of this now. */
		area_lock(area);
		if (home->mr && roll_percent(&side->dice, 50))
			withdraw(side, i);
		check_home(side, i, "between rounds");
		if (roll_percent(&side->dice, 70))
			image_fill(&home->image, roll(&side->dice));
		if (!home->mr)
			offer(side, i);
		area_unlock(area);
	}
}

void areas_withdraw(struct side *side)
{
	struct area *area = &side->own->areas[1];

	if (!side->homes[1].mr) {
		area_lock(area);
		offer(side, 1);
		area_unlock(area);
		return;
	}
	area->withdrawing = area->version;
	withdraw(side, 1);
	area_lock(area);
	check_home(side, 1, "when it was withdrawn");
	area->version++;
	image_fill(&side->homes[1].image, roll(&side->dice));
	area_unlock(area);
}

void areas_import(struct side *side)
{
	for (int i = 0; i < N_AREAS; i++) {
		struct area *area = &side->peer->areas[i];
		int ret = 0;

		area_lock(area);
		if (area->version % 2 == 0 && area->version != side->remote_versions[i]) {
			ret = slime_remote_mr_import(area->desc, area->desc_len, &side->remotes[i]);
			side->remote_versions[i] = area->version;
		}
		area_unlock(area);
		if (ret)
			fail(side->where, "a region cannot be imported");
	}
}
