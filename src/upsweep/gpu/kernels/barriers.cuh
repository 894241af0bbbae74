// Barriers in shared memory, at which warps with different work meet: a warp that arrives does not wait.
#pragma once
#include "copies.cuh"

__device__ __forceinline__ void barrier_init(u64* barrier, u32 count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u64* barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(barrier)) : "memory");
}
// Arrives when the copies that this thread has started so far have landed.
__device__ __forceinline__ void barrier_arrive_with_copies(u64* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Whether the barrier has been completed once more than `parity` says.
__device__ __forceinline__ bool barrier_passed(u64* barrier, u32 parity) {
  u32 done;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
  return done;
}
// Waits for it. From compute capability 9.0 on the processor suspends the warp meanwhile: warps that ask again and again take
// turns to issue from those that work.
__device__ __forceinline__ void barrier_wait(u64* barrier, u32 parity) {
#if __CUDA_ARCH__ >= 900
  u32 done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
#else
  while (!barrier_passed(barrier, parity)) {}
#endif
}

// A warp's one arrival, when all its lanes have read and written.
__device__ __forceinline__ void arrive(u64* barrier, int lane) {
  __syncwarp();
  if (lane == 0) barrier_arrive(barrier);
}
