# Writes HEADER: what this build is made from. Run at every build, so that the commit is the one that was
# compiled; the file changes only when its text does.
set(commit "unknown")
find_package(Git QUIET)
if(GIT_FOUND)
	execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} describe --always --dirty --exclude=* --abbrev=12
		OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
	if(NOT failed)
		set(commit "${described}")
	endif()
endif()

set(text "#define SLIME_BUILD_COMMIT \"${commit}\"\n#define SLIME_BUILD_TYPE \"${BUILD_TYPE}\"\n")
string(APPEND text "#define SLIME_BUILD_COMPILER \"${COMPILER}\"\n")
set(old "")
if(EXISTS ${HEADER})
	file(READ ${HEADER} old)
endif()
if(NOT text STREQUAL old)
	file(WRITE ${HEADER} "${text}")
endif()
