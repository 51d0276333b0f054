# SPDX-License-Identifier: Apache-2.0
"""What the suite union measures, by kind."""
