#include "io/merge.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>

#include "io/chunk_codec.hpp"
#include "io/file_system.hpp"
#include "io/hash.hpp"
#include "io/hdf5_file.hpp"
#include "io/result_tables.hpp"
#include "io/segment.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr int kColumns = 2 + kMetricColumns;

const std::array<ColumnSpec, kColumns>& evaluation_columns() {
  static const std::array<ColumnSpec, kColumns> specs{{
      {"/evaluations/id", ValueType::u64, "id", "Id of the point, ascending; /space turns it into a plan.", 1},
      {"/evaluations/status", ValueType::u8, "1", "0: fits the memory; 1: does not fit.", 1},
      {"/evaluations/step_seconds", ValueType::f32, "s", "Time of a step; 0 where the plan does not fit.", 1},
      {"/evaluations/memory_bytes", ValueType::f32, "B", "Memory allocated on the heaviest stage, without reserve.", 1},
      {"/evaluations/compute_seconds", ValueType::f32, "s", "Part of the step: computing.", 1},
      {"/evaluations/communication_seconds", ValueType::f32, "s", "Part of the step: exposed communication.", 1},
      {"/evaluations/ramp_seconds", ValueType::f32, "s", "Part of the step: pipeline fill, drain and imbalance.", 1},
      {"/evaluations/host_seconds", ValueType::f32, "s", "Part of the step: waiting for the host, and fixed costs.", 1},
  }};
  return specs;
}

/// One chunk of every column on its way: raw rows in, compressed bytes out.
struct Batch {
  std::uint64_t first_row = 0;
  std::array<std::vector<std::uint8_t>, kColumns> raw, compressed;
};

/// Cuts the rows of all units, in order, into batches of `chunk` rows.
class RowStream {
 public:
  RowStream(const std::string& folder, const std::vector<LedgerEntry>& entries, std::uint64_t chunk)
      : reader_(folder), entries_(&entries), chunk_(chunk) {}

  /// Fills the batch; false at the end. The last batch is padded with zeros to a whole chunk.
  bool next(Batch& batch) {
    batch.first_row = done_;
    std::uint64_t filled = 0;
    for (int c = 0; c < kColumns; ++c) batch.raw[c].assign(chunk_ * width(c), 0);
    while (filled < chunk_ && advance()) {
      const std::uint64_t count = std::min(chunk_ - filled, reader_.rows() - at_);
      reader_.ids(at_, {reinterpret_cast<std::uint64_t*>(batch.raw[0].data()) + filled, count});
      copy(reader_.status(at_, count), batch.raw[1], filled);
      for (int m = 0; m < kMetricColumns; ++m) copy(reader_.metric(m, at_, count), batch.raw[2 + m], filled * sizeof(float));
      at_ += count;
      filled += count;
    }
    done_ += filled;
    return filled > 0;
  }

