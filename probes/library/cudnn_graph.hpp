// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph API behind plain data: a description of tensors and steps in, engines and plans out. Only the file that
// implements it knows NVIDIA's headers; where they were not there at build time, every entry says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/dtype.hpp"

namespace assay::cudnn {

/// cuDNN, or the front end's guard before it, does not take this graph: what() is its reason.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Everything else that went wrong: a graph that is badly formed, a call that failed. what(): place and the library's words.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The engine compiled its kernel, and the driver that was opened is the stub of a toolkit, which loads nothing.
struct OnlyCompiled : Error {
  using Error::Error;
};

struct Tensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> dims, strides;  // strides in elements
  std::int64_t id = 0;                      // of its memory when the plan runs, from 1; 0: no memory, inside the graph
  std::optional<float> value{};             // a constant, passed by value
};

enum class Op : std::uint8_t {
  convolution,             // {X, W} -> Y, cross-correlation over two spatial dims, of which the first is 1
  transposed_convolution,  // {Y', W} -> X': gradient of a convolution for its data
  matmul,                  // {A, B} -> C
  copy,
  add,
  subtract,
  multiply,
  divide,
  relu,
  gelu_erf,
  gelu_tanh,
  exp,
  log,
  greatest,   // reduction to the output's dims
  sum,        // reduction to the output's dims
  layernorm,  // {X, scale, bias, epsilon} -> Y or {Y, mean, 1/deviation}
  rmsnorm,    // {X, scale, epsilon} or with a bias {X, scale, epsilon, bias} -> Y or {Y, 1/root mean square}
  attention,  // {Q, K, V} and those of Attention -> O or {O, L}
};

/// Which keys a query sees, and what its scores are made of. Indices of tensors; -1: none.
struct Attention {
  float scale = 1;
  int bias = -1, query_lengths = -1, key_lengths = -1;  // lengths: (b,1,1,1) of i32
  bool bottom_right = false;                            // of the diagonal
  std::optional<std::int64_t> left{}, right{};          // keys from diagonal - left + 1 to diagonal + right
};

struct Step {
  Op op = Op::matmul;
  std::vector<int> inputs, outputs;  // indices of tensors
  std::int64_t pad_left = 0, pad_right = 0, stride = 1, dilation = 1;
  Attention attention{};
};

struct Description {
  std::vector<Tensor> tensors;
  std::vector<Step> steps;
  /// Contents of memory that is no operand of the problem, by Tensor::id.
  std::map<std::int64_t, std::vector<std::byte>> memory{};
  /// Graphs that run after this one where no engine takes the whole in one. They share memory by Tensor::id.
  std::vector<Description> next{};
  /// Bytes of memory that one graph writes and a later one reads, by Tensor::id; of the first graph.
  std::map<std::int64_t, std::size_t> between{};

  int add(Tensor);
  void add(Step);
  /// This graph and those that follow.
  std::vector<const Description*> chain() const;
};

/// Equal for equal graphs and chains of them.
std::string key(const Description&);

/// As memory holds them: fp32, and 32-bit integers.
std::vector<std::byte> filled(float value, std::int64_t count);
std::vector<std::byte> integers(const std::vector<std::int64_t>&);

/// One engine in one configuration.
struct Candidate {
  std::int64_t engine = -1;
  std::map<std::string, std::int64_t> knobs;  // "k2": cudnnBackendKnobType_t 2, as in cuDNN's own logs and errata files
  std::vector<std::string> numerical;         // "tensor core": cudnnBackendNumericalNote_t
  std::vector<std::string> behaviour;         // "runtime compilation": cudnnBackendBehaviorNote_t
  std::int64_t workspace = -1;                // bytes; -1: not known before it is a plan
  std::string name() const;                   // "eng28_k2=4_k3=0"
};

enum class Mode : std::uint8_t { a, b, fallback };

/// The front end's checks by version, device and shape, which keep users away from known defects.
enum class Guards : std::uint8_t { on, off };

/// Why this build of assay has no cuDNN part; empty when it has one.
std::string absent();
/// "1.32.0" of the headers it was built with; empty when it was built without.
std::string front_end_version();

class Library {
 public:
  /// Opens these files: a driver first, because cuDNN opens libcuda.so.1 by name; one pair per process. Throws LibraryError.
  static const Library& open(const std::string& cudnn, const std::string& driver);
  std::int64_t version() const { return version_; }  // 91900
  std::string version_text() const;                  // "9.19.0"
  const std::string& path() const { return path_; }

 private:
  Library() = default;
  std::string path_;
  std::int64_t version_ = 0;
};

/// One graph, the first of its chain, on one device. Its methods throw Refused or Error.
class Graph {
 public:
  /// For a device that is described (JSON, as cuDNN's device properties descriptor takes it), not here. Needs cuDNN 9.8.
  Graph(const Library&, const Description&, int sm, const std::string& device_properties, Guards = Guards::on);
  /// For the device of the calling thread's current context.
  Graph(const Library&, const Description&, int sm, Guards = Guards::on);
  ~Graph();
  Graph(Graph&&) noexcept;

  /// With the guards off: what the front end would have refused it for; empty when it would not.
  const std::string& passed_guard() const;
  /// The front end's own serialisation: tensors and steps as they were given to cuDNN.
  std::string json() const;
  /// Engines that cuDNN numbers for this graph, 0 ... count - 1; most of them refuse it.
  std::int64_t engine_count() const;
  /// What a heuristic proposes, best first. Indices of candidates(), which grows: a configuration that is there already gets
  /// its old index.
  std::vector<int> propose(Mode);
  /// Index of this engine with its own choice of knobs.
  int propose_engine(std::int64_t engine);
  const std::vector<Candidate>& candidates() const;
  /// Makes candidate `index` a plan: engines that compile at run time compile here. Throws OnlyCompiled, too.
  void finalise(int index);
  /// The finalised plan as cuDNN serialises it.
  std::string plan_json(int index) const;
  /// Starts the plan on this stream (a CUstream); `memory` by Tensor::id, device addresses of logical element 0.
  void execute(int index, void* stream, const std::map<std::int64_t, void*>& memory, void* workspace) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace assay::cudnn
