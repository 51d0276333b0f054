/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole iSCSI server, with the device server behind it, before a peer that
 * says arbitrary bytes: from the first one, or once it has logged in. The first
 * byte says which, and whether by TCP; the second how the rest is cut. The LUNs
 * are new for each input, so that what one did to them does not help the next.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "target/iscsi/iscsi_chap.h"
#include "target/testkit/server_fuzz_kit.h"

#define HEALTH_EACH 16 /* inputs */
#define GROUP       "iqn.2000-01.org:group"
#define CLOSED      "iqn.2000-01.org:closed"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- what the peer says ---- */

/* RFC 7143 11.12: @flags: transit, stages */
static void put_login(struct fuzz_bytes *to, uint8_t flags, const char *keys,
		      size_t length)
{
	fuzz_put_number(to, 0x43, 1);
	fuzz_put_number(to, flags, 1);
	fuzz_put_number(to, 0, 2); /* versions */
	fuzz_put_number(to, length, 4);
	fuzz_put(to,
		 "\x80"
		 "abcde",
		 6);               /* ISID */
	fuzz_put_number(to, 0, 2); /* TSIH */
	fuzz_put_number(to, 1, 4); /* tag */
	fuzz_put_number(to, 0, 4); /* CID */
	fuzz_put_number(to, 1, 4); /* CmdSN */
	fuzz_put_number(to, 0, 4); /* ExpStatSN */
	fuzz_put_number(to, 0, 8);
	fuzz_put_number(to, 0, 8);
	fuzz_put(to, keys, length);
	fuzz_put_number(to, 0, -length & 3);
}

#define PUT_LOGIN(to, flags, keys) put_login(to, flags, keys, sizeof(keys))

/* @how: 0 says nothing. */
static struct fuzz_bytes begin(unsigned how)
{
	struct fuzz_bytes first = {.length = 0};

	switch (how) {
	case 1: /* the rest is a session's */
		PUT_LOGIN(&first, 0x87,
			  "InitiatorName=iqn.x:me\0TargetName=" GROUP
			  "\0InitialR2T=No\0ImmediateData=Yes");
		break;
	case 2: /* a discovery session's */
		PUT_LOGIN(&first, 0x87,
			  "InitiatorName=iqn.x:me\0SessionType=Discovery");
		break;
	case 3: /* in the middle of CHAP */
		PUT_LOGIN(&first, 0x00,
			  "InitiatorName=iqn.x:me\0TargetName=" CLOSED
			  "\0AuthMethod=CHAP");
		PUT_LOGIN(&first, 0x00, "CHAP_A=7,6,5");
		break;
	case 4: /* in the middle of its operational stage */
		PUT_LOGIN(&first, 0x04,
			  "InitiatorName=iqn.x:me\0TargetName=" GROUP);
		break;
	case 5: /* with digests, which it does not get right */
		PUT_LOGIN(&first, 0x87,
			  "InitiatorName=iqn.x:me\0TargetName=" GROUP
			  "\0DataDigest=CRC32C,None");
		break;
	default: break;
	}
	return first;
}

/* A READ (10) of one block at LUN 1, and a goodbye. */
static void put_read(struct fuzz_bytes *to)
{
	static const uint8_t cdb[16] = {0x28, 0, 0, 0, 0, 8, 0, 0, 1};

	fuzz_put_number(to, 0x01, 1);
	fuzz_put_number(to, 0xc1, 1); /* final, read, simple */
	fuzz_put_number(to, 0, 6);
	fuzz_put_number(to, 1, 2); /* LUN */
	fuzz_put_number(to, 0, 6);
	fuzz_put_number(to, 2, 4);   /* tag */
	fuzz_put_number(to, 512, 4); /* expected */
	fuzz_put_number(to, 2, 4);   /* CmdSN */
	fuzz_put_number(to, 0, 4);   /* ExpStatSN */
	fuzz_put(to, cdb, sizeof(cdb));
	fuzz_put_number(to, 0x46, 1); /* logout, immediate */
	fuzz_put_number(to, 0x80, 1);
	fuzz_put_number(to, 0, 6);
	fuzz_put_number(to, 0, 8);
	fuzz_put_number(to, 3, 4); /* tag */
	fuzz_put_number(to, 0, 4);
	fuzz_put_number(to, 3, 4); /* CmdSN */
	fuzz_put_number(to, 0, 8);
	fuzz_put_number(to, 0, 8);
	fuzz_put_number(to, 0, 4);
}

/* Power on is told first: TEST UNIT READY takes it. */
static void put_ready(struct fuzz_bytes *to)
{
	fuzz_put_number(to, 0x01, 1);
	fuzz_put_number(to, 0x81, 1);
	fuzz_put_number(to, 0, 6);
	fuzz_put_number(to, 1, 2);
	fuzz_put_number(to, 0, 6);
	fuzz_put_number(to, 9, 4);
	fuzz_put_number(to, 0, 4);
	fuzz_put_number(to, 1, 4);
	fuzz_put_number(to, 0, 4);
	fuzz_put_number(to, 0, 8);
	fuzz_put_number(to, 0, 8);
}

/* ---- the server ---- */

static void export_set(struct target *target, const char *name,
		       const struct target_scsi *scsi)
{
	static const char *const anybody = "any";
	const struct target_export spec = {.name = name,
					   .initiators = &anybody,
					   .n_initiators = 1,
					   .scsi = scsi,
					   .open = fuzz_open};

	if (target_export_remove(target, name, NULL) < 0 ||
	    target_export_set(target, &spec, NULL) < 0)
		abort();
}

static void exports_renew(struct target *target)
{
	static const struct chap_secrets secrets = {
		.user = "me", .secret = "secret of twelve"};
	struct target_scsi scsi = {.name = GROUP,
				   .size = FUZZ_DEVICE_SIZE,
				   .thin = true,
				   .removable = true};

	export_set(target, "a", &scsi);
	scsi.lun = 1;
	scsi.uuid[0] = 1;
	scsi.removable = false;
	export_set(target, "b", &scsi);
	scsi.name = CLOSED;
	scsi.uuid[0] = 2;
	scsi.secrets = &secrets;
	export_set(target, "c", &scsi);
}

/* Somebody with manners is served. */
static void check_health(bool tcp)
{
	struct fuzz_bytes first = begin(1), heard = {.length = 0};
	size_t login;

	put_ready(&first);
	put_read(&first);
	(void)fuzz_exchange(tcp, &first, NULL, 0, 1, &heard);
	/* The login's answer, the attention, 512 bytes, the goodbye. */
	assert(heard.length > 4 * 48 + 512 && heard.data[36] == 0);
	login = 48 + ((heard.data[6] << 8 | heard.data[7]) + 3u) / 4 * 4;
	assert(heard.data[login] == 0x21); /* a response: the attention */
	assert(heard.data[heard.length - 48] == 0x26);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct target *target;
	static unsigned n;
	struct fuzz_bytes first;

	if (size < 2)
		return 0;
	if (!target)
		target = fuzz_server(NULL, target_listen_iscsi);
	exports_renew(target);
	first = begin((data[0] & FUZZ_BEGINNING) % 6);
	(void)fuzz_exchange(data[0] & FUZZ_BY_TCP, &first, data + 2, size - 2,
			    1 + data[1] * 16u, NULL);
	if (n++ % HEALTH_EACH == 0)
		check_health(n / HEALTH_EACH % 2);
	return 0;
}
