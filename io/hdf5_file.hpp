// HDF5 files, as little of them as Tessera needs: 1-D columns with a unit and a description, written chunk by
// chunk from bytes that are already compressed, and read by ranges of rows. The only file that calls HDF5.
// Written files hold no time stamp: the same calls give the same bytes.
// Not thread-safe (HDF5 is not): one thread at a time, whatever the number of files.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tessera {

enum class ValueType : std::uint8_t { u8, u32, u64, i64, f32, f64, text };

/// Bytes of one value; `text_width` is the fixed width of a text column (UTF-8, padded with zeros).
std::size_t value_bytes(ValueType, std::size_t text_width = 1);

struct ColumnSpec {
  std::string path;         ///< "/group/name"
  ValueType type = ValueType::f64;
  std::string unit;         ///< attribute `unit`: "s", "B", "1" (a pure number), "id", "text", ...
  std::string description;  ///< attribute `description`: one sentence
  std::size_t text_width = 1;
};

/// Writes a new file. Every function throws RunError when HDF5 or the disk refuses.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(const std::string& path);  ///< creates or truncates
  ~Hdf5Writer();                                 ///< closes; the file is only good after close()
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  void group(const std::string& path, const std::string& description);
  void attribute(const std::string& path, const std::string& name, const std::string& text);
  void attribute(const std::string& path, const std::string& name, std::int64_t value);
  /// Creates a column of `rows` values in chunks of `chunk_rows`, filtered by shuffle and deflate; the number
  /// returned is its handle. rows == 0 gives an empty column.
  int create(const ColumnSpec&, std::uint64_t rows, std::uint64_t chunk_rows);
  /// Stores the chunk that starts at `first_row` (a multiple of chunk_rows) as it is: bytes made by
  /// compress_chunk() of chunk_codec.hpp, a whole chunk of values before compression.
  void write_chunk(int column, std::uint64_t first_row, std::span<const std::uint8_t> compressed);
  /// Flushes and closes.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads a file. The constructor throws InputError when the file is missing, damaged or no HDF5 file; reads
/// throw InputError when a dataset is missing, has another shape, or cannot be decompressed.
class Hdf5Reader {
 public:
  explicit Hdf5Reader(const std::string& path);
  ~Hdf5Reader();
  Hdf5Reader(Hdf5Reader&&) noexcept;

  const std::string& path() const;
  bool has(const std::string& dataset) const;
  std::vector<std::string> children(const std::string& group) const;  ///< names, sorted; empty if no group
  std::uint64_t rows(const std::string& dataset) const;
  std::uint64_t chunk_rows(const std::string& dataset) const;  ///< 0 if not chunked
  ValueType type(const std::string& dataset) const;
  bool has_attribute(const std::string& object, const std::string& name) const;
  std::string text_attribute(const std::string& object, const std::string& name) const;
  std::int64_t integer_attribute(const std::string& object, const std::string& name) const;

  /// Rows first .. first + count - 1, converted by HDF5 to the type asked for.
  void read(const std::string& dataset, std::uint64_t first, std::span<double> out) const;
  void read(const std::string& dataset, std::uint64_t first, std::span<std::uint64_t> out) const;
  void read(const std::string& dataset, std::uint64_t first, std::span<std::int64_t> out) const;
  void read(const std::string& dataset, std::uint64_t first, std::span<std::uint8_t> out) const;
  std::vector<double> numbers(const std::string& dataset) const;        ///< the whole column
  std::vector<std::int64_t> integers(const std::string& dataset) const;
  std::vector<std::string> texts(const std::string& dataset) const;
  std::vector<std::string> texts(const std::string& dataset, std::uint64_t first, std::uint64_t count) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Version of the HDF5 library, "1.10.8".
std::string hdf5_version();

}  // namespace tessera
