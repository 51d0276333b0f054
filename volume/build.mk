# Where records are kept, and the nodes.
volume_kube := volume/store/kube/kube_heartbeat.c volume/store/kube/api/kube_call.c volume/store/kube/api/kube_config.c \
  volume/store/http/base64.c volume/store/http/http_client.c volume/store/http/http_curl.c volume/store/http/http_stream.c volume/store/http/json_lines.c volume/store/follow.c volume/store/lease_table.c volume/store/lease_who.c volume/store/kube/api/kube_watch_event.c volume/store/kube/api/kube_http.c \
  volume/store/kube/kube_lease.c volume/store/kube/kube_lease_object.c volume/store/kube/api/kube_list.c \
  volume/store/kube/kube_capacity.c volume/store/kube/kube_events.c volume/store/kube/kube_object.c \
  volume/store/kube/api/kube_time.c volume/store/kube/kube_watch.c \
  volume/store/kube/api/kube_yaml.c
volume_etcd := volume/store/etcd/etcd_answer.c volume/store/etcd/etcd_beat.c volume/store/etcd/etcd_call.c \
  volume/store/etcd/etcd_config.c volume/store/etcd/etcd_lease.c volume/store/etcd/etcd_watch.c \
  volume/store/etcd/store_etcd.c
volume_stores := $(volume_kube) $(volume_etcd) \
  volume/store/store.c volume/op/store_open.c volume/store/watch_diff.c volume/store/kube/store_kube.c \
  volume/store/kube/store_kube_write.c volume/store/local/store_local.c volume/store/local/store_local_lease.c \
  volume/store/local/store_local_open.c volume/store/local/store_local_sql.c \
  volume/store/local/store_local_watch.c
volume_store := $(volume_stores) volume/op/leader_election.c volume/cluster/node_agent.c volume/cluster/node_observe.c \
  volume/record/node_record.c volume/record/node_report.c volume/record/node_scrub.c volume/op/node_states.c volume/record/known_nodes.c volume/plan/known_load.c volume/cluster/nodes.c volume/cluster/node_remove.c volume/op/watch.c

$(eval $(call library,volume,\
  volume/mount/branch_check.c volume/mount/branch_fs.c volume/mount/branch_tool.c volume/op/context.c volume/op/volume_walk.c volume/op/cut.c volume/op/extent_pull.c volume/op/flow.c volume/extent/export_stats.c volume/extent/split_use.c volume/extent/extent_copies.c volume/extent/extent_snapshot.c \
  volume/extent/extents.c \
  volume/flow/flow_attach.c volume/flow/flow_check.c volume/flow/flow_create.c volume/flow/flow_delete.c volume/flow/flow_forget.c volume/move/flow_move.c volume/move/move_copy.c volume/move/move_union.c volume/move/move_union_drain.c volume/move/move_drop.c volume/move/drain.c volume/move/rebalance.c \
  volume/op/iscsi_route.c \
  volume/flow/flow_detach.c volume/flow/flow_resize.c volume/record/json_scan.c \
  $(volume_store) volume/record/label.c volume/mount/local.c volume/mount/stale_mounts.c \
  volume/mount/mounts.c volume/record/record_json.c volume/op/operation.c \
  volume/record/snapshot_record.c volume/record/snapshot_record_json.c \
  volume/record/group_record_json.c volume/op/record_io.c volume/snapshot/snapshot_op.c \
  volume/snapshot/snapshot_extents.c volume/snapshot/snapshot_take.c volume/snapshot/snapshot_list.c \
  volume/snapshot/snapshot_ranges.c volume/snapshot/flow_snapshot.c volume/flow/flow_trim.c volume/snapshot/flow_group.c \
  volume/snapshot/group_complete.c volume/extent/extent_inventory.c volume/flow/flow_recover.c volume/op/extent_labels.c \
  volume/snapshot/flow_revert.c volume/snapshot/clone_copy.c volume/snapshot/clone_source.c volume/flow/limits.c \
  volume/mount/attach_reserve.c \
  volume/flow/flow_publish.c volume/record/mount_options.c volume/mount/split_attach.c volume/mount/split_device.c volume/mount/split_direct.c volume/mount/split_format.c \
  volume/op/split_foreach.c volume/mount/split_check.c volume/op/split_withdraw.c volume/node/node_answer.c volume/node/node_client.c \
  volume/node/node_client_copies.c volume/node/node_client_extents.c volume/op/condition_writer.c \
  volume/flow/health_check.c \
  volume/scrub/orphans.c volume/scrub/orphan_match.c volume/scrub/orphan_search.c volume/scrub/scrub.c volume/scrub/reclaim.c volume/plan/volume_room.c volume/plan/planner.c \
  volume/plan/planner_grow.c volume/plan/planner_in_place.c volume/plan/planner_move.c volume/plan/planner_rebalance.c volume/plan/planner_strategy.c \
  volume/flow/resize_extents.c volume/flow/resize_here.c volume/plan/volume_plan.c \
  volume/plan/capacity.c volume/mount/local_fs.c volume/mount/local_union.c volume/op/split.c volume/flow/status.c \
  volume/mount/union_process.c volume/mount/union_command.c volume/record/volume_record.c volume/record/volume_record_json.c volume/record/split_move_json.c \
  volume/record/volume_spec.c,\
  json-c libcurl sqlite3 yaml-0.1 mount blkid,initiator launch rpc proto base))

$(eval $(call unit_test,volume/mount/branch_fs_test,volume))
$(eval $(call unit_test,volume/record/volume_record_test,volume))
$(eval $(call unit_test,volume/record/mount_options_test,volume))
$(eval $(call unit_test,volume/store/store_test,volume,\
  volume/testkit/store_conformance.c volume/testkit/store_watching.c))
