$(eval $(call library,base,\
  base/blockdev.c base/blockdev_file.c base/blockdev_file_zero.c \
  base/blockdev_ram.c base/clock.c base/crc32c.c base/cursor.c base/error.c base/file.c base/ident.c \
  base/iobuf.c base/iobuf_fixed.c base/iobuf_huge.c base/iobuf_pair.c \
  base/iscsi_chap.c base/log.c base/loop.c base/loop_feature.c base/loop_io.c \
  base/loop_recv.c base/loop_wait.c base/loop_work.c base/mount_space.c base/notify.c base/options.c base/parallel.c base/process.c \
  base/size.c,liburing libisal inih,))
$(foreach t,iobuf iobuf_huge loop loop_io loop_recv loop_wait,\
  $(eval $(call unit_test,base/$(t)_test,base,base/loop_kit.c)))
$(eval $(call unit_test,base/blockdev_test,base))
$(foreach t,clock crc32c cursor error file fnv ident log mount_space notify options process \
  size,$(eval $(call unit_test,base/$(t)_test,base)))
