/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/api/kube_time.h"

#include <time.h>

#include "volume/store/kube/api/kube_call.h"

struct json_object *kube_time_new(int64_t seconds)
{
	char text[64];
	time_t t = (time_t)seconds;
	struct tm tm;

	if (!gmtime_r(&t, &tm) ||
	    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S.000000Z", &tm) == 0)
		return NULL;
	return json_object_new_string(text);
}

int64_t kube_time_of(struct json_object *object, const char *a, const char *b)
{
	const char *text = kube_text(object, a, b);
	struct tm tm = {0};

	return strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) ? timegm(&tm) : 0;
}
