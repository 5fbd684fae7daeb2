// Whole columns of moderate length (architectures, best plans, tables) into a results file, each with its unit
// and description.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "io/chunk_codec.hpp"
#include "io/hdf5_file.hpp"

namespace tessera {

inline constexpr std::uint64_t kTableChunkRows = 16384;  ///< rows of a chunk of every table but /evaluations

class TableWriter {
 public:
  /// Columns go into `group`, which is created with its description.
  TableWriter(Hdf5Writer& file, std::string group, const std::string& description) : file_(&file), group_(std::move(group)) {
    file.group(group_, description);
  }

  void text(const std::string& name, const std::string& description, const std::vector<std::string>& values) {
    std::size_t width = 1;
    for (const auto& value : values) width = std::max(width, value.size());
    std::vector<std::uint8_t> raw(values.size() * width, 0);
    for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(raw.data() + i * width, values[i].data(), values[i].size());
    write({group_ + "/" + name, ValueType::text, "text", description, width}, raw, values.size());
  }

  /// Numbers; T decides the type in the file: uint8_t, uint32_t, uint64_t, int64_t, float or double.
  template <class T>
  void column(const std::string& name, const std::string& unit, const std::string& description, const std::vector<T>& values) {
    std::vector<std::uint8_t> raw(values.size() * sizeof(T));
    if (!raw.empty()) std::memcpy(raw.data(), values.data(), raw.size());
    write({group_ + "/" + name, type_of<T>(), unit, description, 1}, raw, values.size());
  }

 private:
  template <class T>
  static constexpr ValueType type_of() {
    if constexpr (std::is_same_v<T, std::uint8_t>) return ValueType::u8;
    else if constexpr (std::is_same_v<T, std::uint32_t>) return ValueType::u32;
    else if constexpr (std::is_same_v<T, std::uint64_t>) return ValueType::u64;
    else if constexpr (std::is_same_v<T, std::int64_t>) return ValueType::i64;
    else if constexpr (std::is_same_v<T, float>) return ValueType::f32;
    else {
      static_assert(std::is_same_v<T, double>);
      return ValueType::f64;
    }
  }

  void write(const ColumnSpec& spec, std::vector<std::uint8_t>& raw, std::uint64_t rows) {
    const std::size_t element = value_bytes(spec.type, spec.text_width);
    const std::uint64_t chunk = std::clamp<std::uint64_t>(rows, 1, kTableChunkRows);
    const int column = file_->create(spec, rows, chunk);
    raw.resize((rows + chunk - 1) / chunk * chunk * element, 0);  // the last chunk is a whole one
    std::vector<std::uint8_t> compressed;
    for (std::uint64_t first = 0; first < rows; first += chunk) {
      compress_chunk(std::span<const std::uint8_t>(raw).subspan(first * element, chunk * element), element, compressed);
      file_->write_chunk(column, first, compressed);
    }
  }

  Hdf5Writer* file_;
  std::string group_;
};

}  // namespace tessera
