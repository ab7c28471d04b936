# cmake -DOUT=scripts.c -DNAMES="a b" -P embed.cmake: each script is lib.lua and its own file.
include(${CMAKE_CURRENT_LIST_DIR}/table.cmake)
separate_arguments(NAMES)
file(READ ${CMAKE_CURRENT_LIST_DIR}/lib.lua lib)
foreach(name ${NAMES})
	file(READ ${CMAKE_CURRENT_LIST_DIR}/${name}.lua body)
	script_add(SCRIPT ${name} "${lib}${body}")
endforeach()
script_write(${OUT} store/script.h scripts)
