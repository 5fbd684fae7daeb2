// POSIX files with errors that say what to do: whole writes, reads at an offset, durable renames.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/error.hpp"

namespace tessera {

/// A file operation that failed: the message speaks to who runs a sweep; `reason` is the system's alone.
class FileError : public RunError {
 public:
  FileError(const std::string& message, std::string why) : RunError(message), reason(std::move(why)) {}
  std::string reason;
};

/// A file descriptor. Every function throws FileError with the path and the system's reason; a full disk says
/// so and that the run can be resumed.
class File {
 public:
  enum class Mode { read, create, append };
  File() = default;
  File(const std::string& path, Mode);
  ~File();
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;

  void write(std::span<const std::uint8_t>);
  /// Exactly out.size() bytes at `offset`; false if the file ends before.
  bool read_at(std::uint64_t offset, std::span<std::uint8_t> out) const;
  std::uint64_t size() const;
  void sync();  ///< data and size are on the disk after it
  void close();
  const std::string& path() const { return path_; }

 private:
  int file_ = -1;
  std::string path_;
};

void rename_file(const std::string& from, const std::string& to);
void sync_folder(const std::string& path);  ///< renames and new names in it are on the disk after it
/// Writes aside, syncs, renames, syncs the folder: the path holds the old or the new text, never a part.
void replace_file(const std::string& path, std::string_view text);
std::string read_text(const std::string& path);
/// Bytes that a plain user may still write in the file system of `folder`.
std::uint64_t free_bytes(const std::string& folder);

template <class T>
std::span<const std::uint8_t> bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(T)};
}
template <class T>
std::span<const std::uint8_t> bytes_of(const std::vector<T>& values) {
  return bytes_of(std::span<const T>(values));
}

}  // namespace tessera
