TARGET_NBD := target/export_stats.c target/nbd_conn.c target/nbd_conn_tls.c target/nbd_handshake.c \
  target/nbd_io.c target/nbd_proto.c target/nbd_send.c target/nbd_session.c \
  target/tls.c
SYSTEM_TESTS += tests/system/nbd_tls.sh
WIRE_TESTS += tests/system/nbd_wire.sh tests/system/nbd_tls.sh \
  tests/system/nbd_watch.sh

SYSTEM_TESTS += tests/system/iscsi_wire.sh
WIRE_TESTS += tests/system/iscsi_wire.sh
TARGET_ISCSI := $(patsubst %,target/iscsi_%.c,chap collect conn enter gather \
  io keys login manage proto receive say send session table text)

TARGET_SCSI := $(patsubst %,target/scsi_%.c,cache command compare copy \
  copy_decode copy_results inquiry maintenance medium mode pr pr_in pr_out \
  pr_state primary provision range reserve reset rw sense target task unit \
  verify)

$(eval $(call library,target,\
  target/export_table.c target/initiators.c target/listener.c \
  $(TARGET_ISCSI) $(TARGET_NBD) $(TARGET_SCSI) \
  target/target.c,gnutls,base))
$(eval $(call test_helper,target/nbd_serve_main,target))
$(eval $(call test_helper,target/iscsi_serve_main,target))
$(eval $(call unit_test,target/export_table_test,target))
$(eval $(call unit_test,target/initiators_test,target))
$(eval $(call unit_test,target/nbd_proto_test,target))
$(eval $(call unit_test,target/nbd_session_test,target))
$(eval $(call unit_test,target/nbd_extended_test,target))
$(eval $(call unit_test,target/export_stats_test,target))
$(eval $(call fuzzer,target/nbd_session_fuzz,target/nbd_session.c \
  target/nbd_handshake.c target/nbd_proto.c base/cursor.c base/error.c))
$(eval $(call unit_test,target/target_test,target,target/target_test_kit.c))
$(eval $(call unit_test,target/target_grow_test,target,\
  target/target_test_kit.c))
SYSTEM_TESTS += tests/system/nbd_wire.sh
$(foreach t,proto text chap login session,$(eval $(call \
  unit_test,target/iscsi_$(t)_test,target)))
$(foreach t,rw mode range pr copy,$(eval $(call \
  unit_test,target/scsi_$(t)_test,target,target/scsi_test_kit.c)))
$(eval $(call unit_test,target/scsi_race_test,target))
$(eval $(call fuzzer,target/scsi_task_fuzz,$(TARGET_SCSI) base/blockdev.c \
  base/blockdev_ram.c base/cursor.c base/error.c base/crc32c.c base/file.c \
  base/iobuf.c base/log.c base/loop.c base/loop_work.c base/clock.c,-luring -lisal))
$(eval $(call fuzzer,target/iscsi_session_fuzz,$(patsubst %,target/iscsi_%.c,\
  chap collect gather keys login proto say session text) base/crc32c.c \
  base/cursor.c base/error.c,-lgnutls -lisal))
$(eval $(call fuzzer,target/iscsi_text_fuzz,target/iscsi_keys.c \
  target/iscsi_proto.c target/iscsi_text.c base/cursor.c))
