/* SPDX-License-Identifier: Apache-2.0 */
/* Counters since the mount, of all its servers. */
#ifndef UNION_STATS_H
#define UNION_STATS_H

#include <stdatomic.h>

/* In memory that outlives the server; shown by user.tributary.stats
 * (explain.h). */
struct union_stats {
	atomic_ulong requests; /* of the kernel, all of them */
	atomic_ulong lookups, creates, opens, passthrough_opens;
	atomic_ulong reads,
		writes; /* served by the daemon, not by the kernel */
	atomic_ulong cloned_directories;
	atomic_ulong moved_files;
};

#endif
