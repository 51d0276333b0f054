/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volume/record/json_scan.h"
#include "volume/record/node.h"
#include "volume/record/record_json.h"

#define NODE_TEXT_MAX (64u << 10) /* bytes of JSON */

void node_record_done(struct node_record *node)
{
	labels_done(&node->labels);
	name_list_done(&node->cordoned_pools);
	node_report_free(node->report);
	node->report = NULL;
	node_scrub_free(node->scrub);
	node->scrub = NULL;
}

void node_record_inherit(struct node_record *node,
			 const struct node_record *old)
{
	memcpy(node->uid, old->uid, sizeof(node->uid));
	memcpy(node->resource_version, old->resource_version,
	       sizeof(node->resource_version));
	node->created_s = old->created_s;
	node->max_volumes = old->max_volumes;
	node->cordoned = old->cordoned;
	node->cordoned_pools = old->cordoned_pools;
	node->scrub = old->scrub;
}

bool node_record_cordons(const struct node_record *node, const char *pool)
{
	return node->cordoned || name_list_has(&node->cordoned_pools, pool);
}

void node_extent_done(struct node_extent *extent)
{
	labels_done(&extent->labels);
	free(extent->initiators);
	extent->initiators = NULL;
	extent->n_initiators = 0;
}

void node_extents_free(struct node_extent *extents, size_t count)
{
	for (size_t i = 0; i < count; i++)
		node_extent_done(&extents[i]);
	free(extents);
}

void node_states_free(struct node_state *states, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		node_record_done(&states[i].record);
		free(states[i].pools);
	}
	free(states);
}

/* "HOST:PORT" with something on both sides and a port that is one. */
static bool host_port_ok(const char *address)
{
	const char *colon = strrchr(address, ':');
	char *end;
	unsigned long port;

	if (!colon || colon == address || colon[1] < '0' || colon[1] > '9')
		return false;
	port = strtoul(colon + 1, &end, 10);
	return *end == '\0' && port > 0 && port <= UINT16_MAX;
}

static bool unix_ok(const char *address)
{
	return strncmp(address, "unix:/", 6) == 0 && address[6];
}

static bool ip_ok(const char *address)
{
	uint8_t bytes[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, address, bytes) == 1 ||
	       inet_pton(AF_INET6, address, bytes) == 1;
}

int node_record_check(const struct node_record *node, struct error *err)
{
	const char *control = node->control_address;
	const char *data = node->data_address;
	bool tls = node->tls_ca_file[0] || node->tls_cert_file[0] ||
		   node->tls_key_file[0];
	int r = name_check("node", node->name, err);

	if (r < 0)
		return r;
	if (!control[0] != !data[0])
		return error_set(err, EINVAL,
				 "a node has a control and a data address, or "
				 "neither: then it only uses volumes");
	if (control[0] && !unix_ok(control) &&
	    !(strncmp(control, "tcp:", 4) == 0 && host_port_ok(control + 4)))
		return error_set(err, EINVAL,
				 "control address '%s' is neither "
				 "'unix:/PATH' nor 'tcp:HOST:PORT'",
				 control);
	if (data[0] && !unix_ok(data) && !host_port_ok(data))
		return error_set(err, EINVAL,
				 "data address '%s' is neither 'HOST:PORT' "
				 "nor 'unix:/PATH'",
				 data);
	for (size_t i = 0; i < node->n_initiators; i++) {
		if (!ip_ok(node->initiators[i]))
			return error_set(err, EINVAL,
					 "initiator '%s' is no IP address",
					 node->initiators[i]);
	}
	if (tls && (!node->tls_ca_file[0] || !node->tls_cert_file[0] ||
		    !node->tls_key_file[0]))
		return error_set(err, EINVAL,
				 "TLS needs all three: the authority's "
				 "certificate, a certificate and its key");
	return 0;
}

static struct json_object *encode_tls(const struct node_record *node)
{
	struct json_object *object = json_object_new_object();

	json_add_text(object, "caFile", node->tls_ca_file);
	json_add_text(object, "certFile", node->tls_cert_file);
	json_add_text(object, "keyFile", node->tls_key_file);
	json_add_text(object, "serverName", node->tls_server_name);
	return object;
}

static struct json_object *node_encode_status(const struct node_record *node)
{
	struct json_object *status = node_report_to_json(node->report)
					     ?: json_object_new_object();

	if (node->scrub)
		json_add(status, "scrub", node_scrub_to_json(node->scrub));
	return status;
}

int node_record_encode(const struct node_record *node, char **ret_json,
		       struct error *err)
{
	struct json_object *object = json_object_new_object();
	struct json_object *meta = json_object_new_object();
	struct json_object *spec = json_object_new_object();
	struct json_object *initiators = json_object_new_array();

