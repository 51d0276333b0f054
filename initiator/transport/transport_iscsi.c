/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A remote extent by the kernel's iSCSI client, driven by iscsiadm and iscsid
 * of open-iscsi. Our leftovers there are known by their interface (of
 * open-iscsi: a name for a set of sessions), which is called like our tag. The
 * session in the kernel has that name, and so does the folder of node records.
 *
 * iscsid watches the session and recovers it. It must not go on with a server
 * that may have lost what it acknowledged. So the target's name tells the
 * incarnation, and a server that is another refuses it. Then, as when no server
 * comes back, I/O fails after the dead timeout.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/process.h"
#include "initiator/iscsi/iscsi_record.h"
#include "initiator/iscsi/iscsi_sysfs.h"
#include "initiator/transport/transport.h"

#define MODPROBE_TIMEOUT_MS 10000
#define ADMIN_TIMEOUT_MS    60000 /* of one iscsiadm, with the kernel's scan */
#define DISK_TIMEOUT_MS     20000
#define LOGIN_TIMEOUT_MS    20000 /* more than iscsid gives a login */
#define STRAY_TIMEOUT_MS    5000  /* iscsid begins a login much sooner */
#define STEP_MS             20
#define RETRY_MS            200
#define LUN                 0
#define DAEMON_SOCKET       "@ISCSIADM_ABSTRACT_NAMESPACE"

/* Exit codes of iscsiadm (iscsiadm(8), "EXIT STATUS"). */
enum {
	ADMIN_SESSION_NOT_FOUND = 2,
	ADMIN_TRANSPORT = 4,
	ADMIN_TRANSPORT_TIMEOUT = 8,
	ADMIN_INTERNAL = 9, /* also: that session is just being logged in */
	ADMIN_PDU_TIMEOUT = 11,
	ADMIN_SESSION_EXISTS = 15,
	ADMIN_FATAL_LOGIN = 19,
	ADMIN_NO_DAEMON = 20,
	ADMIN_NOT_FOUND = 21,
	ADMIN_AUTH_FAILED = 24,
	ADMIN_BUSY = 28,
};

/* ---- iscsiadm ---- */

static int admin_error(int code)
{
	switch (code) {
	case ADMIN_TRANSPORT:
	case ADMIN_TRANSPORT_TIMEOUT:
	case ADMIN_PDU_TIMEOUT: return EHOSTUNREACH;
	case ADMIN_FATAL_LOGIN:
	case ADMIN_AUTH_FAILED: return EACCES;
	case ADMIN_NO_DAEMON: return ENODEV;
	case ADMIN_BUSY: return EBUSY;
	case ADMIN_INTERNAL: return EAGAIN;
	default: return EIO;
	}
}

/* Find the line with the reason: the last one with "reported error", or any. */
static void find_reason(const char *errors, char *ret, size_t size)
{
	const char *at = strstr(errors, "reported error"), *end;

	if (!at)
		at = errors;
	end = at + strcspn(at, "\n");
	(void)snprintf(ret, size, "%.*s", (int)(end - at), at);
}

/* Run iscsiadm. Exit code @fine (0: only 0) counts as done. */
static int admin(const char *const *argv, int fine, struct error *err)
{
	struct process_result result;
	char why[192];
	int r = process_run(argv, NULL, ADMIN_TIMEOUT_MS, -1, &result, err);

	if (r < 0)
		return error_prefix(err, r, "iscsiadm: ");
	if (result.exit_code && result.exit_code != fine) {
		find_reason(result.errors, why, sizeof(why));
		r = error_set(err, admin_error(result.exit_code),
			      "iscsiadm exit %d: %s", result.exit_code, why);
	}
	process_result_done(&result);
	return r;
}

/* Does iscsid listen? Without systemd nobody starts it for us. */
static bool daemon_listens(void)
{
	auto_fclose FILE *f = fopen("/proc/net/unix", "re");
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		const char *name = strrchr(line, ' ');

		if (name && !strncmp(name + 1, DAEMON_SOCKET "\n",
				     strlen(DAEMON_SOCKET) + 1))
			return true;
	}
	return false;
}

static int iscsi_probe(struct error *err)
{
	static const char *const version[] = {"iscsiadm", "--version", NULL};
	static const char *const modprobe[] = {"modprobe", "-q", "iscsi_tcp",
					       NULL};

	if (!daemon_listens())
		return error_set(err, ENODEV,
				 "iscsid (open-iscsi) does not run");
	if (process_must(version, MODPROBE_TIMEOUT_MS, NULL) < 0)
		return error_set(err, ENODEV,
				 "there is no iscsiadm (open-iscsi)");
	if (!iscsi_sysfs_usable(ISCSI_SYSFS))
		(void)process_must(modprobe, MODPROBE_TIMEOUT_MS, NULL);
	if (!iscsi_sysfs_usable(ISCSI_SYSFS))
		return error_set(err, ENODEV,
				 "the kernel has no iSCSI client (modprobe "
				 "iscsi_tcp failed)");
	return 0;
}

/* ---- session ---- */