 private:
  static std::size_t width(int column) { return value_bytes(evaluation_columns()[static_cast<std::size_t>(column)].type); }
  static void copy(std::span<const std::uint8_t> from, std::vector<std::uint8_t>& to, std::uint64_t offset) {
    std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  /// Makes sure that the open unit has rows left.
  bool advance() {
    while (!open_ || at_ == reader_.rows()) {
      if (entry_ == entries_->size()) return false;
      const LedgerEntry& entry = (*entries_)[entry_++];
      if (entry.rows == 0) continue;
      reader_.open(entry);
      open_ = true;
      at_ = 0;
    }
    return true;
  }

  RowReader reader_;
  const std::vector<LedgerEntry>* entries_;
  std::uint64_t chunk_;
  std::size_t entry_ = 0;
  std::uint64_t at_ = 0, done_ = 0;
  bool open_ = false;
};

void write_evaluations(Hdf5Writer& file, const std::string& folder, const std::vector<LedgerEntry>& entries, std::uint64_t rows, int threads) {
  file.group("/evaluations", "One row per recorded evaluation, ids ascending. compute + communication + ramp + host = step.");
  std::array<int, kColumns> columns{};
  const std::uint64_t chunk = std::clamp<std::uint64_t>(rows, 1, kChunkRows);  // HDF5: a chunk is no larger than its dataset
  for (std::size_t c = 0; c < kColumns; ++c) columns[c] = file.create(evaluation_columns()[c], rows, chunk);
  RowStream stream(folder, entries, chunk);
  // Two batches per thread keep every thread busy while one is read and one is written. A batch is about 4 MB;
  // the cap keeps a rank with many threads within its memory.
  constexpr std::size_t kMostBatches = 24;
  const std::size_t in_flight = std::min(kMostBatches, 2 * static_cast<std::size_t>(threads) + 2);
  using Token = std::shared_ptr<Batch>;
  std::vector<Token> idle;
  for (std::size_t i = 0; i < in_flight; ++i) idle.push_back(std::make_shared<Batch>());
  std::size_t turn = 0;
  tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
  tbb::parallel_pipeline(
      in_flight,
      tbb::make_filter<void, Token>(tbb::filter_mode::serial_in_order,
                                    [&](tbb::flow_control& control) -> Token {
                                      // In-order filters and at most in_flight tokens: the oldest batch is free again.
                                      Token& batch = idle[turn++ % in_flight];
                                      if (stream.next(*batch)) return batch;
                                      control.stop();
                                      return nullptr;
                                    }) &
          tbb::make_filter<Token, Token>(tbb::filter_mode::parallel,
                                         [&](Token batch) {
                                           for (std::size_t c = 0; c < kColumns; ++c)
                                             compress_chunk(batch->raw[c], value_bytes(evaluation_columns()[c].type), batch->compressed[c]);
                                           return batch;
                                         }) &
          tbb::make_filter<Token, void>(tbb::filter_mode::serial_in_order, [&](const Token& batch) {
            for (std::size_t c = 0; c < kColumns; ++c) file.write_chunk(columns[c], batch->first_row, batch->compressed[c]);
          }));
}

/// Is results.h5 there and the one of this result? Then its rows are safe in it.
bool already_merged(const std::string& path, const SweepResult& result) {
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return false;
  try {
    const Hdf5Reader file(path);
    return file.text_attribute("/study", "signature") == hash_text(result.signature) &&
           file.integer_attribute("/study", "format") == kResultsFormat;
  } catch (const InputError&) {
    return false;  // damaged: written again
  }
}

void delete_rows(const std::string& folder) {
  std::error_code code;
  for (const auto& file : std::filesystem::directory_iterator(folder + "/segments", code))
    if (file.path().extension() == ".rows") std::filesystem::remove(file.path(), code);
}

}  // namespace

MergeReport merge_results(const std::string& folder, const Study& study, const Space& space, const SweepResult& result, int threads) {
  const std::string path = folder + "/results.h5", aside = path + ".tmp";
  MergeReport report;
  report.rows = result.rows;
  if (!already_merged(path, result)) {
    const FinishedUnits units = read_finished_units(folder, false);
    if (units.entries.size() != space.units())
      throw RunError(fmt::format("{} holds {} of {} units ({}) go on with: tessera sweep STUDY --out {} --resume", folder, units.entries.size(),
                                 space.units(), units.notices.empty() ? "the sweep is not finished" : units.notices.front(), folder));
    std::uint64_t rows = 0;
    for (const auto& entry : units.entries) rows += entry.rows;
    report.rows = rows;
    try {
      Hdf5Writer file(aside);
      write_tables(file, study, space, result);
      write_evaluations(file, folder, units.entries, rows, std::max(1, threads));
      file.close();
      File done(aside, File::Mode::append);
      done.sync();
      done.close();
    } catch (...) {
      std::error_code code;
      std::filesystem::remove(aside, code);
      throw;
    }
    rename_file(aside, path);
    sync_folder(folder);
  }
  delete_rows(folder);
  report.bytes = std::filesystem::file_size(path);
  return report;
}

}  // namespace tessera
