// SPDX-License-Identifier: Apache-2.0
// Targets "model" and "planted" of an op from tables: one row per variant, with a name.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "probes/ops/op.hpp"

namespace assay {

/// What hardware that flushes makes of a number.
template <class T>
T flushed(T v) {
  return std::fabs(v) < std::numeric_limits<T>::min() ? T{0} : v;
}

template <class Row>
using MakeCall = std::function<std::unique_ptr<Call>(const Problem&, const Row&)>;
/// Why a variant cannot take a problem; empty function: each takes all.
template <class Row>
using RefusesRow = std::function<std::optional<std::string>(const Problem&, const Row&)>;

/// `find` returns the row of a variant, or nullptr; `names` are the variants that are listed.
template <class Row>
Target table_target(std::string target, std::string_view op, std::string summary, std::vector<std::string> names,
                    std::function<const Row*(std::string_view)> find, MakeCall<Row> make, RefusesRow<Row> refuses) {
  const auto why_not = [=, op = std::string(op)](const Problem& p, const TargetSpec& spec) -> std::optional<std::string> {
    if (const Row* row = find(spec.variant)) return refuses ? refuses(p, *row) : std::nullopt;
    return fmt::format("target {0} has no \"{1}\" for {2}; name one as {0}:NAME, with NAME one of {3}", target, spec.variant,
                       op, fmt::join(names, ", "));
  };
  return {.name = target,
          .summary = std::move(summary),
          .refuses = why_not,
          .prepare = [=](const Problem& p, const TargetSpec& spec) -> std::unique_ptr<Call> {
            if (const auto reason = why_not(p, spec)) throw Unsupported(*reason);
            return make(p, *find(spec.variant));
          },
          .variants = names};
}

/// Target "model": `rows` are correct ways to compute the op and outlive the target.
template <class Row>
Target model_table(std::string_view op, std::string summary, std::span<const Row> rows, MakeCall<Row> make,
                   RefusesRow<Row> refuses = {}) {
  std::vector<std::string> names;
  for (const Row& r : rows) names.emplace_back(r.name);
  const auto find = [rows](std::string_view variant) -> const Row* {
    for (const Row& r : rows)
      if (r.name == variant) return &r;
    return nullptr;
  };
  return table_target<Row>("model", op, std::move(summary) + " (model:NAME): must never be flagged", std::move(names), find,
                           std::move(make), std::move(refuses));
}

/// Target "planted": a row has also a sentence `what` and the cases that must catch it; `none` is the variant without a fault,
/// which is not listed. `summary` names the correct computation: "a correct softmax". A call copies its row.
template <class Row>
Target planted_table(std::string_view op, std::string summary, Row none, std::vector<Row> rows, MakeCall<Row> make,
                     RefusesRow<Row> refuses = {}) {
  std::vector<std::string> names;
  for (const Row& r : rows) names.emplace_back(r.name);
  rows.push_back(std::move(none));
  const auto table = std::make_shared<const std::vector<Row>>(std::move(rows));
  const auto find = [table](std::string_view variant) -> const Row* {
    for (const Row& r : *table)
      if (r.name == variant) return &r;
    return nullptr;
  };
  return table_target<Row>("planted", op, std::move(summary) + " with one fault planted (planted:NAME): must be caught",
                           std::move(names), find, std::move(make), std::move(refuses));
}

/// The faults as the selftest takes them. Names and sentences must be literals: they outlive the table.
template <class Row>
std::vector<PlantedFault> listed_faults(const std::vector<Row>& rows) {
  std::vector<PlantedFault> listed;
  for (const Row& r : rows)
    listed.push_back({.name = r.name, .what = r.what, .cases = r.cases, .may_hide_in_noise = false, .hangs = false});
  return listed;
}

}  // namespace assay
