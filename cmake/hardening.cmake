# What released binaries defend themselves with. tests/project/hardened.sh reads the ELF files. Sanitizers and gcov's
# counters stand in the same places, and nobody releases those builds.
add_library(slime_hardened INTERFACE)
target_link_libraries(slime_flags INTERFACE slime_hardened)
if(SLIME_SANITIZE OR SLIME_COVERAGE)
	return()
endif()

include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

target_compile_options(slime_hardened INTERFACE -fstack-protector-strong -fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
	target_compile_options(slime_hardened INTERFACE -fcf-protection)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
	target_compile_options(slime_hardened INTERFACE -mbranch-protection=standard)
endif()
# It needs the optimiser. Distributions define it themselves, some as 2.
target_compile_options(slime_hardened INTERFACE
	$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>)
target_link_options(slime_hardened INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
