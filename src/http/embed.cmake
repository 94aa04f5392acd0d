# cmake -DFILE=openapi.json -DOUT=openapi.cc -P embed.cmake: the file as one function. In parts: a compiler bounds the
# length of a literal.
file(READ ${FILE} text)
string(LENGTH "${text}" length)
set(parts "")
set(at 0)
while(at LESS length)
  string(SUBSTRING "${text}" ${at} 12000 part)
  string(APPEND parts "  text += R\"openapi(${part})openapi\";\n")
  math(EXPR at "${at} + 12000")
endwhile()
file(WRITE ${OUT} "// Made by src/http/embed.cmake from openapi.json: do not edit.
#include \"src/http/openapi.h\"

namespace rung::http {

std::string openapi_json() {
  std::string text;
${parts}  return text;
}

}  // namespace rung::http
")
