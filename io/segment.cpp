#include "io/segment.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <chrono>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "io/chunk_codec.hpp"
#include "io/manifest.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little, "segments are raw little-endian memory");

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

template <class T>
void put(std::vector<std::uint8_t>& out, const T* values, std::size_t count) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(values);
  out.insert(out.end(), bytes, bytes + count * sizeof(T));
}
template <class T>
void put(std::vector<std::uint8_t>& out, const T& value) {
  put(out, &value, 1);
}

class Cursor {
 public:
  explicit Cursor(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  template <class T>
  void take(T* values, std::size_t count) {
    if (count > bytes_.size() / sizeof(T)) throw RunError("a segment is too short for what it says it holds");
    std::memcpy(values, bytes_.data(), count * sizeof(T));
    bytes_ = bytes_.subspan(count * sizeof(T));
  }
  template <class T>
  T take() {
    T value{};
    take(&value, 1);
    return value;
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::uint8_t> bytes_;
};

std::uint64_t id_bytes_of(const Columns& columns) {
  return columns.size() == 0 || columns.id.back() - columns.id.front() <= 0xffffffffull ? 4 : 8;
}

/// Appends one part to `file` and returns where it lies.
Extent append(File& file, std::uint64_t& offset, std::span<const std::uint8_t> bytes) {
  const Extent extent{offset, bytes.size(), crc32(bytes)};
  file.write(bytes);
  offset += bytes.size();
  return extent;
}

constexpr std::uint64_t kRowsHeader = 2 * sizeof(std::uint64_t);

std::string segments_of(const std::string& folder) { return folder + "/segments"; }

}  // namespace

std::vector<std::uint8_t> pack_summary(const UnitSummary& s) {
  std::vector<std::uint8_t> out;
  put(out, s.unit);
  put(out, s.rows);
  put(out, s.columns_hash);
  put(out, s.counts.points);
  put(out, s.counts.evaluations);
  put(out, s.counts.feasible);
  put(out, s.counts.refused.data(), s.counts.refused.size());
  put(out, s.counts.sample.data(), s.counts.sample.size());
  put(out, s.counts.miss);
  put(out, static_cast<std::uint64_t>(s.best.size()));
  put(out, s.best.data(), s.best.size());
  return out;
}

UnitSummary unpack_summary(std::span<const std::uint8_t> bytes) {
  Cursor cursor(bytes);
  UnitSummary s;
  s.unit = cursor.take<std::uint64_t>();
  s.rows = cursor.take<std::uint64_t>();
  s.columns_hash = cursor.take<std::uint64_t>();
  s.counts.points = cursor.take<std::uint64_t>();
  s.counts.evaluations = cursor.take<std::uint64_t>();
  s.counts.feasible = cursor.take<std::uint64_t>();
  cursor.take(s.counts.refused.data(), s.counts.refused.size());
  cursor.take(s.counts.sample.data(), s.counts.sample.size());
  s.counts.miss = cursor.take<ClosestMiss>();
  const auto count = cursor.take<std::uint64_t>();
  if (count * sizeof(BestRow) != cursor.left()) throw RunError("a segment does not hold what it says it holds");
  s.best.resize(count);
  cursor.take(s.best.data(), count);
  return s;
}

std::uint64_t packed_rows_bytes(std::uint64_t rows, std::uint64_t id_bytes) {
  constexpr std::uint64_t kStatus = 1, kMetrics = kMetricColumns * sizeof(float);
  return kRowsHeader + rows * (id_bytes + kStatus + kMetrics);
}

Extent write_rows(File& file, std::uint64_t& offset, const Columns& c) {
  const std::uint64_t start = offset;
  std::uint32_t crc = 0;
  auto part = [&](std::span<const std::uint8_t> bytes) {
    crc = crc32(bytes, crc);
    file.write(bytes);
    offset += bytes.size();
  };
  const std::uint64_t header[2] = {c.id.front(), id_bytes_of(c)};
  part(bytes_of(std::span<const std::uint64_t>(header)));
  if (header[1] == sizeof(std::uint32_t)) {
    std::vector<std::uint32_t> offsets(c.size());
    for (std::size_t i = 0; i < c.size(); ++i) offsets[i] = static_cast<std::uint32_t>(c.id[i] - header[0]);
    part(bytes_of(offsets));
  } else {
    std::vector<std::uint64_t> offsets(c.size());
    for (std::size_t i = 0; i < c.size(); ++i) offsets[i] = c.id[i] - header[0];
    part(bytes_of(offsets));
  }
  part(bytes_of(c.status));
  for (const auto* column : {&c.step_seconds, &c.memory_bytes, &c.compute_seconds, &c.communication_seconds, &c.ramp_seconds, &c.host_seconds})
    part(bytes_of(*column));
  return {start, offset - start, crc};
}

// --------------------------------------------------------------------------------------------- the writer thread

struct SegmentSink::Writer {
  Writer(std::string folder, int rank, std::uint64_t manifest)
      : folder_(std::move(folder)), manifest_(manifest), ledger_(folder_, rank), thread_([this] { run(); }) {}

