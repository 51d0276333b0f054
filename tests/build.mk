# Tests in a virtual machine with a kernel that has what this one may lack.
VM_TESTS += tests/vm/selftest.sh tests/vm/nbd.sh tests/vm/initiator.sh \
            tests/vm/power.sh
SYSTEM_TESTS += tests/system/lint.sh tests/system/fuzz.sh
