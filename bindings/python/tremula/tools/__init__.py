# SPDX-License-Identifier: Apache-2.0
"""Programs that run alongside an application."""