	json_add_text(object, "apiVersion", RECORD_API_VERSION);
	json_add_text(object, "kind", RECORD_KIND_NODE);
	json_add_text(meta, "name", node->name);
	json_add_text(meta, "uid", node->uid);
	json_add_text(meta, "resourceVersion", node->resource_version);
	json_add(meta, "creationTimestamp", json_from_time(node->created_s));
	if (node->labels.count > 0)
		json_add(meta, "labels", json_from_labels(&node->labels));
	json_add(object, "metadata", meta);
	json_add_text(spec, "controlAddress", node->control_address);
	json_add_text(spec, "dataAddress", node->data_address);
	for (size_t i = 0; i < node->n_initiators; i++)
		(void)json_object_array_add(
			initiators,
			json_object_new_string(node->initiators[i]));
	json_add(spec, "initiatorAddresses", initiators);
	if (node->tls_ca_file[0])
		json_add(spec, "tls", encode_tls(node));
	if (node->max_volumes)
		json_add_number(spec, "maxVolumes", node->max_volumes);
	if (node->cordoned)
		json_add(spec, "cordoned", json_object_new_boolean(true));
	if (node->cordoned_pools.count > 0)
		json_add(spec, "cordonedPools",
			 record_json_names(&node->cordoned_pools));
	json_add(object, "spec", spec);
	if (node->report || node->scrub)
		json_add(object, "status", node_encode_status(node));
	return json_finish(object, NODE_TEXT_MAX, ret_json, err);
}

static void scan_initiators(struct json_scan *scan, struct json_object *spec,
			    struct node_record *node)
{
	struct json_object *array = json_scan_array(
		scan, spec, "initiatorAddresses", NODE_INITIATORS_MAX, false);
	size_t n = array ? json_object_array_length(array) : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *item = json_object_array_get_idx(array, i);

		if (!json_object_is_type(item, json_type_string) ||
		    json_object_get_string_len(item) >= NODE_ADDRESS_SIZE) {
			json_scan_fail(scan, "initiatorAddresses",
				       "has a member that is no address");
			return;
		}
		strcpy(node->initiators[i], json_object_get_string(item));
		node->n_initiators++;
	}
}

static void scan_node(struct json_scan *scan, struct json_object *object,
		      struct node_record *node)
{
	struct json_object *meta = json_scan_object(scan, object, "metadata",
						    true);
	struct json_object *spec = json_scan_object(scan, object, "spec", true);
	struct json_object *status = json_scan_object(scan, object, "status",
						      false);
	struct json_object *tls;

	json_scan_at(scan, "metadata");
	json_scan_text(scan, meta, "name", node->name, sizeof(node->name),
		       true);
	json_scan_text(scan, meta, "uid", node->uid, sizeof(node->uid), false);
	json_scan_text(scan, meta, "resourceVersion", node->resource_version,
		       sizeof(node->resource_version), false);
	node->created_s = json_scan_time(scan, meta, "creationTimestamp");
	json_scan_labels(scan, meta, "labels", &node->labels);

	json_scan_at(scan, "spec");
	json_scan_text(scan, spec, "controlAddress", node->control_address,
		       sizeof(node->control_address), false);
	json_scan_text(scan, spec, "dataAddress", node->data_address,
		       sizeof(node->data_address), false);
	scan_initiators(scan, spec, node);
	node->max_volumes = (unsigned)json_scan_number(
		scan, spec, "maxVolumes", 0, NODE_VOLUMES_MAX, false);
	node->cordoned = json_scan_flag(scan, spec, "cordoned");
	record_scan_names(scan, spec, "cordonedPools", NODE_REPORT_POOLS_MAX,
			  &node->cordoned_pools);
	tls = json_scan_object(scan, spec, "tls", false);
	json_scan_at(scan, "spec.tls");
	json_scan_text(scan, tls, "caFile", node->tls_ca_file,
		       sizeof(node->tls_ca_file), false);
	json_scan_text(scan, tls, "certFile", node->tls_cert_file,
		       sizeof(node->tls_cert_file), false);
	json_scan_text(scan, tls, "keyFile", node->tls_key_file,
		       sizeof(node->tls_key_file), false);
	json_scan_text(scan, tls, "serverName", node->tls_server_name,
		       sizeof(node->tls_server_name), false);
	node_report_scan(scan, status, &node->report);
	node_scrub_scan(scan, status, &node->scrub);
}

int node_record_decode(const char *json, size_t length, struct node_record *ret,
		       struct error *err)
{
	struct json_scan scan = {.err = err};
	struct node_record node = {0};
	struct json_object *object;
	int r = json_scan_document(json, length, NODE_TEXT_MAX,
				   RECORD_API_VERSION, RECORD_KIND_NODE,
				   &object, err);

	if (r < 0)
		return r;
	scan_node(&scan, object, &node);
	r = scan.r;
	if (r == 0)
		r = node_record_check(&node, err);
	json_object_put(object);
	if (r < 0) {
		node_record_done(&node);
		return r;
	}
	*ret = node;
	return 0;
}
