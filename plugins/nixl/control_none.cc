// SPDX-License-Identifier: Apache-2.0
#include "control.hh"

#include <stdexcept>

std::unique_ptr<Control> make_control(const Settings &, const std::string &,
				      const slime_context_attr &, const char *,
				      const slime_rpc_method_attr &)
{
	throw std::runtime_error("ctrl: this libplugin_SLIME.so was built without nanoctrl: use "
				 "that of the folder nixl-ctrl");
}
