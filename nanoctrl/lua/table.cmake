# The C table of a set of scripts with their SHA-1, for embed.cmake here and in src/compat/lua.
set(script_arrays "")
set(script_rows "")

# One script, as Redis is to see it.
function(script_add prefix name text)
	string(SHA1 sha "${text}")
	string(HEX "${text}" hex)
	string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
	string(TOUPPER ${name} upper)
	string(APPEND script_arrays "static const unsigned char ${name}_lua[] = {${bytes}};\n")
	string(APPEND script_rows "\t[${prefix}_${upper}] = { \"${name}\", \"${sha}\", ${name}_lua, sizeof(${name}_lua) },\n")
	set(script_arrays "${script_arrays}" PARENT_SCOPE)
	set(script_rows "${script_rows}" PARENT_SCOPE)
endfunction()

function(script_write out header table)
	file(WRITE ${out} "/* Made by nanoctrl/lua/table.cmake. */\n#include \"${header}\"\n\n${script_arrays}\n"
		"const struct script ${table}[] = {\n${script_rows}};\n")
endfunction()
