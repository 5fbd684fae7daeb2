// Segments: the immutable files that finished units are kept in, and the sink that writes them.
//
// Units are gathered (up to kSegmentBytes or kSegmentSeconds) and written as two files that share a name made of
// their first unit: NAME.units (counts and best rows) and NAME.rows (columns of the evaluations; none with
// Record::best). Each is written aside, synced, renamed and its folder synced; then one ledger line per unit says
// where in the files it lies and with which checksum (ledger.hpp). All numbers little-endian:
//   a unit in NAME.units: u64 unit, rows, columns hash; counts; u64 number of best rows, BestRow each 80 bytes
//   a unit in NAME.rows:  u64 first id, u64 bytes of an id offset (4 or 8), then the columns one after the other:
//                         id offsets, status u8, step, memory, compute, communication, ramp, host as f32
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/ledger.hpp"
#include "tessera/sweep.hpp"

namespace tessera {

inline constexpr std::uint64_t kSegmentBytes = std::uint64_t{16} << 20;  ///< a segment is closed at this size [B]
inline constexpr double kSegmentSeconds = 2.0;                           ///< ... or at this age [s]

/// One per rank. Files are written by a thread of its own, so that a slow disk does not hold up the rank; at most
/// two segments wait for it, which bounds the memory.
class SegmentSink : public UnitSink {
 public:
  /// Touches no file; the folder must exist by the first write().
  SegmentSink(const std::string& folder, int rank, Record record);
  ~SegmentSink() override;

  std::vector<UnitSummary> finished() override;
  void write(UnitResult&&) override;
  void flush() override;

  /// What finished() found damaged or torn, one sentence each, for the user.
  const std::vector<std::string>& notices() const { return notices_; }

 private:
  struct Writer;
  void close_segment();
  std::string folder_;
  int rank_;
  Record record_;
  std::vector<UnitResult> open_;
  std::uint64_t open_bytes_ = 0;
  std::int64_t opened_ns_ = 0;
  std::vector<std::string> notices_;
  std::unique_ptr<Writer> writer_;
};

/// The unit's part of NAME.units as bytes, and back. Throws RunError where the bytes are no such record.
std::vector<std::uint8_t> pack_summary(const UnitSummary&);
UnitSummary unpack_summary(std::span<const std::uint8_t>);

/// Writes the unit's part of NAME.rows (at least one row) at the end of `file`; `offset` is its size and grows.
Extent write_rows(File& file, std::uint64_t& offset, const Columns&);
/// Bytes of `rows` rows whose id offsets take `id_bytes`.
std::uint64_t packed_rows_bytes(std::uint64_t rows, std::uint64_t id_bytes);
inline constexpr int kMetricColumns = 6;  ///< step, memory, compute, communication, ramp, host

/// Reads the rows of one unit at a time; neighbouring units of one file open it once.
class RowReader {
 public:
  explicit RowReader(const std::string& folder);
  ~RowReader();
  /// Loads a unit's rows and checks their checksum. Throws RunError where they are missing or damaged.
  void open(const LedgerEntry&);
  std::uint64_t rows() const { return rows_; }
  void ids(std::uint64_t first, std::span<std::uint64_t> out) const;
  std::span<const std::uint8_t> status(std::uint64_t first, std::uint64_t count) const;
  /// 32-bit floats as bytes; `column` 0 .. kMetricColumns - 1.
  std::span<const std::uint8_t> metric(int column, std::uint64_t first, std::uint64_t count) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::uint64_t first_id_ = 0, id_bytes_ = 4, rows_ = 0;
};

/// Finished units of a folder whose files are whole (size and checksum), in unit order, and what was not whole.
struct FinishedUnits {
  std::vector<LedgerEntry> entries;      ///< ascending by unit, one per unit
  std::vector<UnitSummary> summaries;    ///< in step with entries
  std::vector<std::string> notices;
};
/// `rows_needed`: check the rows too (they are deleted once results.h5 holds them).
FinishedUnits read_finished_units(const std::string& folder, bool rows_needed);

}  // namespace tessera
