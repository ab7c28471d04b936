# SPDX-License-Identifier: Apache-2.0
"""The store of pages behind the interfaces of inference engines."""
