// From evaluations to bytes: compression of a column's chunk, checksums, and segments on the disk.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "bench_study.hpp"
#include "io/chunk_codec.hpp"
#include "io/output_folder.hpp"
#include "io/segment.hpp"
#include "search/walker.hpp"

namespace {

using namespace tessera;

struct Recorded {
  Study study = bench::make_study(Record::all);
  Space space{study};
};
const Recorded& recorded() {
  static const Recorded value;
  return value;
}

/// The first unit with rows: real columns compress as a sweep's do.
const UnitResult& recorded_unit() {
  static const UnitResult unit = [] {
    const Space& space = recorded().space;
    Walker walker(space);
    for (std::uint64_t i = 0; i < space.units(); ++i) {
      UnitResult result = walker.run(i);
      if (result.columns.size() > 0) return result;
    }
    throw std::runtime_error("the benchmark's study has no legal plan");
  }();
  return unit;
}

std::span<const std::uint8_t> step_bytes() {
  const auto& column = recorded_unit().columns.step_seconds;
  return {reinterpret_cast<const std::uint8_t*>(column.data()), column.size() * sizeof(float)};
}

void compress(benchmark::State& state) {
  const auto raw = step_bytes();
  std::vector<std::uint8_t> out;
  for (auto _ : state) {
    compress_chunk(raw, sizeof(float), out);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(raw.size()));
  state.counters["bytes_per_value"] =
      static_cast<double>(out.size()) / (static_cast<double>(raw.size()) / sizeof(float));
}
BENCHMARK(compress);

void expand(benchmark::State& state) {
  const auto raw = step_bytes();
  std::vector<std::uint8_t> packed, out(raw.size());
  compress_chunk(raw, sizeof(float), packed);
  for (auto _ : state) {
    expand_chunk(packed, sizeof(float), out);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(raw.size()));
}
BENCHMARK(expand);

void checksum(benchmark::State& state) {
  const auto raw = step_bytes();
  for (auto _ : state) benchmark::DoNotOptimize(crc32(raw));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(raw.size()));
}
BENCHMARK(checksum);

/// A folder that is gone afterwards.
struct ScratchFolder {
  std::string path;
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera-bench-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a scratch folder");
    path = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

/// Rows through the sink to synced, renamed segment files, as `sweep --record all` writes them. Items are rows.
void write_segments(benchmark::State& state) {
  const UnitResult& unit = recorded_unit();
  const ScratchFolder scratch;
  const OutputFolder folder(scratch.path, FolderMode::fresh, recorded().study, recorded().space);
  SegmentSink sink(folder.path(), 0, Record::all);
  std::uint64_t index = 0;
  for (auto _ : state) {
    UnitResult copy = unit;
    copy.unit = index++;
    sink.write(std::move(copy));
  }
  sink.flush();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(unit.columns.size()));
}
BENCHMARK(write_segments)->UseRealTime()->Iterations(200);

}  // namespace
