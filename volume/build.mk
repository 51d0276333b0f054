# Where records are kept, and the nodes.
volume_kube := volume/kube_beat.c volume/kube_call.c volume/kube_config.c \
  volume/kube_curl.c volume/kube_event.c volume/kube_http.c \
  volume/kube_lease.c volume/kube_lease_object.c volume/kube_list.c \
  volume/kube_notice.c volume/kube_object.c \
  volume/kube_stream.c volume/kube_time.c volume/kube_watch.c \
  volume/kube_yaml.c
volume_stores := $(volume_kube) \
  volume/store.c volume/store_open.c volume/store_known.c volume/store_kube.c \
  volume/store_kube_write.c volume/store_local.c volume/store_local_lease.c \
  volume/store_local_open.c volume/store_local_sql.c \
  volume/store_local_watch.c
volume_store := $(volume_stores) volume/lead.c volume/node_keep.c volume/node_observe.c \
  volume/node_record.c volume/node_report.c volume/node_states.c volume/nodes.c volume/watch.c

$(eval $(call library,volume,\
  volume/branch_check.c volume/branch_fs.c volume/context.c volume/cut.c volume/export_stats.c volume/extent_copies.c volume/extent_cut.c \
  volume/extents.c \
  volume/flow_attach.c volume/flow_check.c volume/flow_create.c volume/flow_delete.c \
  volume/iscsi_route.c \
  volume/flow_detach.c volume/flow_resize.c volume/json_scan.c \
  $(volume_store) volume/label.c volume/local.c \
  volume/mounts.c volume/record_json.c volume/operation.c \
  volume/snapshot_record.c volume/snapshot_record_json.c \
  volume/group_record_json.c volume/record_store.c volume/snapshot_op.c \
  volume/snapshot_extents.c volume/snapshot_cut.c volume/snapshot_list.c \
  volume/snapshot_ranges.c volume/flow_snapshot.c volume/flow_trim.c volume/flow_group.c \
  volume/group_follow.c volume/held.c volume/flow_recover.c volume/extent_labels.c \
  volume/flow_revert.c volume/source.c volume/limits.c \
  volume/attach_claim.c \
  volume/flow_publish.c volume/mount_options.c volume/split_attach.c \
  volume/split_batch.c volume/split_check.c volume/split_export.c volume/node_answer.c volume/node_client.c \
  volume/node_client_copies.c volume/node_client_extents.c volume/note.c \
  volume/observe.c \
  volume/orphans.c volume/placement.c volume/planner.c \
  volume/planner_grow.c volume/planner_in_place.c volume/planner_strategy.c \
  volume/resize_extents.c volume/resize_here.c volume/resize_plan.c \
  volume/room.c volume/local_union.c volume/split.c volume/status.c \
  volume/union_process.c volume/volume_record.c volume/volume_record_json.c \
  volume/volume_spec.c,\
  json-c libcurl sqlite3 yaml-0.1 mount blkid,initiator launch rpc proto base))

$(eval $(call unit_test,volume/branch_fs_test,volume))
$(eval $(call unit_test,volume/volume_record_test,volume))
$(eval $(call unit_test,volume/mount_options_test,volume))
$(eval $(call unit_test,volume/store_test,volume,\
  volume/store_conformance.c volume/store_watching.c))
$(eval $(call unit_test,volume/kube_config_test,volume))
$(eval $(call unit_test,volume/kube_object_test,volume))
store_kit := volume/store_test_kit.c volume/kube_test_server.c
$(eval $(call unit_test,volume/store_kube_test,volume,$(store_kit) \
  volume/store_conformance.c volume/store_watching.c))
$(eval $(call unit_test,volume/store_kube_fault_test,volume,$(store_kit)))
$(eval $(call unit_test,volume/store_kube_access_test,volume,$(store_kit)))
$(eval $(call unit_test,volume/store_kube_watch_test,volume,$(store_kit) \
  volume/store_conformance.c volume/store_watching.c))
$(eval $(call unit_test,volume/lead_test,volume,$(store_kit)))
$(eval $(call unit_test,volume/node_keep_test,volume,$(store_kit)))
$(eval $(call unit_test,volume/note_test,volume))
$(eval $(call unit_test,volume/planner_test,volume))
$(eval $(call unit_test,volume/planner_grow_test,volume))
$(eval $(call unit_test,volume/planner_strategy_test,volume))
$(eval $(call unit_test,volume/placement_test,volume))
$(eval $(call test_helper,volume/volume_call_main,volume))
SYSTEM_TESTS += tests/system/volume.sh tests/system/volume_publish.sh tests/system/kube_store.sh tests/system/snapshot.sh \
  tests/system/volume_grow.sh tests/system/volume_extend.sh \
  tests/system/volume_records.sh tests/system/volume_check.sh
$(eval $(call fuzzer,volume/kube_object_fuzz,$(volume_stores) \
  volume/json_scan.c volume/label.c base/parallel.c \
  base/clock.c base/error.c base/file.c base/ident.c base/log.c \
  base/process.c,-lcurl -lyaml -ljson-c -lsqlite3))
$(eval $(call fuzzer,volume/kube_event_fuzz,volume/kube_event.c \
  volume/json_scan.c volume/label.c base/clock.c base/error.c base/file.c \
  base/log.c,-ljson-c))
$(eval $(call fuzzer,volume/volume_record_fuzz,volume/volume_record.c \
  volume/record_json.c \
  volume/volume_record_json.c volume/volume_spec.c volume/json_scan.c \
  volume/label.c base/clock.c base/error.c base/file.c base/ident.c \
  base/log.c base/size.c,-ljson-c))
$(eval $(call fuzzer,volume/kube_yaml_fuzz,volume/kube_yaml.c base/error.c,\
  -lyaml -ljson-c))
VM_TESTS += tests/vm/volume_grow.sh
$(foreach t,snapshot snapshot_kill snapshot_ranges group limit,\
  $(eval $(call unit_test,tests/volume_$(t)_test,volume,tests/snapshot_kit.c \
  csi/fake_node.c csi/fake_node_copies.c)))
$(OUT)/test/tests/volume_snapshot_kill_test: | $(OUT)/test/volume/volume_call_main
$(eval $(call unit_test,volume/snapshot_record_test,volume))
$(eval $(call fuzzer,volume/snapshot_record_fuzz,volume/snapshot_record.c \
  volume/snapshot_record_json.c volume/group_record_json.c \
  volume/volume_record.c volume/volume_record_json.c volume/record_json.c \
  volume/volume_spec.c volume/json_scan.c volume/label.c base/clock.c \
  base/error.c base/file.c base/ident.c base/log.c base/size.c,-ljson-c))
