$(eval $(call library,base,\
  base/blockdev.c base/blockdev_file.c base/blockdev_ram.c base/clock.c \
  base/crc32c.c base/cursor.c base/error.c base/file.c base/ident.c \
  base/iobuf.c base/log.c base/loop.c base/loop_work.c base/notify.c \
  base/options.c base/process.c base/size.c,liburing libisal inih,))
$(eval $(call unit_test,base/loop_test,base))
$(eval $(call unit_test,base/blockdev_test,base))
$(foreach t,clock crc32c cursor error file ident log notify options process \
  size,$(eval $(call unit_test,base/$(t)_test,base)))
