// SPDX-License-Identifier: Apache-2.0
#include "settings.hh"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace
{

[[noreturn]] void refuse(const std::string &name, const std::string &value, const char *expected)
{
	throw std::invalid_argument(name + ": \"" + value + "\" is not " + expected);
}

std::string variable(const std::string &name)
{
	std::string s = "SLIME_NIXL_";

	for (char c : name)
		s += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
	return s;
}

std::vector<slime_transport> parse_transports(const std::string &name, const std::string &value)
{
	std::vector<slime_transport> out;
	std::istringstream in(value);
	std::string word;

	while (std::getline(in, word, ',')) {
		slime_transport t = slime_transport_by_name(word.c_str());

		if (t == SLIME_TRANSPORT_NONE)
			refuse(name, value, "a list of shm, rdma, tcp");
		for (slime_transport seen : out) {
			if (seen == t)
				refuse(name, value, "a list in which each transport stands once");
		}
		out.push_back(t);
	}
	return out;
}

slime_polling parse_polling(const std::string &name, const std::string &value)
{
	if (value == "adaptive")
		return SLIME_POLLING_ADAPTIVE;
	if (value == "busy")
		return SLIME_POLLING_BUSY;
	if (value == "event")
		return SLIME_POLLING_EVENT;
	refuse(name, value, "one of adaptive, busy, event");
}

slime_foreign parse_foreign(const std::string &name, const std::string &value)
{
	if (value == "require")
		return SLIME_FOREIGN_REQUIRE;
	if (value == "auto")
		return SLIME_FOREIGN_AUTO;
	if (value == "off")
		return SLIME_FOREIGN_OFF;
	refuse(name, value, "one of require, auto, off");
}

uint64_t parse_ms(const std::string &name, const std::string &value)
{
	static const char expected[] = "a number of milliseconds from 0 to 86400000";
	uint64_t ms = 0;
	const char *end = value.data() + value.size();
	auto [at, err] = std::from_chars(value.data(), end, ms);

	if (value.empty() || err != std::errc() || at != end || ms > 86400000)
		refuse(name, value, expected);
	return ms;
}

} // namespace

abi::Params settings_defaults()
{
	return { { "transports", "" },	   { "devices", "" },	{ "polling", "adaptive" },
		 { "bind", "127.0.0.1" },  { "advertise", "" }, { "foreign_memory", "require" },
		 { "op_timeout_ms", "0" }, { "ctrl", "" },	{ "scope", "default" } };
}

Settings settings_read(const abi::Params &params)
{
	Settings s;

	for (const auto &p : params) {
		if (!settings_defaults().count(p.first))
			throw std::invalid_argument("unknown parameter " + p.first);
	}
	for (const auto &d : settings_defaults()) {
		const std::string &key = d.first;
		auto given = params.find(key);
		std::string name = key, value;

		if (given != params.end()) {
			value = given->second;
		} else if (const char *env = std::getenv(variable(key).c_str())) {
			name = variable(key);
			value = env;
		} else {
			continue;
		}
		if (key == "transports")
			s.transports = parse_transports(name, value);
		else if (key == "polling")
			s.polling = parse_polling(name, value);
		else if (key == "foreign_memory")
			s.foreign_memory = parse_foreign(name, value);
		else if (key == "op_timeout_ms")
			s.op_timeout_ms = parse_ms(name, value);
		else if (key == "ctrl")
			s.ctrl = value;
		else if (key == "scope")
			s.scope = value;
		else if (key == "devices")
			s.devices = value;
		else if (key == "bind")
			s.bind = value;
		else
			s.advertise = value;
	}
	return s;
}
