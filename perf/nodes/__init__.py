# SPDX-License-Identifier: Apache-2.0
"""What the suites thesis and nodes measure: volumes, and what is done on them."""
