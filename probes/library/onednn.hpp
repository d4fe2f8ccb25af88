// SPDX-License-Identifier: Apache-2.0
// oneDNN through its C API, opened by path: majors 2 and 3 behind one face. No oneDNN header is used and nothing is linked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "probes/library/library.hpp"
#include "reference/dtype.hpp"

namespace assay::onednn {

/// The library says that it has no such operation: what() holds its own word for it.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Symbols;  // symbols.hpp: the table of functions

/// An object of the library, destroyed by the library's own function.
struct Destroy {
  int (*function)(void*) = nullptr;
  void operator()(void* object) const { function(object); }  // a status that nobody could act on
};
using Handle = std::unique_ptr<void, Destroy>;

struct Version {
  int major = 0, minor = 0, patch = 0;
  std::string hash;      // of the sources, "" when the builder left it out
  unsigned runtime = 0;  // dnnl_cpu_runtime bits
};

/// An opened oneDNN and its CPU engine. Stays mapped until the process ends.
class Library {
 public:
  /// Errors   LibraryError: foreign, a major that assay does not know, a missing function, a SYCL build.
  static const Library& open(const std::string& path);
  ~Library();

  const Version& version() const { return version_; }
  std::string version_text() const;  // "oneDNN 3.2.0"
  std::string isa() const;           // what it may dispatch to, as ONEDNN_MAX_CPU_ISA names it; "0x..." when unknown
  std::string runtime_text() const;  // "OpenMP"
  int threads() const;               // 0 when its runtime does not say
  const std::string& path() const { return path_; }
  const Symbols& symbols() const { return *symbols_; }
  void* engine() const { return engine_.get(); }

 private:
  Library();
  std::string path_;
  std::unique_ptr<const Symbols> symbols_;
  Version version_;
  void* omp_threads_ = nullptr;
  Handle engine_;
};

/// The library opened from this real path, or nullptr.
const Library* opened(const std::string& path);

/// Dims and steps in elements of a tensor, outermost first.
struct Tensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> dims, strides;
  bool packed = false;  // the primitive works on a copy in the layout that the library likes best (blocked, prepacked)
};

enum class Function : std::uint8_t { relu, gelu_erf, gelu_tanh, silu };

/// What happens to a result in fp32 before it is stored, in order.
struct PostOp {
  enum Kind : std::uint8_t { linear, sum, relu, gelu_erf, gelu_tanh, silu, add } kind = linear;
  float scale = 1;   // linear: factor; sum: factor on what the destination held before
  Tensor term = {};  // add: what is added, argument `added`; a dim of 1 is broadcast
};

/// One axis. Weights are (groups, outputs, inputs, kernel) with the channels of one group, source and destination (batch,
/// channels, length). `dilation` 1: neighbouring taps.
struct Convolution {
  Tensor source, weights, destination;
  std::optional<Tensor> bias;
  std::int64_t stride = 1, dilation = 1, padding_left = 0, padding_right = 0;
  bool direct = true;  // false: the library chooses the algorithm, Winograd among others
};

/// Over the last axis. With `statistics`, mean and variance are outputs of that shape, arguments `mean` and `variance`.
struct Normalization {
  Tensor source, destination;
  std::optional<Tensor> statistics;
  bool scale = false, shift = false;  // f32 vectors, arguments `scale` and `shift`
  float epsilon = 0;
  bool root_mean_square = false;  // no mean is subtracted: x / sqrt(mean of squares + epsilon)
};

/// Which argument of a primitive a tensor is; numbers as in the C API, but for `added`, whose number depends on the post-ops.
enum Argument : std::uint8_t {
  source = 1,
  source_1 = 2,
  destination = 17,
  weights = 33,
  bias = 41,
  mean = 49,
  variance = 50,
  scale = 51,
  shift = 52,
  added = 255
};

/// Memory of ours that the library works in: poisoned with NaN, between guards. Starts at a page, as the library's own does.
class Room {
 public:
  explicit Room(std::size_t bytes);
  std::byte* data() { return storage_.data() + begin_; }
  std::size_t bytes() const { return bytes_; }
  void poison();
  /// Throws std::runtime_error when a guard was written; `what` names the memory.
  void check(const char* what) const;

 private:
  std::vector<std::byte> storage_;
  std::size_t begin_ = 0, bytes_ = 0;
};

/// A created operation with the scratchpad it asked for, which is poisoned before each call and guarded.
class Primitive {
 public:
  // Sums in fp32, no narrower operands (fpmath mode strict). Errors: Refused; std::runtime_error for any other status.

  /// dst = post_ops(src x weights + bias)
  static Primitive matmul(const Library&, const Tensor& src, const Tensor& weights, const std::optional<Tensor>& bias,
                          const Tensor& dst, std::span<const PostOp>);
  /// Along the last axis.
  static Primitive softmax(const Library&, const Tensor& src, const Tensor& dst, bool log);
  static Primitive eltwise(const Library&, Function, const Tensor& src, const Tensor& dst);
  /// dst = f(src + src_1); a dim of 1 in src_1 is broadcast.
  static Primitive sum(const Library&, const Tensor& src, const Tensor& src_1, const Tensor& dst, std::span<const PostOp>);
  /// The same values in another layout or format.
  static Primitive reorder(const Library&, const Tensor& src, const Tensor& dst);
  static Primitive layer_normalization(const Library&, const Normalization&);
  static Primitive convolution(const Library&, const Convolution&, std::span<const PostOp> = {});
  static Primitive deconvolution(const Library&, const Convolution&);

  struct Data {
    Argument argument;
    void* data;
  };
  /// Starts the operation and waits for it. Inputs whose layout the library chose are brought into it first, outputs back.
  /// Errors   std::runtime_error: the library's status, or bytes written outside the scratchpad.
  void run(std::span<const Data>);

  const std::string& implementation() const { return implementation_; }
  std::size_t scratchpad_bytes() const { return scratchpad_ ? scratchpad_->bytes() : 0; }

 private:
  struct Bound {  // one argument
    Argument argument;
    int number;                // in the C API
    Handle memory;             // what the primitive reads or writes
    std::optional<Room> room;  // storage of a packed copy
    Handle plain, reorder;     // the caller's data, and how it gets from there into `room`, or back
  };
  Primitive(const Library&, Handle descriptor);
  static Primitive make(const Library&, const char* what, const void* operation, const void* attributes);  // major 2
  static Primitive convolve(const Library&, const Convolution&, bool transposed, std::span<const PostOp>);
  void bind(Argument, const Tensor&);
  void bind_terms(std::span<const PostOp>);
  void execute(const Handle& primitive, std::span<const std::pair<int, void*>> arguments, const char* what) const;
  void copy(const Bound&) const;

  const Library* library_;
  Handle descriptor_, primitive_, stream_;
  std::vector<Bound> arguments_;
  std::optional<Room> scratchpad_;
  Handle scratchpad_memory_;
  std::string implementation_;
};

}  // namespace assay::onednn
