// The formulas of the laws, for plain doubles and for numbers that carry derivatives (the fitter). Every form is
// a short list of terms whose sum is the loss, so that loss(), loss_terms(), data_term() and a fit cannot disagree.
#pragma once
#include <array>
#include <cmath>
#include <cstddef>

#include "tessera/law.hpp"

namespace tessera::formula {

/// A formula point by its natural logs.
struct LogPoint {
  double total, active, tokens, open, split;  ///< logs of N_tot, N_act, D, 1 - S, G
  double sparsity, experts, active_experts, active_share;
  explicit LogPoint(const LawPoint& p)
      : total(std::log(p.total)), active(std::log(p.active)), tokens(std::log(p.tokens)), open(std::log1p(-p.sparsity)),
        split(std::log(p.split)), sparsity(p.sparsity), experts(p.experts), active_experts(p.active_experts),
        active_share(p.active / p.total) {}
};

template <class T>
struct Terms {
  static constexpr std::size_t kMost = 6;
  std::array<const char*, kMost> name{};
  std::array<T, kMost> value{};
  std::size_t count = 0;
  void add(const char* term, const T& nats) {
    name[count] = term;
    value[count++] = nats;
  }
};

template <class T>
struct Data {
  T amplitude, exponent;
};

/// Saturated expert count of Clark et al. 2022: E_start at one expert, E_max at infinitely many.
template <class T>
T saturated(double count_minus_one, const T& start, const T& max) {
  return 1.0 / (1.0 / (count_minus_one + 1.0 / (1.0 / start - 1.0 / max)) + 1.0 / max);
}

/// amplitude · exp(log_power); an absent term (amplitude 0) is 0 even where its power is infinite.
template <class T>
T term(const T& amplitude, const T& log_power) {
  using std::exp;
  if (amplitude == 0.0) return T(0.0);
  return amplitude * exp(log_power);
}

/// All terms but the data term, and the data term's amplitude and exponent. Additive forms only.
template <class T>
Data<T> split_terms(LawForm form, const T* c, const LogPoint& p, Terms<T>& t) {
  using std::exp;
  using std::log;
  T amplitude(0.0), exponent(0.0);
  switch (form) {
    case LawForm::mosaic:
      t.add("size", term(c[0], T(-c[5] * p.total)));
      t.add("sparsity", term(c[2], T(-c[7] * p.open)));
      t.add("split", term(c[3], T(-c[8] * p.open - c[9] * p.total - c[10] * p.split)));
      t.add("constant", c[4]);
      amplitude = c[1], exponent = c[6];
      break;
    case LawForm::chinchilla:
      t.add("size", term(c[1], T(-c[3] * p.total)));
      t.add("constant", c[0]);
      amplitude = c[2], exponent = c[4];
      break;
    case LawForm::granularity:
      t.add("size", term(c[0], T(-c[1] * p.total)));
      t.add("split", term(c[4], T(-c[5] * p.split - c[1] * p.total)));
      t.add("constant", c[6]);
      amplitude = c[2], exponent = c[3];
      break;
    case LawForm::joint_moe: {
      const T experts = log(saturated(p.experts - 1, c[8], c[9]));
      t.add("size", term(c[0], T(c[2] * experts + (c[1] + c[3] * experts) * p.active)));
      t.add("constant", c[10]);
      amplitude = term(c[4], T(c[6] * experts));
      exponent = -(c[5] + c[7] * experts);
      break;
    }
    case LawForm::abnar:
      t.add("size", term(c[0], T(-c[5] * p.total)));
      t.add("sparsity", term(c[2], T(-c[7] * p.open)));
      t.add("interaction", term(c[3], T(-c[8] * p.open - c[9] * p.total)));
      t.add("constant", c[4]);
      amplitude = c[1], exponent = c[6];
      break;
    case LawForm::zhao: {
      const double G = p.active_experts, S = p.sparsity;
      const T size = exp(-c[7] * p.total), active = exp(-c[7] * p.active);
      t.add("experts", (c[0] * G + c[1] / G + c[2] * (S * S) + c[3] * S) * (size + c[4] * active + c[5] * p.active_share));
      t.add("size", c[6] * size);
      t.add("active", c[10] * active);
      t.add("constant", c[11]);
      amplitude = c[8], exponent = c[9];
      break;
    }
    case LawForm::frantar:
      t.add("sparsity", term(c[0], T(c[1] * p.open - c[3] * p.total)));
      t.add("size", term(c[2], T(-c[3] * p.total)));
      t.add("constant", c[6]);
      if (c[4] > 0.0) amplitude = exp(c[5] * log(c[4]));
      exponent = c[5];
      break;
    default:
      break;
  }
  return {amplitude, exponent};
}

/// Inside of Kaplan's power: size part and data part; the loss is (size + data)^aD.
template <class T>
std::array<T, 2> kaplan_parts(const T* c, const LogPoint& p) {
  using std::exp;
  using std::log;
  return {exp((log(c[2]) - p.total) * c[0] / c[1]), T(c[3] * std::exp(-p.tokens))};
}

/// log10 of Clark's loss.
template <class T>
T clark_log10(const T* c, const LogPoint& p) {
  using std::log;
  const double size = p.active / M_LN10;
  const T experts = log(saturated(p.experts - 1, c[4], c[5])) / M_LN10;
  return c[0] * size + c[1] * experts + c[2] * size * experts + c[3];
}

/// The whole prediction [nats]. The point must lie in the formula's domain.
template <class T>
T predict(LawForm form, const T* c, const LogPoint& p) {
  using std::exp;
  using std::log;
  if (form == LawForm::clark) return exp(clark_log10(c, p) * M_LN10);
  if (form == LawForm::kaplan) {
    const auto parts = kaplan_parts(c, p);
    return exp(c[1] * log(parts[0] + parts[1]));
  }
  Terms<T> t;
  const Data<T> data = split_terms(form, c, p, t);
  T sum = term(data.amplitude, T(-data.exponent * p.tokens));
  for (std::size_t i = 0; i < t.count; ++i) sum += t.value[i];
  return sum;
}

/// Does the formula have a value here (tokens aside)? The point is a formula_point().
bool in_domain(LawForm, const LawPoint&);

}  // namespace tessera::formula
