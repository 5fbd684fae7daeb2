// Words of the plan's enumerations: one table per enumeration, used in both directions.
#include "tessera/plan.hpp"

#include <array>
#include <cstddef>

namespace tessera {
namespace {

template <std::size_t N>
using Words = std::array<std::string_view, N>;

// Order is that of the enumerators.
constexpr Words<4> kSchedules{"1f1b", "interleaved", "zb-h1", "dualpipe"};
constexpr Words<4> kRecomputes{"none", "selective", "super-selective", "full"};
constexpr Words<4> kPrecisions{"bf16", "fp8", "mxfp8", "nvfp4"};
constexpr Words<3> kOptimizers{"adam", "muon", "scion"};

constexpr std::size_t kReasonCount = static_cast<std::size_t>(Reason::count_);

struct ReasonText {
  Reason reason;
  std::string_view key, sentence;
};

constexpr std::array<ReasonText, kReasonCount> kReasons{{
    {Reason::none, "none", "The plan is legal."},
    {Reason::devices, "devices", "tp * cp * pp * dp is not the number of devices of the cluster."},
    {Reason::tp_heads, "tp_heads", "tp does not divide the query heads."},
    {Reason::tp_kv_heads, "tp_kv_heads", "tp is neither a divisor nor a multiple of the key/value heads."},
    {Reason::tp_ffn, "tp_ffn", "tp does not divide the width of a dense or shared FFN."},
    {Reason::cp_sequence, "cp_sequence",
     "2 * cp does not divide the sequence: the two chunks of a context-parallel rank would be unequal."},
    {Reason::tp_sequence, "tp_sequence", "tp does not divide the tokens of a context-parallel rank."},
    {Reason::pp_layers, "pp_layers",
     "The layers cannot be spread over pp stages: pp does not divide them and the stack has no uneven stages, or a "
     "stage would be empty."},
    {Reason::ep_experts, "ep_experts", "ep does not divide the number of routed experts."},
    {Reason::etp_ffn, "etp_ffn", "etp does not divide the width of a routed expert."},
    {Reason::expert_mesh, "expert_mesh", "ep * etp does not divide tp * cp * dp, the devices of a stage."},
    {Reason::folding, "folding",
     "The stack does not fold the expert mesh: it needs etp = tp or etp = 1, and ep a divisor of dp."},
    {Reason::dense_expert_axis, "dense_expert_axis", "ep or etp is above 1 but the model has no experts."},
    {Reason::batch, "batch", "micro_batch * dp does not divide the batch; batches are never rounded."},
    {Reason::virtual_layers, "virtual_layers", "pp * virtual_stages does not divide the layers."},
    {Reason::interleaved_batches, "interleaved_batches",
     "The interleaved schedule needs a number of micro-batches that is a multiple of pp."},
    {Reason::schedule_batches, "schedule_batches",
     "Too few micro-batches for the schedule: zb-h1 needs at least pp; dualpipe needs pp and the micro-batches even "
     "and at least 2 * pp of them."},
    {Reason::schedule_stack, "schedule_stack", "The stack does not have this pipeline schedule."},
    {Reason::zero_stack, "zero_stack", "The stack cannot combine this ZeRO stage with pp > 1."},
    {Reason::precision_device, "precision_device", "The device has no arithmetic in this number format."},
    {Reason::not_canonical, "not_canonical", "The point describes the same plan as another, canonical one."},
    {Reason::memory, "memory", "Evaluated: the heaviest stage needs more memory than the device has."},
    {Reason::memory_bound, "memory_bound",
     "Refused together with its sub-space: an exact lower bound of the memory is above what the device has."},
    {Reason::time_bound, "time_bound",
     "Left out by the pruned search with its sub-space: an exact lower bound of the step time is above the best plan's."},
}};

constexpr bool in_enum_order() {
  for (std::size_t i = 0; i < kReasonCount; ++i)
    if (static_cast<std::size_t>(kReasons[i].reason) != i || kReasons[i].key.empty()) return false;
  return true;
}
static_assert(in_enum_order(), "kReasons must list every Reason in the order of the enumeration");

// A value outside the enumeration can only come from a damaged file; "unknown" keeps that printable.
template <typename Enum, std::size_t N>
constexpr std::string_view word(const Words<N>& words, Enum value) {
  const auto i = static_cast<std::size_t>(value);
  return i < N ? words[i] : std::string_view{"unknown"};
}

template <typename Enum, std::size_t N>
constexpr std::optional<Enum> find(const Words<N>& words, std::string_view text) {
  for (std::size_t i = 0; i < N; ++i)
    if (words[i] == text) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Schedule value) { return word(kSchedules, value); }
std::string_view to_string(Recompute value) { return word(kRecomputes, value); }
std::string_view to_string(Precision value) { return word(kPrecisions, value); }
std::string_view to_string(Optimizer value) { return word(kOptimizers, value); }

std::string_view to_string(Reason value) {
  const auto i = static_cast<std::size_t>(value);
  return i < kReasonCount ? kReasons[i].key : std::string_view{"unknown"};
}

std::string_view explanation(Reason value) {
  const auto i = static_cast<std::size_t>(value);
  return i < kReasonCount ? kReasons[i].sentence : std::string_view{"This version has no such reason."};
}

std::optional<Schedule> schedule_from(std::string_view text) { return find<Schedule>(kSchedules, text); }
std::optional<Recompute> recompute_from(std::string_view text) { return find<Recompute>(kRecomputes, text); }
std::optional<Precision> precision_from(std::string_view text) { return find<Precision>(kPrecisions, text); }
std::optional<Optimizer> optimizer_from(std::string_view text) { return find<Optimizer>(kOptimizers, text); }

}  // namespace tessera
