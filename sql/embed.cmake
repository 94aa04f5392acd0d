# cmake -DSQL_DIR=... -DOUT=... -P embed.cmake: writes the schema, and all statements, into OUT as strings.
file(READ ${SQL_DIR}/schema.sql schema)
file(GLOB files ${SQL_DIR}/statements/*.sql)
foreach(file ${files})
  file(READ ${file} content)
  string(APPEND statements "${content}")
endforeach()
file(WRITE ${OUT} "// Made by sql/embed.cmake from sql/mysql: do not edit.\n#include <string_view>\n\n"
  "namespace rung::sql {\n"
  "extern const std::string_view kSchemaText = R\"rungsql(${schema})rungsql\";\n"
  "extern const std::string_view kStatementsText = R\"rungsql(${statements})rungsql\";\n"
  "}  // namespace rung::sql\n")
