// SPDX-License-Identifier: Apache-2.0
//
// Settings of a back end: parameters of create_backend(), else SLIME_NIXL_* of the environment,
// since frameworks pass no parameters. docs/nixl.md lists them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "abi.hh"
#include <slime/slime.h>

struct Settings {
	std::vector<slime_transport> transports; // none: the library's order
	std::string devices;			 // "": the library's choice
	slime_polling polling = SLIME_POLLING_ADAPTIVE;
	std::string bind = "127.0.0.1";
	std::string advertise; // "": bind
	slime_foreign foreign_memory = SLIME_FOREIGN_REQUIRE;
	std::string ctrl; // URLs of nanoctrl, with commas between; "": none
	std::string scope = "default";
	uint64_t op_timeout_ms = 0; // 0: a transfer takes as long as it takes

	bool allows_rdma() const
	{
		return transports.empty() ||
		       std::count(transports.begin(), transports.end(), SLIME_TRANSPORT_RDMA);
	}
	bool is_rdma_alone() const
	{
		return transports.size() == 1 && allows_rdma();
	}
};

// Names and defaults, as NIXL shows them.
abi::Params settings_defaults();

// Throws std::invalid_argument with a message that names the setting.
Settings settings_read(const abi::Params &params);
