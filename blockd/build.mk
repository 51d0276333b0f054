# What needs no daemon around it: the fuzzer and the unit tests use only this.
BLOCKD_STORE := blockd/pool/record_text.c blockd/pool/extent_record.c blockd/pool/extent_record_decode.c \
  blockd/pool/extent_scsi.c blockd/export/lun_table.c blockd/pool/pool_record.c blockd/pool/space.c blockd/pool/lock_file.c blockd/dir/pool_dir.c \
  blockd/dir/pool_dir_identity.c blockd/pool/space_floor.c blockd/dir/pool_dir_content.c blockd/dir/pool_dir_copy.c \
  blockd/dir/pool_dir_ranges.c blockd/dir/pool_dir_sharing.c blockd/pool/copies_record.c blockd/dir/file_map.c \
  blockd/dir/pool_dir_load.c blockd/extent/extent.c blockd/copy/extent_create.c blockd/copy/extent_delete.c \
  blockd/copy/extent_cut.c blockd/copy/extent_cut_found.c blockd/copy/cut_intent.c blockd/copy/extent_content.c \
  blockd/copy/copy_job.c blockd/copy/copy_guard.c blockd/copy/pull_job.c blockd/copy/quiesce.c blockd/copy/quiesce_hold.c \
  blockd/local/freeze.c blockd/extent/gate.c blockd/extent/extent_dev.c \
  blockd/extent/limit.c blockd/node/node.c blockd/extent/node_tables.c blockd/node/node_care.c blockd/node/node_open.c \
  blockd/node/node_add.c blockd/extent/node_space.c blockd/raw/store/raw_format.c blockd/raw/store/raw_batch.c blockd/raw/store/raw_map.c blockd/raw/store/raw_map_ask.c \
  blockd/raw/store/raw_alloc.c blockd/raw/store/raw_bitmap.c blockd/raw/store/raw_state.c blockd/raw/store/raw_state_load.c \
  blockd/raw/store/raw_state_emit.c blockd/raw/store/raw_freeze.c blockd/raw/store/raw_salvage.c blockd/raw/store/raw_medium.c \
  blockd/raw/store/raw_store.c blockd/raw/store/raw_commit.c blockd/raw/store/raw_store_open.c \
  blockd/raw/store/raw_checkpoint.c blockd/raw/store/raw_retry.c blockd/raw/store/raw_extend.c blockd/raw/store/raw_leave.c blockd/raw/store/raw_replay.c \
  blockd/raw/store/raw_check.c blockd/raw/pool_raw_check.c blockd/node/pool_proxy.c blockd/node/node_watch.c \
  blockd/node/node_health.c blockd/node/pool_try.c blockd/dir/pool_dir_try.c \
  blockd/raw/dev/raw_users.c blockd/raw/dev/raw_dev.c blockd/raw/dev/raw_io.c blockd/raw/dev/raw_fill.c blockd/raw/dev/raw_partial.c \
  blockd/raw/dev/raw_zero.c blockd/raw/dev/raw_ahead.c blockd/raw/pool_raw.c blockd/raw/pool_raw_format.c \
  blockd/raw/pool_raw_objects.c blockd/raw/pool_raw_load.c blockd/raw/raw_medium_open.c blockd/raw/disk_lock.c blockd/raw/raw_medium_users.c blockd/node/pool_at.c \
  blockd/local/loopdev_users.c blockd/local/local_ask.c blockd/local/local_answer.c \
  blockd/local/local_top.c

BLOCKD_STORE += blockd/direct/direct.c blockd/direct/direct_choose.c blockd/direct/direct_runs.c \
  blockd/direct/direct_table.c blockd/direct/direct_loader.c blockd/direct/direct_mapper.c blockd/direct/direct_mapper_table.c \
  blockd/raw/pool_raw_direct.c
BLOCKD_STORE += blockd/raw/pool_raw_copy.c blockd/raw/pool_raw_ranges.c \
  blockd/raw/pool_raw_sharing.c blockd/raw/pool_raw_thick.c

$(eval $(call library,blockd,$(BLOCKD_STORE),blkid,target dm base))
$(eval $(call program,blockd,\
  blockd/api/main.c blockd/api/config.c blockd/api/devices.c blockd/api/service.c blockd/api/service_reply.c \
  blockd/api/service_snapshot.c blockd/api/service_stats.c blockd/api/metrics.c \
  blockd/api/metrics_connections.c blockd/api/metrics_stats.c blockd/api/direct_stats.c \
  blockd/export/exports.c blockd/export/export_epoch.c blockd/export/exports_direct.c blockd/export/export_scsi.c blockd/node/low_space.c,blockd target rpc proto))

