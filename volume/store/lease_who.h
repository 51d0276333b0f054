/* SPDX-License-Identifier: Apache-2.0 */
/* Identities of processes that hold leases. Inside stores only. */
#ifndef VOLUME_LEASE_WHO_H
#define VOLUME_LEASE_WHO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/uuid_name.h"

/* A process, as it signs its leases. */
struct lease_who {
	char identity[256];
	unsigned long long pid_space; /* inode of its process namespace */
	char boot_id[UUID_TEXT_SIZE];
};

/* This process. */
int lease_who_make(struct lease_who *who, struct error *err);

/* This machine, as it signs heartbeats: "HOST/BOOT-ID". */
#define LEASE_MACHINE_SIZE (65 + UUID_TEXT_SIZE) /* bytes with NUL */
int lease_machine_make(char *ret, struct error *err);

/* Tell whether @holder was on this machine, and its process is no more. */
bool lease_who_died(const struct lease_who *us, const char *holder);
/* -EAGAIN: the text says which process has been at work on @what. */
int lease_who_busy(const char *holder, const char *doing, const char *what,
		   int64_t for_s, struct error *err);

#endif
