// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a notification: the length of the sender's name (4, little-endian), the name, the
// message. A peer sends them by a call of this method.
#pragma once

#include <cstddef>
#include <string>

#define NOTICE_METHOD "nixl.notice"
#define NOTICE_MAX    (16u << 20)

// False: they are no notification.
bool notice_read(const void *data, size_t len, std::string &from, std::string &msg);
