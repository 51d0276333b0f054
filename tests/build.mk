# Tests in a virtual machine with a kernel that has what this one may lack.
VM_TESTS += tests/vm/selftest.sh tests/vm/nbd.sh tests/vm/initiator.sh tests/vm/initiator_ublk.sh tests/vm/iscsi.sh \
            tests/vm/dm.sh tests/vm/direct.sh \
            tests/vm/nfs.sh tests/vm/power.sh tests/vm/power_raw.sh tests/vm/raw_disk.sh \
            tests/vm/union.sh tests/vm/union_limits.sh tests/vm/union_quotas.sh \
            tests/vm/union_folding.sh tests/vm/union_oom.sh tests/vm/host_programs.sh
SYSTEM_TESTS += tests/system/lint.sh tests/system/fuzz.sh tests/system/testing.sh

# What every test script becomes first (tests/lib.sh).
$(eval $(call test_helper,tests/apart,base))

# The driver against the CSI specification, over its sockets.
$(eval $(call library,csi_suite,tests/csi/controller_checks.c \
  tests/csi/general_checks.c tests/csi/kit.c tests/csi/message.c \
  tests/csi/node_checks.c tests/csi/recorded.c tests/csi/rules.c tests/csi/snapshot_checks.c \
  tests/csi/volume_life.c,,csi))
$(eval $(call unit_test,tests/csi/recorded_test,csi_suite,csi/testkit/csi_test_kit.c csi/testkit/fake_node.c \
  csi/testkit/fake_node_copies.c csi/testkit/controller_test_kit.c))
$(eval $(call test_helper,tests/csi/rules_main,csi_suite))
$(eval $(call test_helper,tests/csi/pairs_main,csi_suite))
$(eval $(call test_helper,tests/csi/life_main,csi_suite))
$(eval $(call test_helper,tests/csi/scale_main,csi_suite))
$(eval $(call test_helper,tests/fake_cluster,volume,,csi/testkit/fake_node.c csi/testkit/fake_node_copies.c))
CSI_TESTS += tests/system/check_csi.sh tests/system/check_csi_pairs.sh \
  tests/system/check_csi_kill.sh tests/system/check_csi_move.sh \
  tests/system/check_csi_inline.sh

# A real API server (make check-kube).
$(eval $(call test_helper,tests/kube/store_conforms,volume,cmocka,\
  volume/testkit/store_conformance.c volume/testkit/store_watching.c))
KUBE_TESTS += tests/kube/api.sh tests/kube/cluster.sh tests/kube/rules.sh

# The union beside one directory (make check-union).
$(eval $(call library,union_model,tests/union/actor.c tests/union/draining.c tests/union/erring.c \
  tests/union/hurting.c tests/union/images.c tests/union/intruding.c tests/union/killing.c tests/union/mounting.c \
  tests/union/op_do.c tests/union/op_do_attr.c tests/union/op_do_data.c \
  tests/union/op_do_dir.c tests/union/op_do_file.c tests/union/op_do_name.c \
  tests/union/op_do_xattr.c tests/union/op_gen.c tests/union/plan.c tests/union/quotas.c \
  tests/union/run.c \
  tests/union/tree_describe.c tests/union/tree_populate.c union/sys/attrs.c union/config/policy.c,,base))
$(eval $(call test_helper,tests/union/model_main,union_model))
$(eval $(call test_helper,tests/union/kill_at,base))
$(eval $(call test_helper,tests/union/folding_fs,,fuse3))
SYSTEM_TESTS += tests/system/union_model.sh tests/system/union_once.sh tests/system/union_programs.sh \
  tests/system/union_hurt.sh tests/system/union_postgres.sh
