// From a cluster and a window to tokens: closed form, bounds, goodput, batch size, data repetition, energy and
// money. All pure functions; the constants come from preset files (io/budget_reader.hpp), each with its unit,
// source, date and evidence grade. Sources of the formulas are named at each function.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/serving.hpp"

namespace tessera {

// --- tokens -------------------------------------------------------------------------------------------------

/// D = peak · devices · seconds · mfu · goodput / (6 N_act): tokens a window pays for, since the loss falls with
/// D and the law counts 6 N_act FLOP per token. peak [FLOP/s per device], mfu in the law's convention.
inline double window_tokens(double peak, double devices, double seconds, double mfu, double goodput,
                            double active_parameters) {
  return peak * devices * seconds * mfu * goodput / (6.0 * active_parameters);
}

/// Bounds on tokens per active parameter D/N_act. Both optional.
struct TokenBounds {
  std::optional<double> low;   ///< below: the architecture is refused for this window
  std::optional<double> high;  ///< above: D is cut, the rest of the window stays unused
};

struct BoundedTokens {
  double tokens = 0;      ///< after the cut
  double per_active = 0;  ///< tokens / N_act, after the cut
  bool cut = false, refused = false;
  double window_used = 1; ///< share of the window that is trained in (1 unless cut)
};
BoundedTokens bound_tokens(double tokens, double active_parameters, const TokenBounds&);

/// What a planner pins besides the size of the cluster and the window.
struct BudgetTerms {
  std::int64_t spare_nodes = 0;  ///< wait for failures: paid for besides the nodes that train
  double stopped_days = 0;       ///< planned stops within the window: paid for, nothing trains [days]
  ServingLimits serving;         ///< architectures above them are left out
  bool operator==(const BudgetTerms&) const = default;
};

// --- goodput ------------------------------------------------------------------------------------------------

/// How a cluster fails and recovers. Failures are memoryless with rate devices · failures_per_device_day +
/// failures_per_job_day; a checkpoint stops the run for the blocking time; a restart costs restart_seconds plus
/// the time to read the checkpoint.
struct GoodputModel {
  std::string name, source, evidence, note;
  double constant = 1.0;                 ///< goodput where `modelled` is false (0 < g <= 1)
  bool modelled = false;
  double failures_per_device_day = 0;    ///< [1/(device·day)]
  double failures_per_job_day = 0;       ///< rate of failures that do not grow with the job [1/day]
  double bytes_per_parameter = 0;        ///< checkpoint size over all stored parameters [B]
  double storage_write = 0;              ///< global bandwidth to storage [B/s]
  double storage_read = 0;               ///< [B/s]
  double device_write = 0;               ///< bandwidth of one device to storage; 0: not a limit [B/s]
  bool asynchronous = true;              ///< blocking is only the copy to host memory, not the whole save
  double device_copy = 0;                ///< copy of one device to host memory; 0: takes no time [B/s]
  double blocking_seconds = 0;           ///< fixed blocking time of one save, besides copy or save [s]
  double restart_seconds = 0;            ///< detect, reschedule, initialise; without reading [s]
  bool restart_can_fail = false;         ///< failures also strike during restarts
  double other_losses = 0;               ///< planned stops, validation, slow nodes: share of time, 0..1
};

struct Goodput {
  double value = 1;             ///< share of the window that is useful training, 0 < value <= 1
  double interval_seconds = 0;  ///< work between two checkpoints
  double mttf_seconds = 0;      ///< mean time to failure; 0: no failures in the model
  double save_seconds = 0;      ///< time to write one checkpoint to storage
  double block_seconds = 0;     ///< training stops this long per save
  double restart_seconds = 0;   ///< with reading
  double checkpoint_bytes = 0;
  bool interval_limited = false;///< storage is too slow for the best interval
};
/// Goodput of `devices` devices training a model of `total_parameters` stored parameters.
/// Interval: the optimum of optimal_interval(), not below the time a save takes.
Goodput goodput(const GoodputModel&, double devices, double total_parameters);

/// Work between checkpoints [s] that maximises segment_goodput: D* = (1 + W0(-exp(-1 - λw)))/λ, principal Lambert
/// branch, by Newton on x + expm1(-x - a) = 0. rate λ [1/s] > 0, block w [s] > 0. Independent of the restart time.
double optimal_interval(double rate, double block_seconds);
/// The dimensionless root x = λD* for a = λw >= 0.
double optimal_interval_root(double a);
/// Renewal argument, exact for memoryless failures, always in (0,1):
/// λD/[(1 + λu) expm1(λ(D + w))]; with failing restarts λD e^(-λu)/expm1(λ(D+w)); λ = 0: D/(D+w).
double segment_goodput(double rate, double interval, double block_seconds, double restart_seconds,
                       bool restart_can_fail);

// --- batch size ---------------------------------------------------------------------------------------------

/// Critical batch: B_crit = coefficient · D^exponent tokens; tokens are worth less above it. Off unless asked for.
struct CriticalBatch {
  std::string name, source, evidence, note;
  double coefficient = 0, exponent = 0;                      ///< B_crit [tokens] of D [tokens]
  double reference_coefficient = 0, reference_exponent = 0;  ///< batch without penalty, same units
  double twenty_percent_coefficient = 0, twenty_percent_exponent = 0;  ///< B* of Zhang et al. in tokens, D in tokens
  double scale_low = 1, scale_high = 1;                      ///< B_crit is known to within these factors
  double tokens_low = 0, tokens_high = 0;                    ///< fitted range of D
};
/// m = (1 + B/B_crit)/(1 + min(B, B_ref)/B_crit) >= 1; effective tokens are D/m. `scale` multiplies B_crit.
double batch_multiplier(const CriticalBatch&, double tokens, double batch_tokens, double scale = 1.0);
/// Sentences for a user: the level passed (20 % batch, B_crit/2, B_crit), extrapolation in D, and the range of m.
std::vector<std::string> batch_notes(const CriticalBatch&, double tokens, double batch_tokens);

// --- data ---------------------------------------------------------------------------------------------------

/// Repeating data: D' = U (1 + R (1 - exp(-(D/U - 1)/R))) effective tokens for D > U (Muennighoff et al. 2023).
struct Repetition {
  std::string name, source, evidence, note;
  double epochs = 0;            ///< R*: epochs over which a repeated token loses its worth
  double note_epochs = 0, warn_epochs = 0;  ///< flags above these numbers of epochs
  double text_stock = 0, text_stock_low = 0, text_stock_high = 0;  ///< public human text [tokens], 90 % interval
};
double repeated_tokens(const Repetition&, double tokens, double unique_tokens);
std::vector<std::string> repetition_notes(const Repetition&, double tokens, double unique_tokens);

/// Tokens per active parameter above which a loss law is extrapolated or untested, below which it fails.
struct OvertrainingFlags {
  std::string source, evidence;
  double low = 0, extrapolated = 0, untested = 0;
};
std::vector<std::string> overtraining_notes(const OvertrainingFlags&, double tokens, double active_parameters);

/// What turns trained tokens into the tokens the law sees. All off by default.
struct TokenValue {
  std::optional<CriticalBatch> critical_batch;
  double critical_scale = 1.0;
  std::optional<Repetition> repetition;
  double unique_tokens = 0;  ///< [tokens]; used with `repetition`
  bool active() const { return critical_batch || (repetition && unique_tokens > 0); }
};
/// Effective tokens: repetition first, then the batch. Monotone in `tokens`, <= tokens, never NaN.
double effective_tokens(const TokenValue&, double tokens, double batch_tokens);

// --- expert imbalance ---------------------------------------------------------------------------------------

/// Load of the busiest rank over the mean: f = 1 + z_R sqrt(s0² + φ/n)/sqrt(e), a floor (experts of a rank are
/// correlated). n tokens per expert in the computation batch, e experts per rank, z_R expected maximum of R normals.
struct ImbalanceModel {
  std::string source, evidence;
  double phi = 0;  ///< sampling variance of a token count over its mean
  double spread = 0;  ///< s0: lasting relative spread of expert loads
};
double expected_maximum_normal(std::int64_t count);  ///< z_R; 0 for one rank
double busiest_rank(const ImbalanceModel&, double tokens_per_expert, double experts_per_rank, std::int64_t ranks);

// --- energy and money ---------------------------------------------------------------------------------------

struct PowerModel {
  std::string name, source, evidence, note;
  double node_watts_per_device = 0;  ///< nameplate of node or rack over its devices [W]
  double load = 0, load_low = 0, load_high = 0;  ///< share of nameplate in training
  double pue = 0, pue_low = 0, pue_high = 0;     ///< facility over IT energy
};
/// Energy [kWh] of device-hours: hours · watts · load · PUE / 1000.
double energy_kwh(const PowerModel&, double device_hours);
/// Device-hours that an energy pays for.
double device_hours_of_energy(const PowerModel&, double kwh);

struct Price {
  std::string name, source, evidence, note, date;  ///< date of the quotation, ISO
  double usd_per_device_hour = 0;
  double low = 0, high = 0;  ///< spread of quotations; 0: none known
};
/// Window [s] on `devices` devices that `usd` buys (the price already contains energy).
double window_of_money(const Price&, double usd, double devices);
/// Window [s] on `devices` devices that `kwh` pays for.
double window_of_energy(const PowerModel&, double kwh, double devices);

}  // namespace tessera
