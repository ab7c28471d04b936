/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLIME_EXPORT_H
#define SLIME_EXPORT_H

/* A public function; it also has a line in slime.map, in the block of the release that brought it.
 */
#define SLIME_API __attribute__((visibility("default")))
/* Its result says whether anything happened: ignoring it is a mistake. */
#define SLIME_CHECKED		__attribute__((warn_unused_result))
#define SLIME_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

#ifdef __cplusplus
#define SLIME_BEGIN_DECLS extern "C" {
#define SLIME_END_DECLS	  }
#else
#define SLIME_BEGIN_DECLS
#define SLIME_END_DECLS
#endif

#endif
