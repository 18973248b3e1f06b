# SPDX-License-Identifier: Apache-2.0
"""What calls take and return."""