$(eval $(call program,trib-loop,\
  blockd/local/local_ask_main.c blockd/local/local_answer.c,base))
$(eval $(call program,trib-freeze,blockd/local/freeze_main.c,dm base))

$(eval $(call unit_test,blockd/api/metrics_connections_test,target,\
  blockd/api/metrics_connections.c blockd/api/metrics_stats.c))
$(eval $(call unit_test,blockd/local/local_ask_test,blockd))
$(eval $(call unit_test,blockd/pool/record_text_test,blockd))
$(eval $(call unit_test,blockd/pool/extent_record_test,blockd))
$(eval $(call unit_test,blockd/export/lun_table_test,blockd))
$(eval $(call unit_test,blockd/pool/copies_record_test,blockd))
$(eval $(call unit_test,blockd/pool/space_test,blockd))
$(foreach t,node/node node/node_pool node/node_health,$(eval $(call unit_test,blockd/$(t)_test,\
  blockd,blockd/testkit/node_kit.c)))
$(eval $(call unit_test,blockd/node/node_race_test,blockd,\
  blockd/testkit/node_kit.c blockd/testkit/model_kit.c blockd/testkit/model_steps.c blockd/testkit/model_raw.c))
$(eval $(call unit_test,blockd/extent/limit_test,blockd))
$(eval $(call unit_test,blockd/local/freeze_test,blockd))
$(eval $(call unit_test,blockd/copy/extent_cut_test,blockd,blockd/testkit/cut_kit.c))
$(eval $(call unit_test,blockd/copy/extent_clone_test,blockd,blockd/testkit/cut_kit.c))
$(eval $(call unit_test,blockd/extent/gate_test,blockd))
$(foreach t,dir/pool_dir_copy dir/pool_dir_kill dir/pool_dir_sharing,$(eval $(call unit_test,blockd/$(t)_test,blockd,\
  blockd/testkit/pool_dir_kit.c)))
$(eval $(call unit_test,blockd/raw/store/raw_state_test,blockd))
$(eval $(call unit_test,blockd/raw/store/raw_state_refuse_test,blockd))
$(foreach t,raw/store/raw_store raw/store/raw_store_room,$(eval $(call unit_test,blockd/$(t)_test,\
  blockd,blockd/testkit/raw_store_kit.c blockd/testkit/power_kit.c blockd/testkit/power_states.c)))
$(eval $(call unit_test,blockd/raw/store/raw_retry_test,blockd,blockd/testkit/power_kit.c))
$(eval $(call unit_test,blockd/raw/store/raw_power_test,blockd,\
  blockd/testkit/power_kit.c blockd/testkit/power_states.c blockd/testkit/power_run.c blockd/testkit/power_steps.c))
$(eval $(call unit_test,blockd/raw/store/raw_damage_test,blockd,blockd/testkit/raw_damage_kit.c))
$(eval $(call unit_test,blockd/raw/store/raw_check_test,blockd))
$(eval $(call unit_test,blockd/raw/dev/raw_dev_power_test,blockd,\
  blockd/testkit/raw_dev_kit.c blockd/testkit/power_kit.c blockd/testkit/power_dev.c blockd/testkit/power_lives.c))
$(eval $(call unit_test,blockd/raw/dev/raw_dev_test,blockd,blockd/testkit/raw_dev_kit.c))
$(eval $(call unit_test,blockd/raw/dev/raw_partial_test,blockd,blockd/testkit/raw_dev_kit.c))
$(eval $(call unit_test,blockd/raw/store/raw_check_load_test,blockd,blockd/testkit/raw_dev_kit.c))
$(eval $(call unit_test,blockd/direct/direct_runs_test,blockd))
$(eval $(call unit_test,blockd/direct/direct_mapper_test,blockd dm base,base/testkit/mapper_stand.c))
$(eval $(call unit_test,blockd/direct/direct_test,blockd,blockd/testkit/direct_case.c blockd/testkit/direct_kit.c \
  blockd/testkit/model_kit.c blockd/testkit/model_seeds.c blockd/testkit/model_steps.c blockd/testkit/model_raw.c))
