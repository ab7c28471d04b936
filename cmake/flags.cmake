# slime_flags: what every target of ours links. Presets add -Werror and the sanitizers.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
	set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

option(SLIME_WERROR "Warnings are errors" OFF)
set(SLIME_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")

add_library(slime_flags INTERFACE)
target_compile_definitions(slime_flags INTERFACE _GNU_SOURCE SLIME_VERSION="${PROJECT_VERSION}")
# Some of C alone: the others are none of C++, or complain that a function and a struct have one name.
target_compile_options(slime_flags INTERFACE
	-Wall -Wextra $<$<COMPILE_LANGUAGE:C>:-Wshadow> $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes> -Wvla -Wundef
	-Wcast-qual -Wformat=2 -Wpointer-arith)
if(SLIME_WERROR)
	target_compile_options(slime_flags INTERFACE -Werror)
endif()
if(SLIME_SANITIZE)
	target_compile_options(slime_flags INTERFACE
		-fsanitize=${SLIME_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
	target_link_options(slime_flags INTERFACE -fsanitize=${SLIME_SANITIZE})
endif()
option(SLIME_COVERAGE "Count what the tests execute" OFF)
if(SLIME_COVERAGE)
	target_compile_options(slime_flags INTERFACE --coverage -O0)
	target_link_options(slime_flags INTERFACE --coverage)
endif()
option(SLIME_FUZZ "Build the fuzz targets; needs clang" OFF)
if(SLIME_FUZZ)
	if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
		message(FATAL_ERROR "SLIME_FUZZ needs clang, not ${CMAKE_C_COMPILER_ID}")
	endif()
	target_compile_options(slime_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(SLIME_SANITIZE MATCHES thread AND CMAKE_C_COMPILER_ID STREQUAL GNU)
	# gcc refuses fences because its sanitizer does not see what they order. Ours stand between a store and a
	# load of atomics, where no other data depends on them.
	target_compile_options(slime_flags INTERFACE -Wno-tsan)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/hardening.cmake)
target_include_directories(slime_flags INTERFACE
	${PROJECT_SOURCE_DIR}/libslime/include ${PROJECT_SOURCE_DIR}/libslime
	${PROJECT_SOURCE_DIR})

# A build names its commit: results and --version carry it.
find_package(Git QUIET)
set(SLIME_COMMIT "unknown")
if(GIT_FOUND)
	execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} rev-parse --short=12 HEAD
		OUTPUT_VARIABLE SLIME_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
