// SPDX-License-Identifier: Apache-2.0
// Library files, from any bytes: the reader looks at files that nobody vouches for.

#include "fuzz.hpp"
#include "probes/library/elf.hpp"

using namespace assay;

namespace {

void one(std::string_view input) {
  try {
    const LibraryFile file = read_library_bytes(std::as_bytes(std::span(input.data(), input.size())), "/lib/fuzz.so");
    fuzz::require(file.size_bytes == static_cast<std::int64_t>(input.size()), "size of the file");
    fuzz::require(file.machine == "x86_64", "machine " + file.machine);
    for (const std::string& name : file.exports) fuzz::require(name.size() < input.size(), "an export longer than the file");
    const CblasNaming naming = cblas_naming(file);
    fuzz::require(std::find(file.exports.begin(), file.exports.end(), naming.prefix + "cblas_sgemm" + naming.suffix) !=
                      file.exports.end(),
                  "a naming that the file does not export: " + naming.prefix + " " + naming.suffix);
  } catch (const LibraryError& error) {
    fuzz::require_sentence(error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  return fuzz::run(argc, argv,
                   {one,
                    {"\x7f"
                     "ELF",
                     "cblas_sgemm", "scipy_", "64_", "_64", "GNU", std::string_view("\0\0\0\0\0\0\0\0", 8)}});
}