static int make_record(const struct attachment *a, const char *portal,
		       struct error *err)
{
	const struct record *r = &a->record;
	const char *const iface[] = {"iscsiadm", "-m", "iface", "-I",
				     a->tag,     "-o", "new",   NULL};
	const char *const node[] = {"iscsiadm",     "-m", "node", "-T",
				    r->export_name, "-p", portal, "-I",
				    a->tag,         "-o", "new",  NULL};
	struct chap_secrets secrets = {.user = ""};
	const struct iscsi_record_options options = {
		.dead_timeout_s = (r->dead_timeout_ms + 999) / 1000,
		.secrets = r->chap_file[0] ? &secrets : NULL,
	};
	int status = 0;

	if (r->chap_file[0])
		status = chap_secrets_load(r->chap_file, &secrets, err);
	if (!status && r->chap_file[0] && !secrets.user[0])
		status = error_set(err, EINVAL,
				   "CHAP secrets '%s': there is no user",
				   r->chap_file);
	if (!status)
		status = admin(iface, 0, err);
	if (!status)
		status = admin(node, 0, err);
	if (!status)
		status = iscsi_record_write(r->address, r->export_name, a->tag,
					    &options, err);
	explicit_bzero(&secrets, sizeof(secrets));
	return status;
}

/*
 * Note this process in the record. If the record names a process that is not
 * alive, iscsid may still be about to make the session.
 */
static int remember_login(struct attachment *a, struct error *err)
{
	struct record *r = &a->record;
	int status = process_start_time(getpid(), &r->pid_start);

	if (status < 0)
		return error_set(err, -status,
				 "the start time of this process");
	r->pid = getpid();
	return record_save(a->dirfd, r, err);
}

static int login(struct attachment *a, struct error *err)
{
	struct record *r = &a->record;
	char portal[RECORD_TEXT_MAX + 4];
	const char *const argv[] = {"iscsiadm",     "-m", "node", "-T",
				    r->export_name, "-p", portal, "-I",
				    a->tag,         "-l", NULL};
	int status;

	(void)snprintf(portal, sizeof(portal), "%s,1", r->address);
	status = make_record(a, portal, err);
	if (!status)
		status = remember_login(a, err);
	if (!status)
		status = admin(argv, ADMIN_SESSION_EXISTS, err);
	r->pid = 0;
	if (status < 0)
		return error_prefix(err, status,
				    "log in to %s at %s: ", r->export_name,
				    r->address);
	return 0;
}

/*
 * Log out of a session; one that is just being logged in has to be waited for.
 */
static int logout(unsigned session, struct error *err)
{
	int64_t end = clock_ms() + LOGIN_TIMEOUT_MS;
	char id[16];
	const char *const argv[] = {"iscsiadm", "-m", "session", "-r",
				    id,         "-u", NULL};
	int r;

	(void)snprintf(id, sizeof(id), "%u", session);
	for (;;) {
		r = admin(argv, ADMIN_SESSION_NOT_FOUND, err);
		if (r != -EAGAIN || clock_ms() >= end)
			return r;
		(void)poll(NULL, 0, RETRY_MS);
	}
}

static int session_of(const struct attachment *a, struct iscsi_session *ret)
{
	return iscsi_session_find(ISCSI_SYSFS, a->tag, ret);
}

static int disk_of(const struct attachment *a, struct iscsi_session *session,
		   struct iscsi_disk *ret)
{
	int r = session_of(a, session);

	return r < 0 ? r : iscsi_disk_find(ISCSI_SYSFS, session->id, LUN, ret);
}

/* ---- disk ---- */

static void device_of(const struct iscsi_disk *disk,
		      char ret[static DEVICE_PATH_MAX])
{
	(void)snprintf(ret, DEVICE_PATH_MAX, "/dev/%.24s", disk->name);
}

/* Can the device be opened? sysfs and /dev show it a moment before. */
static bool opens(const char *device)
{
	auto_close int fd = open(device, O_RDONLY | O_CLOEXEC);

	return fd >= 0;
}

/* Wait for the disk: the kernel looks for disks after the login. */
static int wait_for_disk(struct attachment *a, struct iscsi_disk *ret,
			 struct error *err)
{
	int64_t end = clock_ms() + DISK_TIMEOUT_MS;
	struct iscsi_session session;

	for (;;) {
		if (!disk_of(a, &session, ret)) {
			device_of(ret, a->record.device);
			if (opens(a->record.device))
				return 0;
		}
		if (clock_ms() >= end)
			return error_set(err, EIO,
					 "%s has no disk at LUN %d that can "
					 "be opened",
					 a->record.export_name, LUN);
		(void)poll(NULL, 0, STEP_MS);
	}
}

static int check_disk(const struct record *r, const struct iscsi_disk *disk,
		      struct error *err)
{
	auto_close int fd = open(r->device, O_RDONLY | O_CLOEXEC);
	uint64_t size = 0;
	int block = 0, yes = 1;

