TARGET_NBD := target/export_stats.c target/nbd_buffer.c target/nbd_conn.c target/nbd_conn_tls.c target/nbd_enter.c target/nbd_handshake.c \
  target/nbd_io.c target/nbd_proto.c target/nbd_receive.c target/nbd_send.c \
  target/nbd_session.c target/tls.c
SYSTEM_TESTS += tests/system/nbd_tls.sh tests/system/wire_gone.sh
WIRE_TESTS += tests/system/nbd_wire.sh tests/system/nbd_tls.sh \
  tests/system/nbd_tester.sh tests/system/nbd_watch.sh tests/system/wire_gone.sh
SYSTEM_TESTS += tests/system/nbd_tester.sh

SYSTEM_TESTS += tests/system/iscsi_wire.sh tests/system/iscsi_conform.sh
WIRE_TESTS += tests/system/iscsi_wire.sh tests/system/iscsi_conform.sh
TARGET_ISCSI := $(patsubst %,target/iscsi_%.c,admit chap collect conn count enter gather \
  io keys login logins manage name parts proto receive say send session table text)

TARGET_SCSI := $(patsubst %,target/scsi_%.c,cache command compare copy \
  copy_decode copy_piece copy_results inquiry maintenance medium mode pr pr_in pr_lost pr_move pr_out \
  pr_state primary provision range reserve reset rw sense target task unit \
  verify)

TARGET_SERVERS := target/export_object.c target/export_table.c \
  target/export_use.c target/export_settle.c target/initiators.c \
  target/listener.c target/peer.c target/receiver.c $(TARGET_ISCSI) $(TARGET_NBD) $(TARGET_SCSI) \
  target/socket.c target/target.c

# What a fuzzer compiles of base/ to have a loop and its devices.
FUZZ_BASE := $(patsubst %,base/%.c,blockdev blockdev_ram clock crc32c cursor \
  error file iobuf iobuf_fixed iobuf_huge iobuf_pair iscsi_chap log loop loop_io loop_recv \
  loop_wait loop_work)

$(eval $(call library,target,$(TARGET_SERVERS),gnutls,base))
$(eval $(call test_helper,target/nbd_serve_main,target,,target/serve_kit.c))
$(eval $(call test_helper,target/iscsi_serve_main,target,,target/serve_kit.c))
$(eval $(call unit_test,target/export_table_test,target))
$(eval $(call unit_test,target/initiators_test,target))
$(eval $(call unit_test,target/nbd_proto_test,target))
$(foreach t,handshake session extended,$(eval $(call \
  unit_test,target/nbd_$(t)_test,target,target/nbd_session_kit.c)))
$(eval $(call unit_test,target/export_stats_test,target))
$(eval $(call unit_test,target/buffer_share_test,target,base/loop_kit.c))
$(eval $(call unit_test,target/receiver_test,target,base/loop_kit.c))
$(eval $(call fuzzer,target/nbd_session_fuzz,target/nbd_session.c \
  target/nbd_handshake.c target/nbd_proto.c base/cursor.c base/error.c))
$(eval $(call unit_test,target/target_test,target,\
  target/slow_disk_kit.c target/target_test_kit.c))
$(eval $(call unit_test,target/nbd_resend_test,target,\
  target/target_test_kit.c))
$(eval $(call unit_test,target/target_grow_test,target,\
  target/target_test_kit.c))
$(eval $(call unit_test,target/nbd_large_test,target,\
  target/target_test_kit.c))
$(eval $(call unit_test,target/iscsi_parts_test,target,\
  target/initiator_kit.c target/slow_disk_kit.c target/target_test_kit.c))
SYSTEM_TESTS += tests/system/nbd_wire.sh
$(foreach t,proto text chap login table,$(eval $(call \
  unit_test,target/iscsi_$(t)_test,target)))
$(foreach t,session session_parts say,$(eval $(call \
  unit_test,target/iscsi_$(t)_test,target,target/iscsi_session_kit.c)))
$(foreach t,rw mode threshold range copy,$(eval $(call \
  unit_test,target/scsi_$(t)_test,target,target/scsi_test_kit.c)))
$(foreach t,pr pr_lost pr_move pr_state reserve,$(eval $(call \
  unit_test,target/scsi_$(t)_test,target,target/scsi_pr_test_kit.c \
  target/scsi_test_kit.c)))
$(eval $(call unit_test,target/scsi_race_test,target))
$(eval $(call fuzzer,target/scsi_task_fuzz,$(TARGET_SCSI) $(FUZZ_BASE),\
  -luring -lisal))
$(foreach t,nbd iscsi,$(eval $(call fuzzer,target/$(t)_server_fuzz,\
  target/server_fuzz_kit.c $(TARGET_SERVERS) $(FUZZ_BASE),\
  -luring -lisal -lgnutls)))
$(eval $(call fuzzer,target/iscsi_session_fuzz,$(patsubst %,target/iscsi_%.c,\
  chap collect gather keys login name proto say session text) base/crc32c.c \
  base/cursor.c base/error.c,-lgnutls -lisal))
$(eval $(call fuzzer,target/iscsi_text_fuzz,target/iscsi_keys.c \
  target/iscsi_name.c target/iscsi_proto.c target/iscsi_text.c base/cursor.c \
  base/error.c))
