# cmake -DFILE=TEXT -DOUT=SOURCE.cc -DHEADER=src/... -DNAMESPACE=rung::... -DFUNCTION=NAME -P embed_text.cmake: the file as
# one function that returns a std::string. In parts: a compiler bounds the length of a literal.
file(READ ${FILE} text)
string(LENGTH "${text}" length)
get_filename_component(name ${FILE} NAME)
set(parts "")
set(at 0)
while(at LESS length)
  string(SUBSTRING "${text}" ${at} 12000 part)
  string(APPEND parts "  text += R\"embedded(${part})embedded\";\n")
  math(EXPR at "${at} + 12000")
endwhile()
file(WRITE ${OUT} "// Made by cmake/embed_text.cmake from ${name}: do not edit.
#include \"${HEADER}\"

namespace ${NAMESPACE} {

std::string ${FUNCTION}() {
  std::string text;
${parts}  return text;
}

}  // namespace ${NAMESPACE}
")
