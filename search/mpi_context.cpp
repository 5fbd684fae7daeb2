#include "search/mpi_context.hpp"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>

#include "search/hash.hpp"
#include "search/serial_context.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr auto kPollPause = std::chrono::milliseconds(1);
constexpr int kReduceTag = 7;

void must(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw RunError(std::string("MPI failed in ") + what + ": " + std::string(text.data(), static_cast<std::size_t>(length)));
}

/// Waits without spinning: a rank that has nothing to do leaves its processor to others.
void wait_quietly(MPI_Request& request) {
  int done = 0;
  while (true) {
    must(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done) return;
    std::this_thread::sleep_for(kPollPause);
  }
}

/// A 64-bit counter in the memory of rank 0. MPI_Win_allocate aligns it (a window over memory of one's own that is
/// not 16-byte aligned corrupts atomics in some MPI builds).
class SharedCounter {
 public:
  explicit SharedCounter(MPI_Comm comm) {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    must(MPI_Win_allocate(rank == 0 ? sizeof(std::uint64_t) : 0, 1, MPI_INFO_NULL, comm, &base_, &window_), "MPI_Win_allocate");
    if (rank == 0) *base_ = 0;
    must(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all");
    MPI_Win_sync(window_);
    MPI_Barrier(comm);
  }
  ~SharedCounter() {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;

  std::uint64_t fetch_add(std::uint64_t n) { return fetch(n, MPI_SUM); }
  std::uint64_t exchange(std::uint64_t n) { return fetch(n, MPI_REPLACE); }

 private:
  std::uint64_t fetch(std::uint64_t n, MPI_Op op) {
    std::uint64_t before = 0;
    must(MPI_Fetch_and_op(&n, &before, MPI_UINT64_T, 0, 0, op, window_), "MPI_Fetch_and_op");
    must(MPI_Win_flush(0, window_), "MPI_Win_flush");
    return before;
  }
  std::uint64_t* base_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
};

/// Units by a shared counter.
class CounterSource : public WorkSource {
 public:
  CounterSource(MPI_Comm comm, std::vector<std::uint64_t> units) : units_(std::move(units)), counter_(comm) {}
  std::optional<std::uint64_t> next() override {
    if (closed_) return std::nullopt;
    const std::uint64_t i = counter_.fetch_add(1);
    taken_ = std::min<std::uint64_t>(i + 1, units_.size());
    if (i < units_.size()) return units_[i];
    closed_ = true;
    return std::nullopt;
  }
  void close() override {
    if (!closed_) counter_.exchange(kEnd);
    closed_ = true;
  }
  std::uint64_t taken() const override { return taken_; }

 private:
  static constexpr std::uint64_t kEnd = std::uint64_t{1} << 62;  // far beyond any unit, far below overflow
  std::vector<std::uint64_t> units_;
  std::uint64_t taken_ = 0;
  bool closed_ = false;
  SharedCounter counter_;
};

/// Unit i goes to rank i % ranks: where the counter does not work.
class CyclicSource : public WorkSource {
 public:
  CyclicSource(std::vector<std::uint64_t> units, int rank, int ranks)
      : units_(std::move(units)), next_(static_cast<std::size_t>(rank)), ranks_(static_cast<std::size_t>(ranks)) {}
  std::optional<std::uint64_t> next() override {
    if (closed_ || next_ >= units_.size()) return std::nullopt;
    const std::uint64_t unit = units_[next_];
    next_ += ranks_;
    return unit;
  }
  void close() override { closed_ = true; }
  std::uint64_t taken() const override { return std::min(next_, units_.size()); }

 private:
  std::vector<std::uint64_t> units_;
  std::size_t next_, ranks_;
  bool closed_ = false;
};

/// The environment asks for the fallback: for MPI builds whose one-sided operations need a busy target.
bool cyclic_wanted() {
  const char* wanted = std::getenv("TESSERA_UNITS");
  if (!wanted || std::string(wanted) == "counter") return false;
  if (std::string(wanted) == "cyclic") return true;
  throw InputError("TESSERA_UNITS is " + std::string(wanted), "it names how units of work are shared among ranks", "set it to counter or cyclic, or unset it.");
}

class MpiContext : public Context {
 public:
  MpiContext() {
    cyclic_wanted();  // refused before MPI is there to be finalised
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &ranks_);
    count_neighbours();
    counter_works_ = !cyclic_wanted() && test_counter();
  }
  ~MpiContext() override {
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  int ranks_on_my_cores() const override { return neighbours_; }

  std::unique_ptr<WorkSource> share(std::vector<std::uint64_t> units) override {
    if (counter_works_) return std::make_unique<CounterSource>(comm_, std::move(units));
    return std::make_unique<CyclicSource>(std::move(units), rank_, ranks_);
  }
  void broadcast(Bytes& bytes, int root) override {
    std::uint64_t size = bytes.size();
    must(MPI_Bcast(&size, 1, MPI_UINT64_T, root, comm_), "MPI_Bcast");
    bytes.resize(size);
    for (std::uint64_t at = 0; at < size; at += kMostBytes)
      must(MPI_Bcast(bytes.data() + at, static_cast<int>(std::min(size - at, kMostBytes)), MPI_BYTE, root, comm_), "MPI_Bcast");
  }
  std::int64_t largest(std::int64_t value) override {
    std::int64_t result = 0;
    must(MPI_Allreduce(&value, &result, 1, MPI_INT64_T, MPI_MAX, comm_), "MPI_Allreduce");
    return result;
  }
  void reduce(const std::function<Bytes()>& pack, const std::function<void(std::span<const std::uint8_t>)>& merge) override {
    for (int step = 1; step < ranks_; step *= 2) {
      if ((rank_ & step) != 0) {
        const Bytes bytes = pack();
        if (bytes.size() > kMostBytes) throw RunError("the result of a rank does not fit into one message");
        must(MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank_ - step, kReduceTag, comm_), "MPI_Send");
        return;
      }
      if (rank_ + step >= ranks_) continue;
      MPI_Status status;
      must(MPI_Probe(rank_ + step, kReduceTag, comm_, &status), "MPI_Probe");
      int size = 0;
      MPI_Get_count(&status, MPI_BYTE, &size);
      Bytes bytes(static_cast<std::size_t>(size));
      must(MPI_Recv(bytes.data(), size, MPI_BYTE, rank_ + step, kReduceTag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
      merge(bytes);
    }
  }
  void wait_for_all() override {
    MPI_Request request;
    must(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier");
    wait_quietly(request);
  }
  void poll() override {
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &flag, MPI_STATUS_IGNORE);
  }

 private:
  static constexpr std::uint64_t kMostBytes = 1u << 30;

  /// Ranks of this machine with the same affinity mask.
  void count_neighbours() {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    sched_getaffinity(0, sizeof(mask), &mask);
    Hash hash;
    hash.bytes(&mask, sizeof(mask));
    const std::uint64_t mine = hash.value();
    MPI_Comm node;
    MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
    int size = 1;
    MPI_Comm_size(node, &size);
    std::vector<std::uint64_t> all(static_cast<std::size_t>(size));
    MPI_Allgather(&mine, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, node);
    MPI_Comm_free(&node);
    neighbours_ = static_cast<int>(std::count(all.begin(), all.end(), mine));
  }

  /// Some MPI builds lose atomic updates: count to a known sum before relying on it.
  bool test_counter() {
    constexpr std::uint64_t rounds = 16;
    std::int64_t fault = 0;
    {
      SharedCounter counter(comm_);
      std::uint64_t last = 0;
      for (std::uint64_t i = 0; i < rounds; ++i) {
        const std::uint64_t got = counter.fetch_add(1);
        if (i > 0 && got <= last) fault = 1;
        last = got;
      }
      MPI_Barrier(comm_);
      if (counter.fetch_add(0) != rounds * static_cast<std::uint64_t>(ranks_)) fault = 1;
      MPI_Barrier(comm_);
    }
    return largest(fault) == 0;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, ranks_ = 1, neighbours_ = 1;
  bool counter_works_ = false;
};

int number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : 0;
}

}  // namespace

bool started_by_mpi() {
  for (const char* variable : {"PMI_RANK", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS"})
    if (std::getenv(variable)) return true;
  return false;
}

std::unique_ptr<Context> make_context() {
  std::unique_ptr<Context> context;
  if (started_by_mpi()) context = std::make_unique<MpiContext>();
  else context = std::make_unique<SerialContext>();
  for (const char* variable : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}) {
    const int tasks = number_of(variable);
    if (tasks > 1 && context->ranks() == 1)
      throw InputError("this process is alone, but " + std::string(variable) + " is " + std::to_string(tasks),
                       "the tasks do not see each other, each would do the whole sweep",
                       "start it with mpiexec, or with srun --mpi=pmi2; for one process use srun -n 1 or unset " +
                           std::string(variable));
  }
  return context;
}

}  // namespace tessera
