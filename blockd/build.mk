# What needs no daemon around it: the fuzzer and the unit tests use only this.
BLOCKD_STORE := blockd/record_text.c blockd/extent_record.c blockd/extent_record_decode.c \
  blockd/extent_scsi.c blockd/lun_claims.c blockd/pool_record.c blockd/space.c blockd/lock_file.c blockd/pool_dir.c \
  blockd/pool_dir_identity.c blockd/pool_dir_floor.c blockd/pool_dir_dev.c blockd/pool_dir_content.c blockd/pool_dir_copy.c \
  blockd/pool_dir_ranges.c blockd/pool_dir_sharing.c blockd/copies_record.c blockd/file_map.c \
  blockd/pool_dir_load.c blockd/extent.c blockd/extent_create.c blockd/extent_delete.c \
  blockd/extent_cut.c blockd/extent_cut_found.c blockd/cut_note.c blockd/extent_content.c \
  blockd/copying.c blockd/quiet.c blockd/hold.c blockd/freeze.c blockd/gate.c blockd/gate_dev.c \
  blockd/limit.c blockd/node.c blockd/node_tables.c blockd/node_care.c blockd/node_open.c \
  blockd/node_add.c blockd/node_space.c blockd/raw_format.c blockd/raw_batch.c blockd/raw_map.c blockd/raw_map_ask.c \
  blockd/raw_alloc.c blockd/raw_partly.c blockd/raw_state.c blockd/raw_state_load.c \
  blockd/raw_state_emit.c blockd/raw_freeze.c blockd/raw_salvage.c blockd/raw_medium.c \
  blockd/raw_store.c blockd/raw_commit.c blockd/raw_store_open.c \
  blockd/raw_checkpoint.c blockd/raw_retry.c blockd/raw_extend.c blockd/raw_leave.c blockd/raw_log.c \
  blockd/raw_check.c blockd/pool_raw_check.c blockd/pool_seat.c blockd/node_watch.c \
  blockd/node_health.c blockd/pool_try.c blockd/pool_dir_try.c \
  blockd/raw_users.c blockd/raw_dev.c blockd/raw_io.c blockd/raw_fill.c blockd/raw_part.c \
  blockd/raw_zero.c blockd/pool_raw.c blockd/pool_raw_format.c \
  blockd/pool_raw_objects.c blockd/pool_raw_load.c blockd/raw_place.c blockd/raw_others.c blockd/pool_at.c \
  blockd/local_hold.c blockd/local_ask.c blockd/local_answer.c

BLOCKD_STORE += blockd/pool_raw_copy.c blockd/pool_raw_ranges.c \
  blockd/pool_raw_sharing.c blockd/pool_raw_thick.c

$(eval $(call library,blockd,$(BLOCKD_STORE),blkid,target base))
$(eval $(call program,blockd,\
  blockd/main.c blockd/config.c blockd/service.c blockd/service_reply.c \
  blockd/service_snapshot.c blockd/service_stats.c blockd/metrics.c \
  blockd/metrics_connections.c blockd/metrics_stats.c \
  blockd/exports.c blockd/export_scsi.c blockd/low_space.c,blockd target rpc proto))

$(eval $(call program,trib-loop,\
  blockd/local_ask_main.c blockd/local_answer.c,base))
$(eval $(call program,trib-freeze,blockd/freeze_main.c,base))

$(eval $(call unit_test,blockd/metrics_connections_test,target,\
  blockd/metrics_connections.c blockd/metrics_stats.c))
$(eval $(call unit_test,blockd/local_ask_test,blockd))
$(eval $(call unit_test,blockd/record_text_test,blockd))
$(eval $(call unit_test,blockd/extent_record_test,blockd))
$(eval $(call unit_test,blockd/lun_claims_test,blockd))
$(eval $(call unit_test,blockd/copies_record_test,blockd))
$(eval $(call unit_test,blockd/space_test,blockd))
$(foreach t,node node_pool node_health,$(eval $(call unit_test,blockd/$(t)_test,\
  blockd,blockd/node_kit.c)))
$(eval $(call unit_test,blockd/node_race_test,blockd,\
  blockd/node_kit.c blockd/model_kit.c blockd/model_steps.c blockd/model_raw.c))
$(eval $(call unit_test,blockd/limit_test,blockd))
$(eval $(call unit_test,blockd/freeze_test,blockd))
$(eval $(call unit_test,blockd/extent_cut_test,blockd,blockd/cut_kit.c))
$(eval $(call unit_test,blockd/extent_clone_test,blockd,blockd/cut_kit.c))
$(eval $(call unit_test,blockd/gate_test,blockd))
$(foreach t,copy kill sharing,$(eval $(call unit_test,blockd/pool_dir_$(t)_test,blockd,\
  blockd/pool_dir_kit.c)))
