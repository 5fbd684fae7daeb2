#include "io/file_system.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

namespace tessera {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  const int code = errno;
  if (code == ENOSPC || code == EDQUOT)
    throw FileError(fmt::format("cannot {} {} (the disk is full) free some space and go on with --resume; what is "
                                "finished is kept.", what, path),
                    "the disk is full");
  throw FileError(fmt::format("cannot {} {} ({}) check the folder's permissions and its disk, then go on with --resume.",
                              what, path, std::strerror(code)),
                  std::strerror(code));
}

std::string folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

}  // namespace

File::File(const std::string& path, Mode mode) : path_(path) {
  int flags = O_RDONLY;
  if (mode == Mode::create) flags = O_WRONLY | O_CREAT | O_TRUNC;
  if (mode == Mode::append) flags = O_WRONLY | O_CREAT | O_APPEND;
  file_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (file_ < 0) fail(mode == Mode::read ? "read" : "write", path);
}

File::~File() {
  if (file_ >= 0) ::close(file_);
}
File::File(File&& other) noexcept : file_(std::exchange(other.file_, -1)), path_(std::move(other.path_)) {}
File& File::operator=(File&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  return *this;
}

void File::write(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file_, bytes.data(), bytes.size());
    if (done < 0) {
      if (errno == EINTR) continue;
      fail("write", path_);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

bool File::read_at(std::uint64_t offset, std::span<std::uint8_t> out) const {
  while (!out.empty()) {
    const ssize_t done = ::pread(file_, out.data(), out.size(), static_cast<off_t>(offset));
    if (done < 0) {
      if (errno == EINTR) continue;
      fail("read", path_);
    }
    if (done == 0) return false;
    out = out.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
  return true;
}

std::uint64_t File::size() const {
  struct stat status {};
  if (::fstat(file_, &status) != 0) fail("read", path_);
  return static_cast<std::uint64_t>(status.st_size);
}

void File::sync() {
  if (::fdatasync(file_) != 0) fail("write", path_);
}

void File::close() {
  // The last errors of a network file system come with close().
  if (file_ >= 0 && ::close(std::exchange(file_, -1)) != 0) fail("write", path_);
}

void rename_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail("write", to);
}

void sync_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail("open", path);
  const int result = ::fsync(folder);
  const int code = errno;
  ::close(folder);
  errno = code;
  if (result != 0 && code != EINVAL) fail("write", path);  // EINVAL: the file system syncs names by itself
}

void replace_file(const std::string& path, std::string_view text) {
  const std::string aside = path + ".tmp";
  File file(aside, File::Mode::create);
  file.write({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  file.sync();
  file.close();
  rename_file(aside, path);
  sync_folder(folder_of(path));
}

std::string read_text(const std::string& path) {
  const File file(path, File::Mode::read);
  std::string text(file.size(), '\0');
  if (!file.read_at(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()}))
    throw RunError("cannot read " + path + " (it became shorter while it was read) try again.");
  return text;
}

std::uint64_t free_bytes(const std::string& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) fail("read", folder);
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

}  // namespace tessera
