# SPDX-License-Identifier: Apache-2.0
"""What every benchmark suite shares; perf/run is the program."""
