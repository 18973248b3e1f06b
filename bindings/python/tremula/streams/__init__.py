# SPDX-License-Identifier: Apache-2.0
"""Sessions, streams and steps."""
