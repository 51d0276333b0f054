/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the guest of a direct volume, through its runtime's shim, by
 * HTTP at a unix socket. The socket is RUN/vc/sbs/SANDBOX/shim-monitor.sock
 * (the runtime in Go) or RUN/kata/SANDBOX/shim-monitor.sock (in Rust).
 *
 *	POST /direct-volume/stats?path=PATH
 *	POST /direct-volume/resize	{"VolumePath": PATH, "Size": BYTES}
 *
 * The shim in Rust knows POST only, the other ignores the method.
 */
#ifndef CSI_KATA_SHIM_H
#define CSI_KATA_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define KATA_ANSWER_MAX 65536 /* bytes */

struct kata_usage {
	uint64_t total, used, available;
};

struct kata_stats {
	bool has_bytes, has_inodes;
	struct kata_usage bytes, inodes;
	bool abnormal;
	char message[256];
};

/*
 * @sandbox  of kata_record_sandbox()
 *
 * -EHOSTUNREACH: no shim there, or no answer within seconds. -EIO: it says
 * that it failed; the text has its words. -EBADMSG: no such answer.
 */
int kata_shim_stats(const char *run_dir, const char *sandbox, const char *path,
		    struct kata_stats *ret, struct error *err);
/* The device has @size bytes: so have disk and file system of the guest. */
int kata_shim_resize(const char *run_dir, const char *sandbox, const char *path,
		     uint64_t size, struct error *err);

/* The answer to the first, as JSON; -EBADMSG. */
int kata_stats_parse(const char *text, size_t length, struct kata_stats *ret);

#endif
