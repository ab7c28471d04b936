// SPDX-License-Identifier: Apache-2.0
#include <slime/slime.h>
#include <iostream>
#include <string>

int main()
{
	const std::string built = std::to_string(SLIME_VERSION_MAJOR) + "." +
				  std::to_string(SLIME_VERSION_MINOR) + "." +
				  std::to_string(SLIME_VERSION_PATCH);

	std::cout << slime_version() << "\n";
	return built != slime_version();
}
