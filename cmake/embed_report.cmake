# Writes OUT: the page, style and script of io/report (SOURCE) and the chart library (LIBRARY, a node_modules folder
# that jobs/install-chart-library.sh fills; nothing is downloaded here) as C++ literals. Without the library the
# report command is built all the same and says what is missing.
function(literal name file)
  set(text "")
  if(EXISTS ${file})
    file(READ ${file} text)
  endif()
  string(LENGTH "${text}" length)
  set(pieces "")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 12000 piece)
    string(APPEND pieces "R\"~~~(${piece})~~~\"\n")
    math(EXPR at "${at} + 12000")
  endwhile()
  if(pieces STREQUAL "")
    set(pieces "\"\"")
  endif()
  file(APPEND ${OUT}.new "const char ${name}Text[] =\n${pieces};\nconst std::string_view ${name}{${name}Text, sizeof ${name}Text - 1};\n")
endfunction()

file(WRITE ${OUT}.new "// Made by cmake/embed_report.cmake.\n#include \"io/report_parts.hpp\"\nnamespace tessera {\nnamespace {\n")
literal(kPage ${SOURCE}/page.html)
literal(kStyle ${SOURCE}/page.css)
literal(kScript ${SOURCE}/page.js)
literal(kLibrary ${LIBRARY}/echarts/dist/echarts.min.js)
literal(kEchartsLicence ${LIBRARY}/echarts/LICENSE)
literal(kEchartsNotice ${LIBRARY}/echarts/NOTICE)
literal(kD3Licence ${LIBRARY}/echarts/licenses/LICENSE-d3)
literal(kZrenderLicence ${LIBRARY}/zrender/LICENSE)
literal(kTslibLicence ${LIBRARY}/tslib/LICENSE.txt)
file(APPEND ${OUT}.new "}  // namespace\n
const EmbeddedReport& embedded_report() {
  static const EmbeddedReport embedded{kPage, kStyle, kScript, kLibrary,
                                       {{{\"Apache ECharts\", kEchartsNotice, kEchartsLicence}, {\"d3 (part of ECharts)\", \"\", kD3Licence},
                                        {\"ZRender\", \"\", kZrenderLicence}, {\"tslib\", \"\", kTslibLicence}}}};
  return embedded;
}
}  // namespace tessera\n")
file(RENAME ${OUT}.new ${OUT})
