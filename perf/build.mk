# The benchmarks' own load client; perf/run builds nothing itself.
$(eval $(call test_helper,perf/nbd_load,base))
$(eval $(call test_helper,perf/name_load,base))
$(eval $(call test_helper,perf/count_steps,base))
$(eval $(call test_helper,perf/engine_load,blockd,,perf/engine_pool.c))
$(eval $(call test_helper,perf/engine_open,blockd))
$(eval $(call test_helper,perf/engine_cut,blockd))
SYSTEM_TESTS += tests/system/perf.sh tests/system/perf_nodes.sh tests/system/perf_report.sh
