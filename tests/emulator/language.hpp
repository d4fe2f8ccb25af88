// SPDX-License-Identifier: Apache-2.0
// Arguments and cases of tests/emulator/language.cu.
#pragma once

namespace assay::emulator {

struct LanguageArgs {
  long long* out;
  const float* in;
  float* y;
  unsigned* counters;
  int which;  // a Misuse
};

/// What one run of the entry `misuse` does wrong, or, from `clean_first` on, right.
enum Misuse : int {
  mask_without_self,
  mask_with_exited_lane,
  two_collectives_one_mask,
  shuffle_against_barrier,
  barrier_after_exit,
  two_barriers,
  absent_source,
  incomplete_mma,
  trapped,
  misaligned_read,
  unwritten_global,
  unwritten_shared,
  unwritten_in_one_block,
  past_shared,
  across_the_end,
  past_global,
  null_pointer,
  foreign_local,
  blocks_write_one_place,
  warps_write_one_place,
  lanes_write_one_place,
  atomic_then_plain,
  no_syncwarp,
  shuffle_is_no_barrier,
  race_after_syncwarp,
  syncwarp_of_others,
  narrower_reader,
  read_then_write,
  reader_in_other_warp,
  late_reader_in_other_warp,
  atomics_then_reader,
  last_block_reads,
  clean_first,
  ordered_by_syncwarp = clean_first,
  ordered_by_half_masks,
  ordered_through_a_third_lane,
  neighbours_of_16_bits,
  neighbours_of_8_bits,
  readers_then_barrier_then_writer,
  constants,
  misuse_end
};

}  // namespace assay::emulator
