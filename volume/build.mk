$(eval $(call library,volume,\
  volume/json_scan.c volume/label.c volume/node_record.c volume/planner.c \
  volume/store.c volume/store_local.c volume/volume_record.c \
  volume/volume_record_json.c volume/volume_spec.c,\
  json-c sqlite3 mount blkid,rpc proto base))

$(eval $(call unit_test,volume/volume_record_test,volume))
$(eval $(call unit_test,volume/store_test,volume,volume/store_conformance.c))
$(eval $(call unit_test,volume/planner_test,volume))