  ~Writer() {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void push(std::vector<UnitResult>&& units) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || waiting_.size() < kMostWaiting; });
    rethrow();
    waiting_.push_back(std::move(units));
    changed_.notify_all();
  }

  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || (waiting_.empty() && !busy_); });
    rethrow();
  }

 private:
  static constexpr std::size_t kMostWaiting = 2;

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  void run() {
    while (true) {
      std::vector<UnitResult> units;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return closing_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        units = std::move(waiting_.front());
        waiting_.pop_front();
        busy_ = true;
      }
      std::exception_ptr failure;
      try {
        write(units);
      } catch (...) {
        failure = std::current_exception();
      }
      std::lock_guard lock(mutex_);
      busy_ = false;
      if (failure) {
        failure_ = failure;
        waiting_.clear();
      }
      changed_.notify_all();
    }
  }

  /// A name no segment has: a unit that is done again after damage must not replace the files that hold its
  /// neighbours. Units belong to one rank at a time, so no other rank takes the name meanwhile.
  std::string free_name(std::uint64_t unit) const {
    for (int attempt = 0;; ++attempt) {
      const std::string name = fmt::format("u{:09}-{}", unit, attempt);
      std::error_code code;
      if (!std::filesystem::exists(fmt::format("{}/{}.units", segments_of(folder_), name), code) &&
          !std::filesystem::exists(fmt::format("{}/{}.rows", segments_of(folder_), name), code))
        return name;
    }
  }

  void write(const std::vector<UnitResult>& units) {
    const std::string name = free_name(units.front().unit);
    const std::string base = segments_of(folder_) + "/" + name;
    const bool rows = std::any_of(units.begin(), units.end(), [](const UnitResult& u) { return u.columns.size() > 0; });
    std::vector<LedgerEntry> entries;
    try {
      File summaries(base + ".units.tmp", File::Mode::create), columns;
      if (rows) columns = File(base + ".rows.tmp", File::Mode::create);
      std::uint64_t summary_offset = 0, column_offset = 0;
      for (const auto& unit : units) {
        LedgerEntry entry{unit.unit, name, unit.rows, {}, {}, manifest_};
        entry.summary = append(summaries, summary_offset, pack_summary(unit));
        if (unit.columns.size() > 0) entry.columns = write_rows(columns, column_offset, unit.columns);
        entries.push_back(std::move(entry));
      }
      if (rows) {
        columns.sync();
        columns.close();
      }
      summaries.sync();
      summaries.close();
      if (rows) rename_file(base + ".rows.tmp", base + ".rows");
      rename_file(base + ".units.tmp", base + ".units");
    } catch (...) {
      std::error_code code;  // give a full disk its bytes back
      for (const char* ending : {".units.tmp", ".rows.tmp"}) std::filesystem::remove(base + ending, code);
      throw;
    }
    sync_folder(segments_of(folder_));
    ledger_.append(entries);
  }

  std::string folder_;
  std::uint64_t manifest_;
  LedgerWriter ledger_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<UnitResult>> waiting_;
  bool busy_ = false, closing_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

// ------------------------------------------------------------------------------------------------------ the sink

SegmentSink::SegmentSink(const std::string& folder, int rank, Record record) : folder_(folder), rank_(rank), record_(record) {}

SegmentSink::~SegmentSink() = default;

std::vector<UnitSummary> SegmentSink::finished() {
  const bool rows = record_ != Record::best;
  FinishedUnits units = read_finished_units(folder_, rows && !std::filesystem::exists(folder_ + "/results.h5"));
  // Rows are gone once results.h5 holds them. That is enough only while nothing has to be merged again.
  if (rows && units.entries.size() < read_manifest(folder_).units) units = read_finished_units(folder_, true);
  notices_ = std::move(units.notices);
  return std::move(units.summaries);
}

void SegmentSink::write(UnitResult&& unit) {
  if (!writer_) writer_ = std::make_unique<Writer>(folder_, rank_, manifest_hash(read_manifest(folder_)));
  if (open_.empty()) opened_ns_ = now_ns();
  open_bytes_ += packed_rows_bytes(unit.columns.size(), 8) + unit.best.size() * sizeof(BestRow) + sizeof(Counts);
  open_.push_back(std::move(unit));
  constexpr double kNanosecond = 1e-9;
  if (open_bytes_ >= kSegmentBytes || static_cast<double>(now_ns() - opened_ns_) * kNanosecond >= kSegmentSeconds) close_segment();
}

void SegmentSink::close_segment() {
  if (open_.empty()) return;
  writer_->push(std::move(open_));
  open_.clear();
  open_bytes_ = 0;
}

void SegmentSink::flush() {
  if (!writer_) return;
  close_segment();
  writer_->drain();
}

// ------------------------------------------------------------------------------------------------------- reading

