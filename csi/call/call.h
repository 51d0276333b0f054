/* SPDX-License-Identifier: Apache-2.0 */
/* A call of a CSI method, and helpers of all handlers. */
#ifndef CSI_CALL_H
#define CSI_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include "csi/call/csi_metrics.h"
#include "csi/call/csi_name.h"
#include "csi/call/volume_lock.h"
#include "proto/csi.pb-c.h"
#include "rpc/rpc.h"
#include "volume/volume.h"

/* The specification, GetPluginInfo: domain notation, at most 63 bytes. */
#define CSI_DRIVER_NAME "union.csi.union.io"

/* A node as a topology: this key, and its name. */
#define CSI_TOPOLOGY_NODE "topology.union.csi.union.io/node"

enum csi_mode { CSI_MODE_ALL, CSI_MODE_CONTROLLER, CSI_MODE_NODE };

/* "all" "controller" "node"; -EINVAL. */
int csi_mode_parse(const char *text, enum csi_mode *ret, struct error *err);
const char *csi_mode_name(enum csi_mode mode);

/* State of the driver; the server's context. */
struct csi {
	enum csi_mode mode;
	struct csi_metrics metrics;
	struct observer *observer; /* NULL: this process never leads */
	struct volume_context *volumes;
	char state_dir[PATH_MAX]; /* node_state.h */
	struct volume_locks locks;
	int cancel_fd;    /* of the configuration; -1: none */
	int heap_trim_fd; /* heap_trim.h; set after csi_init(), -1: none */
	struct node_watch *watch; /* NULL in mode controller */
	uint64_t max_volumes;     /* on this node; set after csi_init() */
	const char *kata_run_dir; /* kata_record.h; likewise */
	/* Bytes of the largest inline volume; 0: none. Likewise. */
	uint64_t inline_limit;
};

/* Check that the records of volumes can be read. Negative errno. */
int csi_check_store(struct csi *csi, struct error *err);

struct csi_call {
	struct rpc_call *rpc;
	struct csi *csi;
	const char *method; /* "CreateVolume" */
	struct error *err;
	struct csi_id id;        /* of csi_begin() */
	struct volume_lock lock; /* of csi_begin() */
	bool locked;
	/* csi_begin() and csi_find() take ids of inline volumes, too. */
	bool takes_inline;
};

/*
 * Handle a call. @in and @out are of the method's types. 0 or the value that a
 * csi_fail function returned.
 */
typedef int (*csi_handler)(struct csi_call *c, const void *in, void *out);

/* Fail with a code of the specification. */
int csi_fail(struct csi_call *c, enum rpc_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Fail as csi_code() has it, with the text of c->err. */
int csi_fail_errno(struct csi_call *c, int error);

/*
 * Lock the volume @name until the handler returns. ABORTED when another call
 * has it.
 */
int csi_lock(struct csi_call *c, const char *name);
/*
 * The same for a volume id, which is then in c->id. NOT_FOUND for an id that
 * cannot be ours.
 */
int csi_begin(struct csi_call *c, const char *volume_id);
/*
 * Lock the volume of c->id for a deletion. 1: locked; 0: it does not exist
 * (another one may have its name now).
 */
int csi_lock_existing(struct csi_call *c);
/* The record of c->id; NOT_FOUND. volume_record_free(). */
int csi_record(struct csi_call *c, struct volume_record **ret);
/* Load the record of a volume id for reading, without a lock. */
int csi_find(struct csi_call *c, const char *volume_id,
	     struct volume_record **ret);

#endif