$(eval $(call unit_test,blockd/raw_state_test,blockd))
$(eval $(call unit_test,blockd/raw_state_refuse_test,blockd))
$(foreach t,raw_store raw_store_room,$(eval $(call unit_test,blockd/$(t)_test,\
  blockd,blockd/raw_store_kit.c blockd/power_kit.c blockd/power_states.c)))
$(eval $(call unit_test,blockd/raw_retry_test,blockd,blockd/power_kit.c))
$(eval $(call unit_test,blockd/raw_power_test,blockd,\
  blockd/power_kit.c blockd/power_states.c blockd/power_run.c blockd/power_steps.c))
$(eval $(call unit_test,blockd/raw_damage_test,blockd,blockd/raw_damage_kit.c))
$(eval $(call unit_test,blockd/raw_check_test,blockd))
$(eval $(call unit_test,blockd/raw_dev_power_test,blockd,\
  blockd/raw_dev_kit.c blockd/power_kit.c blockd/power_dev.c blockd/power_lives.c))
$(eval $(call unit_test,blockd/raw_dev_test,blockd,blockd/raw_dev_kit.c))
$(eval $(call unit_test,blockd/raw_part_test,blockd,blockd/raw_dev_kit.c))
$(eval $(call unit_test,blockd/raw_check_load_test,blockd,blockd/raw_dev_kit.c))
$(eval $(call unit_test,blockd/pool_raw_model_test,blockd,\
  blockd/model_kit.c blockd/model_seeds.c blockd/model_steps.c blockd/model_raw.c))
$(eval $(call unit_test,blockd/pool_dir_model_test,blockd,\
  blockd/model_kit.c blockd/model_seeds.c blockd/model_steps.c blockd/model_dir.c))
$(eval $(call unit_test,blockd/pool_dir_floor_test,blockd))
$(eval $(call fuzzer,blockd/extent_record_fuzz,\
  blockd/record_fuzz_kit.c blockd/extent_record.c blockd/extent_record_decode.c blockd/record_text.c \
  blockd/extent_scsi.c target/iscsi_name.c target/iscsi_text.c \
  base/crc32c.c base/error.c base/cursor.c \
  base/ident.c base/file.c base/log.c base/clock.c,\
  $$(call pkg_libs,libisal)))
$(eval $(call fuzzer,blockd/copies_record_fuzz,\
  blockd/record_fuzz_kit.c blockd/copies_record.c blockd/record_text.c \
  base/crc32c.c base/error.c \
  base/ident.c base/file.c base/log.c base/clock.c,\
  $$(call pkg_libs,libisal)))
$(eval $(call fuzzer,blockd/raw_state_fuzz,\
  blockd/raw_state.c blockd/raw_state_load.c blockd/raw_state_emit.c \
  blockd/raw_salvage.c blockd/raw_map.c blockd/raw_map_ask.c blockd/raw_alloc.c \
  blockd/raw_partly.c blockd/raw_format.c blockd/raw_batch.c \
  base/crc32c.c base/error.c base/cursor.c,$$(call pkg_libs,libisal)))
$(eval $(call fuzzer,blockd/raw_image_fuzz,\
  blockd/raw_image_kit.c blockd/raw_store.c blockd/raw_commit.c blockd/raw_store_open.c \
  blockd/raw_checkpoint.c blockd/raw_freeze.c blockd/raw_leave.c \
  blockd/raw_log.c blockd/raw_check.c \
  blockd/raw_state.c blockd/raw_state_load.c blockd/raw_state_emit.c \
  blockd/raw_salvage.c blockd/raw_map.c blockd/raw_map_ask.c blockd/raw_alloc.c \
  blockd/raw_partly.c blockd/raw_format.c blockd/raw_batch.c \
  base/crc32c.c base/error.c base/cursor.c \
  base/ident.c base/file.c base/log.c base/clock.c,\
  $$(call pkg_libs,libisal)))
$(eval $(call test_helper,blockd/blockd_call,rpc proto base,json-c))
SYSTEM_TESTS += tests/system/nbd_watch.sh
SYSTEM_TESTS += tests/system/blockd.sh tests/system/blockd_snapshot.sh
SYSTEM_TESTS += tests/system/raw_pool.sh tests/system/pool_dir.sh
SYSTEM_TESTS += tests/system/raw_pool_health.sh tests/system/pool_health.sh