$(eval $(call unit_test,blockd/direct/direct_cut_test,blockd,blockd/testkit/direct_case.c blockd/testkit/direct_kit.c \
  blockd/testkit/model_kit.c blockd/testkit/model_seeds.c blockd/testkit/model_steps.c blockd/testkit/model_raw.c))
$(eval $(call unit_test,blockd/direct/direct_fail_test,blockd,blockd/testkit/direct_case.c blockd/testkit/direct_kit.c \
  blockd/testkit/model_kit.c blockd/testkit/model_seeds.c blockd/testkit/model_steps.c blockd/testkit/model_raw.c))
$(eval $(call unit_test,blockd/direct/direct_model_test,blockd,blockd/testkit/direct_kit.c \
  blockd/testkit/model_kit.c blockd/testkit/model_seeds.c blockd/testkit/model_steps.c blockd/testkit/model_raw.c))
$(eval $(call unit_test,blockd/raw/pool_raw_model_test,blockd,\
  blockd/testkit/model_kit.c blockd/testkit/model_seeds.c blockd/testkit/model_steps.c blockd/testkit/model_raw.c))
$(eval $(call unit_test,blockd/dir/pool_dir_model_test,blockd,\
  blockd/testkit/model_kit.c blockd/testkit/model_seeds.c blockd/testkit/model_steps.c blockd/testkit/model_dir.c))
$(eval $(call unit_test,blockd/pool/space_floor_test,blockd))
$(eval $(call fuzzer,blockd/pool/extent_record_fuzz,\
  blockd/testkit/record_fuzz_kit.c blockd/pool/extent_record.c blockd/pool/extent_record_decode.c blockd/pool/record_text.c \
  blockd/pool/extent_scsi.c target/export/iscsi_name.c target/iscsi/iscsi_text.c \
  base/wire/crc32c.c base/error.c base/wire/cursor.c \
  base/uuid_name.c base/file.c base/log.c base/clock.c,\
  $$(call pkg_libs,libisal)))
$(eval $(call fuzzer,blockd/pool/copies_record_fuzz,\
  blockd/testkit/record_fuzz_kit.c blockd/pool/copies_record.c blockd/pool/record_text.c \
  base/wire/crc32c.c base/error.c \
  base/uuid_name.c base/file.c base/log.c base/clock.c,\
  $$(call pkg_libs,libisal)))
$(eval $(call fuzzer,blockd/raw/store/raw_state_fuzz,\
  blockd/raw/store/raw_state.c blockd/raw/store/raw_state_load.c blockd/raw/store/raw_state_emit.c \
  blockd/raw/store/raw_salvage.c blockd/raw/store/raw_map.c blockd/raw/store/raw_map_ask.c blockd/raw/store/raw_alloc.c \
  blockd/raw/store/raw_bitmap.c blockd/raw/store/raw_format.c blockd/raw/store/raw_batch.c \
  base/wire/crc32c.c base/error.c base/wire/cursor.c,$$(call pkg_libs,libisal)))
$(eval $(call fuzzer,blockd/raw/store/raw_image_fuzz,\
  blockd/testkit/raw_image_kit.c blockd/raw/store/raw_store.c blockd/raw/store/raw_commit.c blockd/raw/store/raw_store_open.c \
  blockd/raw/store/raw_checkpoint.c blockd/raw/store/raw_freeze.c blockd/raw/store/raw_leave.c \
  blockd/raw/store/raw_replay.c blockd/raw/store/raw_check.c \
  blockd/raw/store/raw_state.c blockd/raw/store/raw_state_load.c blockd/raw/store/raw_state_emit.c \
  blockd/raw/store/raw_salvage.c blockd/raw/store/raw_map.c blockd/raw/store/raw_map_ask.c blockd/raw/store/raw_alloc.c \
  blockd/raw/store/raw_bitmap.c blockd/raw/store/raw_format.c blockd/raw/store/raw_batch.c \
  base/wire/crc32c.c base/error.c base/wire/cursor.c \
  base/uuid_name.c base/file.c base/log.c base/clock.c,\
  $$(call pkg_libs,libisal)))
$(eval $(call test_helper,blockd/testkit/blockd_call,rpc proto base,json-c))
SYSTEM_TESTS += tests/system/nbd_watch.sh
SYSTEM_TESTS += tests/system/blockd.sh tests/system/blockd_snapshot.sh
SYSTEM_TESTS += tests/system/raw_pool.sh tests/system/pool_dir.sh
SYSTEM_TESTS += tests/system/raw_pool_health.sh tests/system/pool_health.sh
