$(eval $(call library,csi,\
  csi/bind.c csi/call.c csi/capability.c csi/config.c csi/content.c csi/controller.c \
  csi/controller_modify.c csi/controller_snapshot.c csi/group_controller.c \
  csi/snapshot.c csi/snapshot_metadata.c \
  csi/controller_capacity.c csi/controller_expand.c csi/controller_list.c \
  csi/controller_publish.c \
  csi/controller_validate.c csi/csi_check.c csi/csi_error.c csi/csi_holds.c \
  csi/csi_metrics.c csi/csi_pages.c csi/observer.c \
  csi/csi_name.c csi/csi_text.c csi/identity.c csi/inline.c csi/node_info.c \
  csi/kata_record.c csi/kata_shim.c csi/kubernetes_key.c csi/node_bounded.c \
  csi/node_expand.c csi/node_group.c csi/node_inline.c csi/node_left.c \
  csi/node_publish.c csi/node_repair.c csi/node_show.c csi/node_stage.c \
  csi/node_state.c csi/node_trim.c csi/node_watch.c csi/parameters.c \
  csi/reply.c csi/request.c csi/service.c csi/slack.c,json-c libcurl,volume rpc proto base))
$(eval $(call program,trib-csi,csi/main.c,csi))

$(eval $(call unit_test,csi/csi_wire_test,proto base))
$(eval $(call unit_test,csi/csi_check_test,csi))
$(eval $(call unit_test,csi/csi_name_test,csi))
$(eval $(call unit_test,csi/csi_metrics_test,csi,csi/csi_test_kit.c))
$(eval $(call unit_test,csi/identity_test,csi,csi/csi_test_kit.c))
$(eval $(call unit_test,csi/controller_test,csi,csi/csi_test_kit.c csi/fake_node.c csi/fake_node_copies.c \
  csi/controller_test_kit.c))
$(eval $(call unit_test,csi/controller_create_test,csi,csi/csi_test_kit.c csi/fake_node.c csi/fake_node_copies.c \
  csi/controller_test_kit.c))
$(eval $(call unit_test,csi/controller_pairs_test,csi,csi/csi_test_kit.c csi/fake_node.c csi/fake_node_copies.c \
  csi/controller_test_kit.c))
$(eval $(call unit_test,csi/controller_expand_test,csi,csi/csi_test_kit.c csi/fake_node.c csi/fake_node_copies.c \
  csi/controller_test_kit.c))
$(eval $(call unit_test,csi/controller_publish_test,csi,csi/csi_test_kit.c csi/fake_node.c csi/fake_node_copies.c \
  csi/controller_test_kit.c))
$(eval $(call unit_test,csi/controller_list_test,csi,csi/csi_test_kit.c csi/fake_node.c csi/fake_node_copies.c \
  csi/controller_test_kit.c))
$(eval $(call unit_test,csi/controller_group_test,csi,csi/csi_test_kit.c csi/fake_node.c csi/fake_node_copies.c \
  csi/controller_test_kit.c))
$(eval $(call unit_test,csi/controller_snapshot_test,csi,csi/csi_test_kit.c csi/fake_node.c csi/fake_node_copies.c \
  csi/controller_test_kit.c))
$(eval $(call unit_test,csi/controller_capacity_test,csi,csi/csi_test_kit.c csi/fake_node.c csi/fake_node_copies.c \
  csi/controller_test_kit.c))
$(eval $(call unit_test,csi/node_state_test,csi))
$(eval $(call unit_test,csi/inline_test,csi))
$(eval $(call unit_test,csi/node_bounded_test,csi))
$(eval $(call unit_test,csi/node_group_test,csi))
$(eval $(call unit_test,csi/kata_test,csi))
$(eval $(call unit_test,csi/slack_test,csi))

$(eval $(call fuzzer,csi/csi_name_fuzz,csi/csi_name.c volume/label.c \
  base/clock.c base/error.c base/file.c base/ident.c base/log.c))
$(eval $(call fuzzer,csi/kata_shim_fuzz,csi/kata_shim.c \
  base/clock.c base/error.c base/file.c base/log.c,-ljson-c -lcurl))
$(eval $(call fuzzer,csi/csi_check_fuzz,csi/csi_check.c csi/csi_text.c \
  base/clock.c base/error.c base/file.c base/log.c \
  $(BUILD)/gen/proto/csi.pb-c.c $(BUILD)/gen/proto/well_known.pb-c.c,-lprotobuf-c))

$(eval $(call test_helper,csi/csi_call_main,csi))
SYSTEM_TESTS += tests/system/csi.sh tests/system/csi_controllers.sh \
  tests/system/csi_node.sh
