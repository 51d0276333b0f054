/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of the Controller service. */
#ifndef CSI_CONTROLLER_H
#define CSI_CONTROLLER_H

#include "csi/call/call.h"

/* controller.c */
int csi_create_volume(struct csi_call *c, const void *in, void *out);
int csi_delete_volume(struct csi_call *c, const void *in, void *out);
int csi_controller_get_capabilities(struct csi_call *c, const void *in,
				    void *out);
/* controller_validate.c */
int csi_validate_volume_capabilities(struct csi_call *c, const void *in,
				     void *out);
/* controller_expand.c */
int csi_controller_expand_volume(struct csi_call *c, const void *in, void *out);
/* controller_publish.c */
int csi_controller_publish_volume(struct csi_call *c, const void *in,
				  void *out);
int csi_controller_unpublish_volume(struct csi_call *c, const void *in,
				    void *out);
/* controller_list.c */
int csi_list_volumes(struct csi_call *c, const void *in, void *out);
int csi_controller_get_volume(struct csi_call *c, const void *in, void *out);
/* controller_capacity.c */
int csi_get_capacity(struct csi_call *c, const void *in, void *out);
/* controller_modify.c */
int csi_controller_modify_volume(struct csi_call *c, const void *in, void *out);
/* controller_snapshot.c */
int csi_create_snapshot(struct csi_call *c, const void *in, void *out);
int csi_delete_snapshot(struct csi_call *c, const void *in, void *out);
int csi_list_snapshots(struct csi_call *c, const void *in, void *out);
int csi_get_snapshot(struct csi_call *c, const void *in, void *out);
/* group_controller.c */
int csi_group_controller_get_capabilities(struct csi_call *c, const void *in,
					  void *out);
int csi_create_volume_group_snapshot(struct csi_call *c, const void *in,
				     void *out);
int csi_delete_volume_group_snapshot(struct csi_call *c, const void *in,
				     void *out);
int csi_get_volume_group_snapshot(struct csi_call *c, const void *in,
				  void *out);
/* snapshot_metadata.c */
int csi_get_metadata_allocated(struct csi_call *c, const void *in, void *out);
int csi_get_metadata_delta(struct csi_call *c, const void *in, void *out);

#endif
