// SPDX-License-Identifier: Apache-2.0
// How a target adds and multiplies, read from some fifteen small gemm calls: no verdict, facts to compare builds by.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "probes/run/arena.hpp"

namespace assay {

struct ProbeAnswer {
  std::string name, what;
  double value = 0;
  bool uniform = true;  // every element of the result gave this answer; else the value is that of the first
};

/// How many ones survive between two marks (models::OrderProfile), at one length of the sum.
struct OrderSeen {
  std::int64_t k = 0;
  std::string digest;             // of all counts: equal digests, equal order
  double beside = 0, across = 0;  // counts with the second mark at place 1 and at place k - 1
  bool columns_alike = true;      // every column of the result has the same counts
  std::vector<std::string> like;  // models with the same counts
};

struct Fingerprint {
  std::string target, variant, library, formats;
  std::string refused;   // why there is none: "unsupported: ..."; the rest is empty then
  std::string declared;  // the arithmetic that the target declares
  std::map<std::string, std::string> facts;
  std::vector<ProbeAnswer> sums, operands;
  std::vector<std::string> like;           // models that give every answer of `sums`
  std::vector<std::string> operands_like;  // formats and roundings that give every answer of `operands`
  std::vector<OrderSeen> orders;
  // Of the default inputs of a gemm of 64 x 64 x 64:
  std::string digest;   // of the output
  bool repeats = true;  // a second call gave the same bits
  double bias = 0;      // mean of sign(exact) * error, in units of the RMS error; 0 where nothing is rounded
  int zero_bits = 0;    // trailing zero bits common to all outputs
  std::map<std::string, double> bits_like;  // share of outputs with the bits of each model
};

/// One fingerprint per format of gemm with fp32 results (fp32, bf16 and fp16 operands), in a worker of its own each.
std::vector<Fingerprint> fingerprint(const TargetSpec&, double deadline_s);
nlohmann::json to_json(const Fingerprint&);

}  // namespace assay
