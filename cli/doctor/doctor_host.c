/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/doctor/doctor.h"
#include "initiator/initiator.h"

/* A release of Linux as one number. */
#define KERNEL(major, minor) ((major)*1000L + (minor))

/* docs/operations.md names both: blockd's io_uring, FUSE passthrough. */
#define KERNEL_LEAST       KERNEL(5, 15)
#define KERNEL_PASSTHROUGH KERNEL(6, 9)

static void look_at_kernel(struct doctor *doctor)
{
	struct doctor_finding *f = doctor_add(doctor, DOCTOR_OK, "kernel");
	struct utsname name;
	long major = 0, minor = 0;

	if (uname(&name) < 0 ||
	    sscanf(name.release, "%ld.%ld", &major, &minor) != 2) {
		f->verdict = DOCTOR_FAULT;
		(void)strcpy(f->found, "its release is unknown");
		return;
	}
	(void)snprintf(f->found, sizeof(f->found), "Linux %.64s", name.release);
	if (KERNEL(major, minor) < KERNEL_LEAST) {
		f->verdict = DOCTOR_FAULT;
		(void)strcpy(f->cost, "blockd and unions do not run");
		(void)strcpy(f->mend, "boot Linux 5.15 or later");
	} else if (KERNEL(major, minor) < KERNEL_PASSTHROUGH) {
		f->verdict = DOCTOR_NOTICE;
		(void)strcpy(f->cost, "file data of a union goes through its "
				      "server, not past it");
		(void)strcpy(f->mend, "boot Linux 6.9 or later");
	}
}

/* A switch of the kernel since 6.6: Documentation/admin-guide/sysctl/kernel. */
static void look_at_io_uring(struct doctor *doctor)
{
	struct doctor_finding *f = doctor_add(doctor, DOCTOR_OK, "io_uring");
	char text[16] = "0";
	auto_close int fd = open("/proc/sys/kernel/io_uring_disabled",
				 O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) <= 0)
		text[0] = '0';
	(void)strcpy(f->found, "allowed");
	if (text[0] == '0')
		return;
	f->verdict = DOCTOR_FAULT;
	(void)strcpy(f->found, "switched off");
	(void)strcpy(f->cost, "blockd does not start");
	(void)strcpy(f->mend, "sysctl -w kernel.io_uring_disabled=0");
}

/* What the absence of a transport costs, and the next step. */
static const struct {
	const char *transport;
	enum doctor_verdict verdict;
	const char *cost, *mend;
} absences[] = {
	{"loop", DOCTOR_FAULT, "no extent of this node's dir pools is attached",
	 "modprobe loop"},
	{"fuse", DOCTOR_FAULT, "no union is mounted", "modprobe fuse"},
	{"nbd", DOCTOR_NOTICE,
	 "remote extents go through trib-nbd and a loop device, which is "
	 "slower",
	 "modprobe nbd"},
	{"dm", DOCTOR_NOTICE,
	 "a device that is in use is neither cut off nor exchanged",
	 "modprobe dm-mod; a container needs the host's /dev"},
	/* Others do the same: nothing is missed. */
	{"iscsi", DOCTOR_OK, "", ""},
	{"ublk", DOCTOR_OK, "", ""},
};

static void look_at_transports(struct doctor *doctor)
{
	struct initiator_capability found[16];
	size_t n = initiator_probe(found, array_size(found));
	char subject[DOCTOR_SUBJECT_SIZE];

	for (size_t i = 0; i < n; i++) {
		struct doctor_finding *f;

		(void)snprintf(subject, sizeof(subject), "transport %s",
			       found[i].transport);
		f = doctor_add(doctor, DOCTOR_OK, subject);
		(void)snprintf(f->found, sizeof(f->found), "%s", found[i].why);
		for (size_t a = 0; !found[i].usable && a < array_size(absences);
		     a++) {
			if (strcmp(absences[a].transport, found[i].transport))
				continue;
			f->verdict = absences[a].verdict;
			(void)strcpy(f->cost, absences[a].cost);
			(void)strcpy(f->mend, absences[a].mend);
		}
	}
}

static const struct {
	const char *program, *cost, *mend;
} programs[] = {
	{"mkfs.ext4", "no volume with ext4 is mounted",
	 "apt-get install e2fsprogs"},
	{"e2fsck", "no ext4 is checked before it is mounted",
	 "apt-get install e2fsprogs"},
	{"resize2fs", "no ext4 grows", "apt-get install e2fsprogs"},
	{"mkfs.xfs", "no volume with XFS is mounted",
	 "apt-get install xfsprogs"},
	{"xfs_repair", "no XFS is checked before it is mounted",
	 "apt-get install xfsprogs"},
	{"xfs_growfs", "no XFS grows", "apt-get install xfsprogs"},
};

/* In $PATH, or where administrators' programs are. */
static bool program_is_there(const char *name)
{
	const char *path = getenv("PATH");
	char all[4096], whole[4096 + 64], *rest = all, *folder;

	(void)snprintf(all, sizeof(all), "%s:/usr/sbin:/sbin", path ?: "");
	while ((folder = strsep(&rest, ":"))) {
		(void)snprintf(whole, sizeof(whole), "%s/%s", folder, name);
		if (folder[0] && access(whole, X_OK) == 0)
			return true;
	}
	return false;
}

static void look_at_programs(struct doctor *doctor)
{
	char subject[DOCTOR_SUBJECT_SIZE];

	for (size_t i = 0; i < array_size(programs); i++) {
		struct doctor_finding *f;
		bool there = program_is_there(programs[i].program);

		(void)snprintf(subject, sizeof(subject), "program %s",
			       programs[i].program);
		f = doctor_add(doctor, there ? DOCTOR_OK : DOCTOR_NOTICE,
			       subject);
		(void)strcpy(f->found, there ? "installed" : "not found");
		if (there)
			continue;
		(void)strcpy(f->cost, programs[i].cost);
		(void)strcpy(f->mend, programs[i].mend);
	}
}

void doctor_look_at_host(struct doctor *doctor)
{
	look_at_kernel(doctor);
	look_at_io_uring(doctor);
	look_at_transports(doctor);
	look_at_programs(doctor);
}