namespace {

/// Files of the segment folder, opened once while entries of neighbouring units are read.
class OpenFiles {
 public:
  explicit OpenFiles(std::string folder) : folder_(std::move(folder)) {}
  const File* get(const std::string& name) {
    if (name != name_) {
      name_ = name;
      file_.reset();
      std::error_code code;
      if (std::filesystem::exists(folder_ + "/" + name, code)) file_ = std::make_unique<File>(folder_ + "/" + name, File::Mode::read);
    }
    return file_.get();
  }

 private:
  std::string folder_, name_;
  std::unique_ptr<File> file_;
};

/// The bytes of a part, or why they cannot be believed.
std::string read_part(OpenFiles& files, const std::string& name, const Extent& extent, std::vector<std::uint8_t>& bytes) {
  const File* file = files.get(name);
  if (!file) return "is missing";
  if (extent.offset > file->size() || extent.bytes > file->size() - extent.offset) return "is truncated";
  bytes.resize(extent.bytes);
  if (!file->read_at(extent.offset, bytes)) return "is truncated";
  if (crc32(bytes) != extent.crc) return "is damaged: its checksum differs";
  return {};
}

}  // namespace

struct RowReader::Impl {
  explicit Impl(const std::string& folder) : path(segments_of(folder)), files(path) {}
  std::string path;
  OpenFiles files;
  std::vector<std::uint8_t> bytes;
};

RowReader::RowReader(const std::string& folder) : impl_(std::make_unique<Impl>(folder)) {}
RowReader::~RowReader() = default;

void RowReader::open(const LedgerEntry& entry) {
  const std::string name = entry.segment + ".rows";
  const std::string fault = read_part(impl_->files, name, entry.columns, impl_->bytes);
  std::uint64_t id_bytes = 0;
  if (fault.empty() && impl_->bytes.size() >= kRowsHeader) {
    std::memcpy(&first_id_, impl_->bytes.data(), sizeof(first_id_));
    std::memcpy(&id_bytes, impl_->bytes.data() + sizeof(first_id_), sizeof(id_bytes));
  }
  if (!fault.empty() || (id_bytes != 4 && id_bytes != 8) || impl_->bytes.size() != packed_rows_bytes(entry.rows, id_bytes))
    throw RunError(fmt::format("{}/{} {} (unit {}) go on with: tessera sweep ... --resume, which evaluates it again.", impl_->path, name,
                               fault.empty() ? "does not hold what its ledger line says" : fault, entry.unit));
  id_bytes_ = id_bytes;
  rows_ = entry.rows;
}

void RowReader::ids(std::uint64_t first, std::span<std::uint64_t> out) const {
  const std::uint8_t* at = impl_->bytes.data() + kRowsHeader + first * id_bytes_;
  for (auto& id : out) {
    std::uint64_t offset = 0;
    std::memcpy(&offset, at, id_bytes_);
    id = first_id_ + offset;
    at += id_bytes_;
  }
}

std::span<const std::uint8_t> RowReader::status(std::uint64_t first, std::uint64_t count) const {
  return std::span<const std::uint8_t>(impl_->bytes).subspan(kRowsHeader + rows_ * id_bytes_ + first, count);
}

std::span<const std::uint8_t> RowReader::metric(int column, std::uint64_t first, std::uint64_t count) const {
  const std::uint64_t start = kRowsHeader + rows_ * (id_bytes_ + 1) + (static_cast<std::uint64_t>(column) * rows_ + first) * sizeof(float);
  return std::span<const std::uint8_t>(impl_->bytes).subspan(start, count * sizeof(float));
}

FinishedUnits read_finished_units(const std::string& folder, bool rows_needed) {
  FinishedUnits out;
  Ledger ledger = read_ledger(folder);
  out.notices = std::move(ledger.notices);
  if (ledger.entries.empty()) return out;
  const std::uint64_t manifest = manifest_hash(read_manifest(folder));
  OpenFiles summaries(segments_of(folder)), columns(segments_of(folder));
  std::vector<std::uint8_t> bytes;
  for (auto& entry : ledger.entries) {
    if (entry.manifest != manifest) {
      out.notices.push_back(fmt::format("a ledger line of unit {} belongs to another study; the unit is evaluated again.", entry.unit));
      continue;
    }
    std::string name = entry.segment + ".units";
    std::string fault = read_part(summaries, name, entry.summary, bytes);
    UnitSummary summary;
    if (fault.empty()) {
      try {
        summary = unpack_summary(bytes);
        if (summary.unit != entry.unit || summary.rows != entry.rows) fault = "does not hold the unit its ledger line says";
      } catch (const RunError& error) {
        fault = error.what();
      }
    }
    if (fault.empty() && rows_needed && entry.columns.bytes > 0) {
      name = entry.segment + ".rows";
      fault = read_part(columns, name, entry.columns, bytes);
    }
    if (!fault.empty()) {
      out.notices.push_back(fmt::format("segments/{} {}; unit {} is evaluated again.", name, fault, entry.unit));
      continue;
    }
    out.entries.push_back(std::move(entry));
    out.summaries.push_back(std::move(summary));
  }
  return out;
}

}  // namespace tessera
