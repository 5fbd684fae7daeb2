// One sweep per folder: an advisory lock (flock) on DIR/lock. The kernel drops it when its holder dies, however
// it dies, so no left-over file ever blocks a resume; the file itself stays and holds the holder's name.
#pragma once
#include <string>

namespace tessera {

class FolderLock {
 public:
  FolderLock() = default;
  /// Takes the lock. Throws InputError naming the holder if another process has it, RunError if the file
  /// cannot be opened. On file systems without locks (some parallel ones) held() is false and nothing is locked.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(FolderLock&&) noexcept;
  FolderLock& operator=(FolderLock&&) noexcept;
  bool held() const { return held_; }

 private:
  int file_ = -1;
  bool held_ = false;
};

}  // namespace tessera
