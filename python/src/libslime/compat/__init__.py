# SPDX-License-Identifier: Apache-2.0
"""The habits of other libraries over ours."""
