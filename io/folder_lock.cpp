#include "io/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tessera/error.hpp"

namespace tessera {
namespace {

std::string holder_text(int file) {
  char text[256] = {};
  const ssize_t size = ::pread(file, text, sizeof(text) - 1, 0);
  return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : "another process";
}

std::string own_text() {
  char host[128] = {};
  ::gethostname(host, sizeof(host) - 1);
  return fmt::format("process {} on {}", ::getpid(), host);
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) {
  const std::string path = folder + "/lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw RunError(fmt::format("cannot open {} ({}) check the folder's permissions.", path, std::strerror(errno)));
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      const std::string holder = holder_text(file_);
      ::close(std::exchange(file_, -1));
      throw InputError("another sweep is running in " + folder, holder + " holds its lock",
                       "wait until it ends, or give another --out folder.");
    }
    return;  // ENOLCK, EOPNOTSUPP: no locks here; going on unlocked beats refusing to run
  }
  held_ = true;
  const std::string text = own_text();
  if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, text.data(), text.size(), 0) < 0) {
    // Only the message for a second sweep is poorer.
  }
}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : file_(std::exchange(other.file_, -1)), held_(std::exchange(other.held_, false)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(held_, other.held_);
  return *this;
}

}  // namespace tessera
