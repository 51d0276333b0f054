$(eval $(call library,base,\
  base/blockdev/blockdev.c base/blockdev/blockdev_file.c base/blockdev/blockdev_file_zero.c \
  base/blockdev/blockdev_ram.c base/blockdev/segments.c base/clock.c base/loop/driver_ring.c base/wire/crc32c.c base/wire/cursor.c base/error.c base/file.c base/file_lock.c base/kernel/fusectl.c base/uuid_name.c \
  base/loop/iobuf.c base/loop/iobuf_fixed.c base/loop/iobuf_huge.c base/loop/iobuf_thp.c \
  base/wire/chap_secrets.c base/log.c base/loop/loop.c base/loop/loop_feature.c base/loop/loop_io.c \
  base/loop/loop_recv.c base/loop/loop_round.c base/loop/loop_work.c base/kernel/mount_ns.c base/kernel/mount_ns_use.c base/nbd/nbd_client.c base/nbd/nbd_connect.c base/notify.c base/kernel/oom.c base/options.c base/parallel.c base/process.c base/process_fd.c base/process_stat.c \
  base/size.c base/unix_served.c,liburing libisal inih,))
$(foreach t,loop/iobuf loop/iobuf_huge loop/loop loop/loop_io loop/loop_recv\
  loop/loop_round,\
  $(eval $(call unit_test,base/$(t)_test,base,base/testkit/loop_kit.c)))
$(eval $(call unit_test,base/blockdev/blockdev_test,base))
$(eval $(call unit_test,base/blockdev/segments_test,base))
$(foreach t,clock wire/crc32c wire/cursor error file file_lock wire/fnv uuid_name log\
  kernel/mount_ns kernel/mount_ns_use nbd/nbd_client notify kernel/oom options process size,$(eval $(call unit_test,base/$(t)_test,base)))
$(eval $(call library,dm,\
  base/dm/mapper.c base/dm/mapper_call.c base/dm/mapper_kernel.c base/dm/mapper_table.c,\
  devmapper,base))
$(eval $(call program,trib-dm,base/dm/mapper_main.c,dm base))
$(eval $(call unit_test,base/dm/mapper_table_test,dm base))
$(eval $(call unit_test,base/dm/mapper_test,dm base,base/testkit/mapper_stand.c))
$(eval $(call fuzzer,base/dm/mapper_table_fuzz,base/dm/mapper_table.c base/error.c))
$(eval $(call fuzzer,base/nbd/nbd_client_fuzz,\
  base/nbd/nbd_client.c base/clock.c base/wire/cursor.c base/error.c base/file.c \
  base/log.c))
