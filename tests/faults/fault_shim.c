// Preloaded into the program by the tests of faults: counts what it does to files of one folder, and makes the k-th of
// these calls fail the way a machine does. Environment:
//   TESSERA_FAULT_FOLDER  calls outside of this folder are left alone
//   TESSERA_FAULT_COUNT   the number of calls is appended to this file, a line per process that ends by itself
//   TESSERA_FAULT_KILL    SIGKILL at call k (1 = the first); a write is torn: half of it reaches the file
//   TESSERA_FAULT_DENY    1: every call fails with EACCES, as for a user without write access
//   TESSERA_FAULT_RANK    only in the process of this MPI rank (PMI_RANK)
//   TESSERA_FAULT_CLOCK   1: the wall clock runs backwards, a second for each look
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long calls;
static const char* folder;
static long kill_at;
static int deny, backwards;

#define REAL(name, type) ((type)dlsym(RTLD_NEXT, name))

__attribute__((constructor)) static void begin(void) {
  const char* rank = getenv("TESSERA_FAULT_RANK");
  const char* mine = getenv("PMI_RANK");
  if (rank && (!mine || strcmp(rank, mine) != 0)) return;
  folder = getenv("TESSERA_FAULT_FOLDER");
  const char* k = getenv("TESSERA_FAULT_KILL");
  kill_at = k ? atol(k) : 0;
  deny = getenv("TESSERA_FAULT_DENY") != NULL;
  backwards = getenv("TESSERA_FAULT_CLOCK") != NULL;
}

__attribute__((destructor)) static void end(void) {
  const char* path = getenv("TESSERA_FAULT_COUNT");
  if (!path || !folder) return;
  folder = NULL;
  FILE* file = fopen(path, "a");
  if (!file) return;
  fprintf(file, "%ld\n", calls);
  fclose(file);
}

static int ours(const char* path) { return folder && path && strncmp(path, folder, strlen(folder)) == 0; }

static int ours_by_fd(int fd) {
  if (!folder) return 0;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return 0;
  path[n] = 0;
  return ours(path);
}

// 1: the call shall fail. Does not come back where the process shall die.
static int fault(int fd, const void* bytes, size_t size) {
  if (__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) == kill_at) {
    if (bytes && size > 1 && REAL("write", ssize_t (*)(int, const void*, size_t))(fd, bytes, size / 2) < 0) _exit(99);
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  if (deny) errno = EACCES;
  return deny;
}

static int opened(const char* name, const char* path, int flags, mode_t mode) {
  if (ours(path) && (flags & (O_CREAT | O_WRONLY | O_RDWR)) && fault(-1, NULL, 0)) return -1;
  return REAL(name, int (*)(const char*, int, ...))(path, flags, mode);
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
  va_end(more);
  return opened("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
  va_end(more);
  return opened("open64", path, flags, mode);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  if (ours_by_fd(fd) && fault(fd, bytes, size)) return -1;
  return REAL("write", ssize_t (*)(int, const void*, size_t))(fd, bytes, size);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) {
  if (ours_by_fd(fd) && fault(fd, NULL, 0)) return -1;
  return REAL("pwrite", ssize_t (*)(int, const void*, size_t, off_t))(fd, bytes, size, at);
}

ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t at) {
  if (ours_by_fd(fd) && fault(fd, NULL, 0)) return -1;
  return REAL("pwrite64", ssize_t (*)(int, const void*, size_t, off64_t))(fd, bytes, size, at);
}

int fsync(int fd) {
  if (ours_by_fd(fd) && fault(-1, NULL, 0)) return -1;
  return REAL("fsync", int (*)(int))(fd);
}

int fdatasync(int fd) {
  if (ours_by_fd(fd) && fault(-1, NULL, 0)) return -1;
  return REAL("fdatasync", int (*)(int))(fd);
}

int ftruncate(int fd, off_t size) {
  if (ours_by_fd(fd) && fault(-1, NULL, 0)) return -1;
  return REAL("ftruncate", int (*)(int, off_t))(fd, size);
}

int rename(const char* from, const char* to) {
  if (ours(to) && fault(-1, NULL, 0)) return -1;
  return REAL("rename", int (*)(const char*, const char*))(from, to);
}

int unlink(const char* path) {
  if (ours(path) && fault(-1, NULL, 0)) return -1;
  return REAL("unlink", int (*)(const char*))(path);
}

int remove(const char* path) {
  if (ours(path) && fault(-1, NULL, 0)) return -1;
  return REAL("remove", int (*)(const char*))(path);
}

int mkdir(const char* path, mode_t mode) {
  if (ours(path) && fault(-1, NULL, 0)) return -1;
  return REAL("mkdir", int (*)(const char*, mode_t))(path, mode);
}

// An hour before the start, then a second earlier at each look.
static time_t wrong(time_t now) { return backwards ? now - 3600 - __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) : now; }

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = REAL("clock_gettime", int (*)(clockid_t, struct timespec*))(clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec = wrong(now->tv_sec);
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  const int result = REAL("gettimeofday", int (*)(struct timeval*, void*))(now, zone);
  if (result == 0) now->tv_sec = wrong(now->tv_sec);
  return result;
}

time_t time(time_t* out) {
  const time_t now = wrong(REAL("time", time_t (*)(time_t*))(NULL));
  if (out) *out = now;
  return now;
}
