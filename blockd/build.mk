# What needs no daemon around it: the fuzzer and most tests link only this.
BLOCKD_STORE := blockd/record_text.c blockd/extent_record.c \
  blockd/pool_record.c blockd/space.c blockd/lock_file.c blockd/pool_dir.c \
  blockd/pool_dir_load.c blockd/extent.c blockd/node.c blockd/node_space.c

$(eval $(call library,blockd,$(BLOCKD_STORE),,base))
$(eval $(call program,blockd,\
  blockd/main.c blockd/config.c blockd/service.c blockd/service_reply.c \
  blockd/exports.c blockd/local_hold.c,blockd target rpc proto))
$(eval $(call test_helper,blockd/blockd_call,rpc proto base,json-c))