	if (r->identity[0] && strcmp(disk->serial, r->identity) != 0)
		return error_set(err, ENODEV,
				 "%s is the disk '%.40s', not extent %s",
				 r->device, disk->serial, r->identity);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size) < 0 ||
	    ioctl(fd, BLKSSZGET, &block) < 0)
		return error_set(err, errno, "%s: %s", r->device,
				 strerror(errno));
	if (size != r->size)
		return error_set(err, EINVAL, "%s has %llu bytes, not %llu",
				 r->device, (unsigned long long)size,
				 (unsigned long long)r->size);
	if (block != DEVICE_BLOCK_SIZE)
		return error_set(err, EINVAL,
				 "%s has blocks of %d bytes, not of %d: export "
				 "the extent with that block size",
				 r->device, block, DEVICE_BLOCK_SIZE);
	if (r->read_only && ioctl(fd, BLKROSET, &yes) < 0)
		return error_set(err, errno, "%s: read-only: %s", r->device,
				 strerror(errno));
	return 0;
}

static int iscsi_attach(struct attachment *a, struct error *err)
{
	struct iscsi_disk disk;
	int r = login(a, err);

	if (!r)
		r = wait_for_disk(a, &disk, err);
	if (!r)
		r = check_disk(&a->record, &disk, err);
	return r;
}

/* ---- the rest ---- */

/* Find the session, or make sure that there will be none any more. */
static int find_session(const struct attachment *a, struct iscsi_session *ret)
{
	const struct record *record = &a->record;
	int64_t end = clock_ms() + STRAY_TIMEOUT_MS;
	int r = session_of(a, ret);

	if (!record->pid || process_alive(record->pid, record->pid_start))
		return r;
	while (r < 0 && clock_ms() < end) {
		(void)poll(NULL, 0, STEP_MS);
		r = session_of(a, ret);
	}
	return r;
}

/*
 * End the session. The disk is open until it is gone, so that nobody mounts it
 * meanwhile.
 */
static int end_session(const struct attachment *a, struct error *err)
{
	struct iscsi_session session;
	struct iscsi_disk disk;
	char device[DEVICE_PATH_MAX];
	auto_close int fd = -1;
	int r;

	if (find_session(a, &session) < 0)
		return 0;
	if (!iscsi_disk_find(ISCSI_SYSFS, session.id, LUN, &disk)) {
		device_of(&disk, device);
		r = device_open_idle(device, &fd, err);
		if (r < 0 && r != -ENODEV)
			return r;
		if (fd >= 0) /* a lost server must not hold this up for good */
			(void)fsync(fd);
	}
	return logout(session.id, err);
}

/* A logout ends the session's recovery, and with it what waits for that. */
static int iscsi_fail(struct attachment *a, struct error *err)
{
	struct iscsi_session session;

	return find_session(a, &session) < 0 ? 0 : logout(session.id, err);
}

static int iscsi_detach(struct attachment *a, struct error *err)
{
	/* With it go the node records that are bound to it. */
	const char *const argv[] = {"iscsiadm", "-m", "iface",  "-I",
				    a->tag,     "-o", "delete", NULL};
	int r = end_session(a, err);

	if (!r && iscsi_record_has_iface(a->tag))
		r = admin(argv, ADMIN_NOT_FOUND, err);
	if (!r)
		a->record.device[0] = '\0';
	return r;
}

static int iscsi_check(struct attachment *a, bool *ret_dead, struct error *err)
{
	struct iscsi_session session;
	struct iscsi_disk disk;

	*ret_dead = true;
	if (disk_of(a, &session, &disk) < 0)
		return error_set(err, ENODEV,
				 "its iSCSI session or disk is gone: attach it "
				 "again");
	device_of(&disk, a->record.device);
	if (!strcmp(disk.state, "transport-offline") ||
	    !strcmp(disk.state, "offline"))
		return error_set(err, EIO,
				 "its server was away for too long, or refuses "
				 "it, and its I/O fails: attach it again");
	*ret_dead = false;
	if (strcmp(session.state, "LOGGED_IN") != 0)
		return error_set(err, EIO,
				 "it waits for its server (session %u is %s)",
				 session.id, session.state);
	return 0;
}

static int iscsi_resize(struct attachment *a, uint64_t size, struct error *err)
{
	struct iscsi_session session;
	struct iscsi_disk disk;
	char id[16];
	const char *const argv[] = {"iscsiadm", "-m", "session", "-r",
				    id,         "-R", NULL};
	uint64_t now = 0;
	int r;

	if (disk_of(a, &session, &disk) < 0)
		return error_set(err, ENODEV, "its iSCSI session is gone");
	(void)snprintf(id, sizeof(id), "%u", session.id);
	r = admin(argv, 0, err);
	if (!r)
		r = device_size(a->record.device, &now, err);
	if (!r && now < size)
		r = error_set(err, EINVAL,
			      "the target's disk has %llu bytes, not %llu: "
			      "grow the extent first",
			      (unsigned long long)now,
			      (unsigned long long)size);
	return r;
}

const struct transport transport_iscsi = {
	.name = "iscsi",
	.iscsi = true,
	.probe = iscsi_probe,
	.attach = iscsi_attach,
	.detach = iscsi_detach,
	.check = iscsi_check,
	.resize = iscsi_resize,
	.fail = iscsi_fail,
};
