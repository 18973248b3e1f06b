# SPDX-License-Identifier: Apache-2.0
"""The arguments and results of calls."""