$(eval $(call unit_test,volume/store/kube/api/kube_config_test,volume))
$(eval $(call unit_test,volume/store/kube/kube_object_test,volume))
$(eval $(call unit_test,volume/store/etcd/etcd_config_test,volume))
store_kit := volume/testkit/store_test_kit.c volume/testkit/kube_test_server.c
$(eval $(call unit_test,volume/store/kube/store_kube_test,volume,$(store_kit) \
  volume/testkit/store_conformance.c volume/testkit/store_watching.c))
$(eval $(call unit_test,volume/store/kube/store_kube_fault_test,volume,$(store_kit)))
$(eval $(call unit_test,volume/store/kube/kube_capacity_test,volume,$(store_kit)))
$(eval $(call unit_test,volume/store/kube/store_kube_access_test,volume,$(store_kit)))
$(eval $(call unit_test,volume/store/kube/store_kube_watch_test,volume,$(store_kit) \
  volume/testkit/store_conformance.c volume/testkit/store_watching.c))
$(eval $(call unit_test,volume/op/leader_election_test,volume,$(store_kit)))
$(eval $(call unit_test,volume/cluster/node_agent_test,volume,$(store_kit)))
$(eval $(call unit_test,volume/op/condition_writer_test,volume))
$(eval $(call unit_test,volume/op/flow_test,volume))
$(eval $(call unit_test,volume/plan/planner_test,volume))
$(eval $(call unit_test,volume/plan/planner_rebalance_test,volume))
$(eval $(call unit_test,volume/plan/planner_grow_test,volume))
$(eval $(call unit_test,volume/plan/planner_strategy_test,volume))
$(eval $(call unit_test,volume/plan/volume_room_test,volume))
$(eval $(call test_helper,volume/testkit/volume_call_main,volume))
$(eval $(call test_helper,tests/etcd/lost_lease,volume))
$(eval $(call test_helper,tests/etcd/store_watch,volume))
SYSTEM_TESTS += tests/system/volume.sh tests/system/volume_publish.sh tests/system/kube_store.sh tests/system/etcd_store.sh \
  tests/system/etcd_access.sh tests/system/etcd_hosts.sh tests/system/etcd_members.sh tests/system/snapshot.sh \
  tests/system/volume_grow.sh tests/system/volume_device.sh tests/system/volume_strangers.sh tests/system/volume_extend.sh \
  tests/system/volume_records.sh tests/system/volume_check.sh tests/system/volume_move.sh \
  tests/system/volume_lost.sh
$(eval $(call fuzzer,volume/store/kube/kube_object_fuzz,$(volume_stores) \
  volume/record/json_scan.c volume/record/label.c base/parallel.c \
  base/clock.c base/error.c base/file.c base/uuid_name.c base/log.c \
  base/process_stat.c,-lcurl -lyaml -ljson-c -lsqlite3))
$(eval $(call fuzzer,volume/store/etcd/etcd_answer_fuzz,volume/store/etcd/etcd_answer.c \
  volume/testkit/json_lines_fuzz_kit.c \
  volume/store/http/base64.c volume/store/http/json_lines.c volume/record/json_scan.c \
  volume/record/label.c base/clock.c base/error.c base/file.c base/log.c,-ljson-c))
$(eval $(call fuzzer,volume/store/kube/api/kube_watch_event_fuzz,volume/store/kube/api/kube_watch_event.c volume/store/http/json_lines.c \
  volume/testkit/json_lines_fuzz_kit.c \
  volume/record/json_scan.c volume/record/label.c base/clock.c base/error.c base/file.c \
  base/log.c,-ljson-c))
$(eval $(call fuzzer,volume/record/volume_record_fuzz,volume/record/volume_record.c \
  volume/record/record_json.c \
  volume/record/volume_record_json.c volume/record/split_move_json.c volume/record/volume_spec.c volume/record/json_scan.c \
  volume/record/label.c base/blockdev/segments.c base/clock.c base/error.c base/file.c \
  base/uuid_name.c base/log.c base/size.c,-ljson-c))
$(eval $(call fuzzer,volume/store/kube/api/kube_yaml_fuzz,volume/store/kube/api/kube_yaml.c base/error.c,\
  -lyaml -ljson-c))
VM_TESTS += tests/vm/volume_grow.sh tests/vm/volume_strangers.sh
$(eval $(call unit_test,volume/record/node_report_test,volume))
$(eval $(call unit_test,tests/volume_place_test,volume,csi/testkit/fake_node.c csi/testkit/fake_node_copies.c))
$(foreach t,snapshot snapshot_kill snapshot_ranges group limit lost,\
  $(eval $(call unit_test,tests/volume_$(t)_test,volume,tests/snapshot_kit.c \
  csi/testkit/fake_node.c csi/testkit/fake_node_copies.c)))
$(OUT)/test/tests/volume_snapshot_kill_test $(OUT)/test/tests/volume_lost_test: | $(OUT)/test/volume/testkit/volume_call_main
$(eval $(call unit_test,volume/record/snapshot_record_test,volume))
$(eval $(call fuzzer,volume/record/snapshot_record_fuzz,volume/record/snapshot_record.c \
  volume/record/snapshot_record_json.c volume/record/group_record_json.c \
  volume/record/volume_record.c volume/record/volume_record_json.c volume/record/split_move_json.c volume/record/record_json.c \
  volume/record/volume_spec.c volume/record/json_scan.c volume/record/label.c \
  base/blockdev/segments.c base/clock.c base/error.c base/file.c base/uuid_name.c base/log.c \
  base/size.c,-ljson-c))
