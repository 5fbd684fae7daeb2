#include "io/preset_reader.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "model/constants.hpp"
#include "tessera/error.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

std::string file_of(const std::string& name, const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / ("tessera-preset-" + std::to_string(getpid()) + "-" + name + ".toml");
  std::ofstream(path) << text;
  return path.string();
}

}  // namespace

TEST_CASE("a stack that extends nothing has the counted bytes and defaults of base") {
  const Stack base = Presets().stack("base"), own = Presets().stack(file_of("plain", "title = \"ours\"\nrouter_bytes = 40\n"));
  CHECK(own.router_bytes == 40);
  for (const auto& field : stack_constants())
    if (field.key != "router_bytes") CHECK(own.*field.member == base.*field.member);
}

TEST_CASE("every stack constant of a preset that is not neutral has a source") {
  ConstantSources sources;
  const Stack s = Presets().stack("base", &sources);
  const Stack neutral;
  for (const auto& field : stack_constants()) {
    if (s.*field.member == neutral.*field.member) continue;
    const auto at = sources.find("stack." + std::string(field.key));
    REQUIRE(at != sources.end());
    CHECK(!at->second.source.empty());
  }
}

TEST_CASE("tiles of a device are read from its preset, and refused with file and key") {
  CHECK(Presets().device("h100").gemm_tiles.size() == 5);
  CHECK(Presets().device("b200").gemm_tiles.size() == 6);
  CHECK(Presets().device("b200").grouped_tile.columns == 256);
  const std::string one = file_of("one-tile", "extends = \"h100\"\ngemm_tiles = [\"128x64\"]\n");
  CHECK(Presets().device(one).gemm_tiles.front().rows == 128);
  CHECK_THROWS_WITH(Presets().device(file_of("bad-tile", "extends = \"h100\"\ngemm_tiles = [\"128\"]\n")), Contains("gemm_tiles") && Contains("128x256"));
  CHECK_THROWS_WITH(Presets().device(file_of("no-tile", "extends = \"h100\"\ngemm_tiles = []\n")), Contains("gemm_tiles"));
}
