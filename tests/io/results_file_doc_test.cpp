// docs/results-file.md: it names every dataset, and its Python runs.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "io/architecture_fields.hpp"
#include "io/file_system.hpp"
#include "io/output_folder.hpp"
#include "io/results_reader.hpp"
#include "io/segment.hpp"
#include "results_fixture.hpp"

using namespace tessera;

namespace {

const char* const kPython = "/usr/bin/python3";

std::string page() { return read_text(std::string(TESSERA_SOURCE_DIR) + "/docs/results-file.md"); }

void write_results(const std::string& folder) {
  const Study study = fixture::study();
  const Space space(study);
  OutputFolder output(folder, FolderMode::fresh, study, space);
  SegmentSink sink(folder, 0, Record::all);
  Reducer reducer(study, space);
  for (std::uint64_t u = 0; u < space.units(); ++u) {
    UnitResult unit = fixture::unit(space, u);
    reducer.add(unit);
    sink.write(std::move(unit));
  }
  sink.flush();
  output.finish(study, space, reducer.result(), 1);
}

std::vector<std::string> python_blocks(const std::string& text) {
  std::vector<std::string> out;
  const std::string open = "```python\n";
  for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    out.push_back(text.substr(at, text.find("```", at) - at));
  }
  return out;
}

bool has_module(const std::string& module) { return std::system((std::string(kPython) + " -c 'import " + module + "' >/dev/null 2>&1").c_str()) == 0; }

void datasets(const Hdf5Reader& file, const std::string& group, std::vector<std::string>& out) {
  for (const auto& name : file.children(group)) {
    const std::string path = (group == "/" ? "" : group) + "/" + name;
    if (file.has_attribute(path, "unit")) out.push_back(path);
    else datasets(file, path, out);
  }
}

}  // namespace

TEST_CASE("every dataset has unit and description and stands in the page", "[results][docs]") {
  const fixture::TemporaryFolder folder;
  write_results(folder.path());
  const ResultsReader reader(folder / "results.h5");
  const std::string text = page();
  std::vector<std::string> all;
  datasets(reader.file(), "/", all);
  CHECK(all.size() > 100);
  for (const auto& path : all) {
    INFO(path);
    CHECK(!reader.file().text_attribute(path, "description").empty());
    CHECK(!reader.file().text_attribute(path, "unit").empty());
    const std::string name = path.substr(path.rfind('/') + 1);
    if (path.rfind("/architectures/", 0) == 0 && architecture_field(name)) continue;  // listed on the page of architectures
    CHECK((text.find("`" + path + "`") != std::string::npos || text.find("`" + name + "`") != std::string::npos));
  }
}

TEST_CASE("the page's Python runs", "[results][docs]") {
  const auto blocks = python_blocks(page());
  REQUIRE(blocks.size() == 3);
  const fixture::TemporaryFolder folder;
  write_results(folder.path());
  int number = 0;
  for (const auto& block : blocks) {
    bool able = true;
    for (const char* module : {"h5py", "pandas", "xarray"})
      if (block.find(std::string("import ") + module) != std::string::npos && !has_module(module)) {
        WARN("skipped a snippet: " << kPython << " has no " << module);
        able = false;
      }
    if (!able) continue;
    const std::string script = folder / ("snippet" + std::to_string(++number) + ".py"), output = script + ".out";
    std::ofstream(script) << block;
    const int code = std::system(("cd " + folder.path() + " && " + kPython + " " + script + " > " + output + " 2>&1").c_str());
    INFO(read_text(output));
    CHECK(code == 0);
    CHECK(read_text(output).size() > 20);
  }
}

TEST_CASE("h5dump reads the file", "[results][docs]") {
  if (std::system("command -v h5dump >/dev/null 2>&1") != 0) {
    WARN("skipped: no h5dump");
    return;
  }
  const fixture::TemporaryFolder folder;
  write_results(folder.path());
  CHECK(std::system(("h5dump " + (folder / "results.h5") + " > " + (folder / "dump") + " 2>&1").c_str()) == 0);
  CHECK(read_text(folder / "dump").find("nats/token") != std::string::npos);
}
