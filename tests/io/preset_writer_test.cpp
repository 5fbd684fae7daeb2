// Constants written into presets come back with the same values, and nothing else of the text changes.
#include <catch2/catch.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "io/preset_writer.hpp"
#include "tessera/error.hpp"

using namespace tessera;

namespace {

Constant constant(const std::string& key, const std::string& unit, double value) {
  Constant c;
  c.key = key;
  c.unit = unit;
  c.value = value;
  c.source = "table \"x\\y\".csv, median 4 %";
  c.low = value * 0.9;
  c.high = value * 1.1;
  c.prior_centre = value * 1.05;
  c.prior_width = 0.2;
  c.fitted = true;
  return c;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

void same(const Constant& a, const Constant& b) {
  CHECK(a.value == Approx(b.value).epsilon(5e-6));
  CHECK(a.low == Approx(b.low).epsilon(5e-6));
  CHECK(a.high == Approx(b.high).epsilon(5e-6));
  CHECK(a.prior_centre == Approx(b.prior_centre).epsilon(5e-6));
  CHECK(a.prior_width == Approx(b.prior_width).epsilon(5e-6));
  CHECK(a.unit == b.unit);
  CHECK(a.source == b.source);
  CHECK(a.fitted == b.fitted);
}

}  // namespace

TEST_CASE("written constants are read back") {
  const std::string folder = (std::filesystem::temp_directory_path() / "tessera_preset_writer").string();
  std::filesystem::create_directories(folder + "/devices");
  const std::vector<Constant> values{constant("gemm_ceiling", "1", 0.712345678), constant("gemm_depth", "elements", 271.25), constant("kernel_gap", "s", 4.321e-6)};
  const Presets embedded;
  const std::string text = rewrite_constants(embedded.text("devices", "b200"), values, "tessera calibrate --device b200 --gemm \"a b.csv\"");
  std::ofstream(folder + "/devices/b200.toml") << text;
  ConstantSources before, after;
  embedded.device("b200", &before);
  const Device d = Presets(folder).device("b200", &after);
  for (const Constant& c : values) {
    same(after.at("device." + c.key), c);
    CHECK(after.at("device." + c.key).preset == "b200");
  }
  CHECK(d.gemm_ceiling == Approx(0.712346).epsilon(1e-9));
  for (const auto& [key, c] : before)
    if (key != "device.gemm_ceiling" && key != "device.gemm_depth" && key != "device.kernel_gap") CHECK(after.at(key).value == c.value);
  CHECK(parse_toml_text(text, "b200")["calibrated_by"].value<std::string>() == "tessera calibrate --device b200 --gemm \"a b.csv\"");
  std::filesystem::remove_all(folder);
}

TEST_CASE("writing twice is writing once") {
  const std::vector<Constant> values{constant("share", "1", 0.7), constant("latency", "s", 4e-5)};
  const std::string once = rewrite_constants(Presets().text("links", "nvlink5"), values, "first");
  CHECK(rewrite_constants(once, values, "first") == once);
  const std::string twice = rewrite_constants(once, values, "second");
  CHECK(lines(twice).size() == lines(once).size());
  CHECK(twice.find("first") == std::string::npos);
}

TEST_CASE("other lines, comments and order stay") {
  const std::string text =
      "# head\n"
      "title = \"T = 1 # no comment\"\n"
      "list = [\n  1,  # gemm_depth = 3\n  2\n]\n"
      "  gemm_depth = 5 # why five\n"
      "gemm_tile_half = { value = 3, source = \"a # b\" }   # behind a table\n"
      "\n# tail\n";
  const auto out = lines(rewrite_constants(text, {constant("gemm_depth", "elements", 7), constant("gemm_tile_half", "elements", 9), constant("new", "1", 2)}, "c"));
  const auto in = lines(text);
  REQUIRE(out.size() == in.size() + 2);
  CHECK(out[0] == in[0]);
  CHECK(out[1] == in[1]);
  CHECK(out[2] == "calibrated_by = \"c\"");
  for (int i = 2; i < 6; ++i) CHECK(out[i + 1] == in[i]);
  CHECK(out[7].starts_with("  gemm_depth = { value = 7, unit = \"elements\""));
  CHECK(out[7].ends_with("fitted = true } # why five"));
  CHECK(out[8].ends_with("fitted = true }   # behind a table"));
  CHECK(out[9].starts_with("new = { value = 2,"));
  CHECK(out[10] == "");
  CHECK(out[11] == "# tail");
}

TEST_CASE("constants of a fabric are in its level tables") {
  const std::string text = "title = \"F\"\n[[level]]\nlink = \"nvlink5\"\nsize = 8\n\n[[level]]\nlink = \"network-400\"\nshare = 0.8\n";
  const auto out = lines(rewrite_constants(text, {constant("level0.latency", "s", 1e-5), constant("share", "1", 0.9)}, "c"));
  REQUIRE(out.size() == 10);
  CHECK(out[5].starts_with("latency = { value = 1e-05"));
  CHECK(out[9].starts_with("share = { value = 0.9"));
  CHECK_THROWS_AS(rewrite_constants(text, {constant("level2.share", "1", 1)}, "c"), InputError);
  CHECK_THROWS_AS(rewrite_constants(text + "[[level]]\nshare = 1\n", {constant("share", "1", 1)}, "c"), InputError);
}

TEST_CASE("what cannot be written is refused") {
  const std::string text = "title = \"T\"\n";
  CHECK_THROWS_AS(rewrite_constants("a = [", {}, "c"), InputError);
  CHECK_THROWS_AS(rewrite_constants(text, {constant("a b", "1", 1)}, "c"), InputError);
  CHECK_THROWS_AS(rewrite_constants(text, {constant("a", "1", 1), constant("a", "1", 2)}, "c"), InputError);
  CHECK_THROWS_AS(rewrite_constants(text, {constant("a", "1", std::numeric_limits<double>::quiet_NaN())}, "c"), InputError);
}
